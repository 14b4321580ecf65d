/** Messages in the page, and announcements to screen readers. Errors stay until the user closes them or something succeeds. */

import { h, iconButton } from "../core/dom.js";
import { sentence } from "../document/words.js";

const DURATION = 5000; // milliseconds for which a message that is no error is shown; three times as long with an undo button
const LOST_DELAY = 700; // milliseconds without a connection before the page shows it

/** @param {App} app @param {HTMLElement} region */
export function mountMessages(app, region) {
  const [list, lost] = /** @type {HTMLElement[]} */ ([...region.children]);
  let timer;

  app.on("message", ({ text, kind, undo }) => {
    const message = h(`div.message.${kind}`, { role: kind === "error" ? "alert" : undefined }, h("p", null, sentence(text)));
    for (const other of [...list.children]) if (other.firstChild.textContent === sentence(text)) other.remove();
    if (kind === "done") for (const error of list.querySelectorAll(".error")) error.remove();
    if (undo) message.append(h("button.small", { onclick: () => { message.remove(); undo(); } }, "Undo"));
    message.append(iconButton("close", "Close this message", () => message.remove()));
    list.append(message);
    while (list.children.length > 3) list.firstElementChild.remove();
    if (kind === "done") setTimeout(() => message.remove(), undo ? 3 * DURATION : DURATION);
  });
  app.on("connection", (online) => {
    clearTimeout(timer);
    if (!online) timer = setTimeout(() => { lost.hidden = false; }, LOST_DELAY);
    else if (!lost.hidden) {
      lost.hidden = true;
      app.notify("The studio is back.");
    }
  });
}

/** Announce texts to screen readers. @param {App} app @param {HTMLElement} region  with aria-live */
export function mountAnnouncer(app, region) {
  let even = false;
  app.on("announce", (text) => {
    even = !even;
    region.textContent = text + (even ? "" : "\u00a0"); // else a repeated text would not be announced
  });
  app.takes.on("finished", ({ take, proposal }) => {
    const what = proposal.state === "failed" ? "failed" : `is ready, ${proposal.notes.length} notes`;
    app.announce(`${take.label}: proposal ${proposal.number} ${what}`);
  });
}
