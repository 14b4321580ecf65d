/** Dialogs and menus. */

import { fill, h, icon, iconButton } from "../core/dom.js";

/** Open a dialog; closing removes it from the page. @param {string} title @param {...Node} body */
export function openDialog(title, ...body) {
  const heading = h("h2", { id: "dialog-title" }, title);
  const dialog = h("dialog", { "aria-labelledby": "dialog-title", onclose: () => dialog.remove() },
    h("header", null, heading, iconButton("close", "Close", () => dialog.close())),
    h("div.body", null, ...body));
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close(); // the backdrop
  });
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

/** Return a copy of a template of index.html. @param {string} id */
export const fromTemplate = (id) => /** @type {DocumentFragment} */ (/** @type {HTMLTemplateElement} */ (document.getElementById(id)).content.cloneNode(true));

/**
 * Open a small dialog with a form. After `submit` it closes and focuses the roll, unless `submit` returns false.
 * @param {App} app @param {string} title @param {string} kind  class of the form
 * @param {(form: HTMLFormElement) => any} submit @param {...Node} body
 */
export function openForm(app, title, kind, submit, ...body) {
  const form = h(`form.${kind}`, {
    async onsubmit(event) {
      event.preventDefault();
      if ((await submit(form)) === false) return;
      dialog.close();
      app.roll.focus();
    },
  }, ...body);
  const dialog = openDialog(title, form);
  dialog.classList.add("narrow");
  return dialog;
}

/**
 * Make a menu: a button and a popover, which closes after a choice, and which the browser closes after a click elsewhere or Escape.
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
