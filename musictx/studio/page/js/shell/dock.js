/** The buttons at the bottom of a phone's screen, which open the panels. */

/** @param {App} app @param {HTMLElement} dock */
export function mountDock(app, dock) {
  const buttons = [...dock.children];
  const sheetOf = (button) => button.getAttribute("aria-controls");
  for (const button of buttons) button.addEventListener("click", () => toggle(sheetOf(button)));

  function toggle(id) {
    const open = document.body.dataset.sheet === id ? "" : id;
    document.body.dataset.sheet = open;
    for (const button of buttons) button.setAttribute("aria-expanded", String(sheetOf(button) === open));
    if (open) /** @type {HTMLElement | null} */ (document.querySelector(`#${open} button`))?.focus();
  }

  document.getElementById("stage").addEventListener("pointerdown", () => {
    if (document.body.dataset.sheet) toggle(document.body.dataset.sheet);
  }, { capture: true });
  app.on("shown", (shown) => {
    if (shown && document.body.dataset.sheet) toggle(document.body.dataset.sheet);
  });
}
