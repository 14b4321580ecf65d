/** Menus: a button and a popover, which closes after a choice, and which the browser closes after a click elsewhere or Escape. */

import { fill, h, icon } from "../core/dom.js";

/**
 * @param {string} name  of the icon
 * @param {string} label
 * @param {() => (Node | null)[]} items  called each time the menu opens
 */
export function menu(name, label, items) {
  const list = h("div.items", {
    popover: "auto",
    onbeforetoggle: ({ newState }) => newState === "open" && fill(list, ...items()),
    onclick: ({ target }) => target.closest("button, a") && list.hidePopover(),
  });
  const button = h("button.quiet.menu", { title: label, "aria-label": label, popoverTargetElement: list }, icon(name), h("span.word", null, label));
  return h("span", {
    onkeydown(event) {
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (!step || !list.matches(":popover-open")) return;
      const all = [...list.querySelectorAll("button, a")];
      const place = all.indexOf(document.activeElement); // -1 on the button
      all.at((place + step + all.length) % all.length)?.focus();
      event.preventDefault();
    },
  }, button, list);
}
