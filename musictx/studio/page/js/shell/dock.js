/** The buttons at the bottom of a phone's screen, which open the panels. */

import { fill, h, icon } from "../core/dom.js";

const SHEETS = [["tracks", "tracks", "Tracks"], ["panel", "spark", "Compose"]];

/** @param {App} app @param {HTMLElement} dock */
export function mountDock(app, dock) {
  const buttons = SHEETS.map(([id, name, label]) =>
    h("button.quiet", { "aria-controls": id, "aria-expanded": false, onclick: () => toggle(id) }, icon(name), label));
  fill(dock, ...buttons);

  function toggle(id) {
    const open = document.body.dataset.sheet === id ? "" : id;
    document.body.dataset.sheet = open;
    buttons.forEach((button, i) => button.setAttribute("aria-expanded", String(SHEETS[i][0] === open)));
    if (open) /** @type {HTMLElement | null} */ (document.querySelector(`#${open} button`))?.focus();
  }

  document.getElementById("stage").addEventListener("pointerdown", () => {
    if (document.body.dataset.sheet) toggle(document.body.dataset.sheet);
  }, { capture: true });
  app.on("shown", (shown) => {
    if (shown && document.body.dataset.sheet) toggle(document.body.dataset.sheet);
  });
}
