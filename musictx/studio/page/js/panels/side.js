/** The tabs of the panel at the right. */

import { chooseOne, markChosen } from "../core/dom.js";

/** Let each tab show its body; the event `ask` shows the first. @param {App} app @param {HTMLElement} panel */
export function mountSidePanel(app, panel) {
  const [tabs, bodies] = [".tab", ".tab-body"].map((selector) => /** @type {HTMLElement[]} */ ([...panel.querySelectorAll(selector)]));
  const choose = (index) => {
    markChosen(tabs, index, "aria-selected");
    bodies.forEach((body, i) => { body.hidden = i !== index; });
  };
  chooseOne(tabs, choose);
  choose(0);
  app.on("ask", () => choose(0));
}
