/** Messages in the page, and announcements to screen readers. Errors stay until the user closes them. */

import { h, iconButton } from "../core/dom.js";
import { sentence } from "../document/words.js";

const SHOWN = 5000; // milliseconds of a message that is no error; three times as long with an undo button
const PATIENCE = 700; // milliseconds without a connection before the message

/** @param {App} app @param {HTMLElement} region */
export function mountMessages(app, region) {
  const [list, lost] = /** @type {HTMLElement[]} */ ([...region.children]);
  let timer;

  app.on("message", ({ text, kind, back }) => {
    for (const same of list.querySelectorAll(".message")) if (same.dataset.text === text) same.remove();
    const message = h(`div.message.${kind}`, { role: kind === "error" ? "alert" : undefined }, h("p", null, sentence(text)));
    message.dataset.text = text;
    if (back) message.append(h("button.small", { onclick: () => { message.remove(); back(); } }, "Undo"));
    message.append(iconButton("close", "Close this message", () => message.remove()));
    list.append(message);
    while (list.children.length > 3) list.firstElementChild.remove();
    if (kind === "done") setTimeout(() => message.remove(), back ? 3 * SHOWN : SHOWN);
  });
  app.on("connection", (online) => {
    clearTimeout(timer);
    if (!online) timer = setTimeout(() => { lost.hidden = false; }, PATIENCE);
    else if (!lost.hidden) {
      lost.hidden = true;
      app.done("The studio is back.");
    }
  });
}

/** Announce texts to screen readers. @param {App} app @param {HTMLElement} region  with aria-live */
export function mountAnnouncer(app, region) {
  let even = false;
  app.on("say", (text) => {
    even = !even;
    region.textContent = text + (even ? "" : "\u00a0"); // else a repeated text would not be announced
  });
  app.takes.on("finished", ({ take, proposal }) => {
    const what = proposal.state === "failed" ? "failed" : `is ready, ${proposal.notes.length} notes`;
    app.say(`${take.label}: proposal ${proposal.number} ${what}`);
  });
}
