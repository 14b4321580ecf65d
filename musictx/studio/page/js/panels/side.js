/** The tabs of the panel at the right. */

import { fill, h, arrowKeys } from "../core/dom.js";

/** Make a tab for each label, and return their bodies. The event `ask` shows the first tab. @param {App} app @param {HTMLElement} panel @param {string[]} labels @returns {HTMLElement[]} */
export function mountSidePanel(app, panel, labels) {
  const bodies = labels.map((label, i) => h("div.tab-body", { id: `tab-${i}`, role: "tabpanel", "aria-label": label, hidden: i > 0 }));
  const tabs = labels.map((label, i) => h("button.tab", {
    role: "tab", "aria-selected": i === 0, "aria-controls": `tab-${i}`, tabIndex: i ? -1 : 0,
    onclick: () => choose(i),
  }, label));
  arrowKeys(tabs, choose);
  function choose(index) {
    tabs.forEach((tab, i) => {
      tab.setAttribute("aria-selected", String(i === index));
      tab.tabIndex = i === index ? 0 : -1;
      bodies[i].hidden = i !== index;
    });
  }
  app.on("ask", () => choose(0));
  fill(panel, h("div.tabs", { role: "tablist", "aria-label": "Composing" }, ...tabs), ...bodies);
  return bodies;
}
