/** The start screen: open a file, start an empty piece, train a model, examples, earlier pieces. */

import { get, post, remove, session } from "../core/api.js";
import { fill, h, iconButton } from "../core/dom.js";
import { clock, count, title, when } from "../document/words.js";
import { chooseFile, openEmpty, openExample } from "./files.js";
import { themeButton } from "./theme.js";
import { openTraining } from "./training.js";

const RETRY_DELAY = 2000; // milliseconds

/** @param {App} app @param {HTMLElement} screen */
export function mountStart(app, screen) {
  const find = (selector) => /** @type {HTMLElement} */ (screen.querySelector(selector));
  const [exampleList, list] = [find(".examples"), find(".earlier")];
  find(".brand").append(themeButton(app));
  for (const [name, open] of Object.entries({ file: chooseFile, empty: openEmpty, train: openTraining })) find(`.action.${name}`).onclick = () => open(app);

  let timer = 0;
  async function refresh() {
    clearTimeout(timer);
    const answers = await app.attempt(Promise.all([get("examples"), get("sessions")]));
    if (!answers) {
      timer = setTimeout(() => !app.piece && refresh(), RETRY_DELAY);
      return;
    }
    const [names, pieces] = answers;
    fill(exampleList, ...names.map((name) => h("button", { onclick: () => openExample(app, name) }, title(name))));
    list.closest("section").hidden = !pieces.length;
    fill(list, ...pieces.map(entry));
  }

  function entry(piece) {
    const name = piece.name || "Untitled";
    return h("li", null,
      h("a", { href: `#${encodeURIComponent(piece.id)}` }, h("b", null, name), h("small", null, when(piece.changed)),
        h("small", null, `${count(piece.notes, "note")}, ${clock(piece.duration)}`)),
      iconButton("erase", `Delete ${name}`, async () => {
        const undo = () => app.attempt(post(session(piece.id, "restore"))).then(refresh);
        const response = await app.attempt(remove(session(piece.id)));
        if (response !== undefined) app.notify(`${name} was moved to the folder "deleted" with the other pieces.`, undo);
        refresh();
      }));
  }

  app.on("opened", (piece) => {
    if (piece) return;
    refresh();
    find("h1").focus();
  });
}
