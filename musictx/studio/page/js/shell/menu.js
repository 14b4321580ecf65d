/** Menus: a <details> that closes after a choice, a click elsewhere, or Escape. */

import { fill, h, icon } from "../core/dom.js";

/**
 * @param {string} name  of the icon
 * @param {string} label
 * @param {() => (Node | null)[]} items  called each time the menu opens
 */
export function menu(name, label, items) {
  const list = h("div.items");
  const summary = h("summary", null, icon(name), h("span.word", null, label));
  const details = h("details.menu", {
    ontoggle() {
      if (details.open) fill(list, ...items());
    },
    onkeydown(event) {
      const all = [...list.querySelectorAll("button, a")];
      const place = all.indexOf(document.activeElement);
      if (event.key === "Escape" && details.open) {
        details.open = false;
        summary.focus();
      } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
        if (!details.open) return;
        all.at((place + (event.key === "ArrowDown" ? 1 : -1) + all.length) % all.length)?.focus();
      } else return;
      event.preventDefault();
      event.stopPropagation();
    },
  }, summary, list);
  summary.setAttribute("aria-label", label);
  summary.title = label;
  list.addEventListener("click", (event) => {
    if (event.target.closest("button, a")) details.open = false;
  });
  document.addEventListener("pointerdown", (event) => {
    if (details.open && !details.contains(event.target)) details.open = false;
  });
  return details;
}
