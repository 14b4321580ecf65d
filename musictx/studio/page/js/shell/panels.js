/** The tabs of the panel at the right; in narrow windows, the buttons that open the panels. */

import { chooseOne, markChosen } from "../core/dom.js";

/** Let each tab show its body; restoring the settings of a take shows the first. @param {App} app @param {HTMLElement} panel */
export function mountSidePanel(app, panel) {
  const [tabs, bodies] = [".tab", ".tab-body"].map((selector) => /** @type {HTMLElement[]} */ ([...panel.querySelectorAll(selector)]));
  const choose = (index) => {
    markChosen(tabs, index, "aria-selected");
    bodies.forEach((body, i) => { body.hidden = i !== index; });
  };
  chooseOne(tabs, choose);
  choose(0);
  app.on("restore", () => choose(0));
}

/** Let each button of the dock open its panel as a sheet, or close it. @param {App} app @param {HTMLElement} dock */
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

  const close = () => document.body.dataset.sheet && toggle(document.body.dataset.sheet);
  document.getElementById("stage").addEventListener("pointerdown", close, { capture: true });
  app.on("shown", (shown) => shown && close());
}
