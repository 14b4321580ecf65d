/** A dialog with a title and a way out. */

import { h, iconButton } from "../core/dom.js";

/** Opens it; it is gone from the page once closed. @param {string} title @param {...Node} body */
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
