/** The tabs of the panel at the right. */

import { fill, h, arrowKeys, markChosen } from "../core/dom.js";

/** Make a tab for each label, and return their bodies. The event `ask` shows the first tab. @param {App} app @param {HTMLElement} panel @param {string[]} labels @returns {HTMLElement[]} */
export function mountSidePanel(app, panel, labels) {
  const bodies = labels.map((label, i) => h("div.tab-body", { id: `tab-${i}`, role: "tabpanel", "aria-label": label }));
  const tabs = labels.map((label, i) => h("button.tab", { role: "tab", "aria-controls": `tab-${i}`, onclick: () => choose(i) }, label));
  arrowKeys(tabs, choose);
  function choose(index) {
    markChosen(tabs, index, "aria-selected");
    bodies.forEach((body, i) => { body.hidden = i !== index; });
  }
  choose(0);
  app.on("ask", () => choose(0));
  fill(panel, h("div.tabs", { role: "tablist", "aria-label": "Composing" }, ...tabs), ...bodies);
  return bodies;
}
