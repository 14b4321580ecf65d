/** The start screen; opening, dropping and leaving pieces. */

import { get, post, remove, session } from "../core/api.js";
import { fill, h, iconButton } from "../core/dom.js";
import { clock, count, title, when } from "../document/words.js";
import { themeButton } from "./theme.js";
import { openTraining } from "./training.js";

/** The file types of the file dialog; the server checks the content. */
const TYPES = ".mid,.midi,.kar,.rmi,.musicxml,.mxl,.xml,.cho,.crd,.txt,.html,audio/midi,application/vnd.recordare.musicxml";

const RETRY_DELAY = 2000; // milliseconds

let opening = false; // ignores a second click before the answer

/** Open a new session. @param {App} app @param {Record<string, string>} query  its name, and an example @param {Blob} [file] */
async function open(app, query, file) {
  if (opening) return;
  opening = true;
  const document = await app.attempt(post(`sessions?${new URLSearchParams(query)}`, file));
  opening = false;
  if (!document) return;
  await app.mirror.settled();
  app.open(document);
}

/** Open a file as a new session. @param {App} app @param {File} file */
function openFile(app, file) {
  if (!file.size) return app.showError(`${file.name} is empty.`); // the server would make an empty piece
  open(app, { name: file.name.replace(/\.[^.]*$/, "") }, file);
}

/** @param {App} app */
export const openEmpty = (app) => open(app, { name: "Untitled" });

/** @param {App} app @param {string} example */
export const openExample = (app, example) => open(app, { name: title(example), example });

/** Open a file that the user chooses. @param {App} app */
export function chooseFile(app) {
  const input = h("input", { type: "file", accept: TYPES });
  input.addEventListener("change", () => input.files[0] && openFile(app, input.files[0]));
  input.click();
}

/** Go to the start screen, once everything is saved. @param {App} app */
export async function leave(app) {
  if (app.mirror.pending && !app.online) {
    location.hash = app.piece.id;
    app.showError("Not everything is saved yet. Leave the piece when the studio answers again.");
    return;
  }
  await app.mirror.settled();
  app.close();
}

/** Open files that are dropped on the page. @param {App} app @param {HTMLElement} body */
export function mountDrop(app, body) {
  const onDragOrDrop = (/** @type {DragEvent} */ event) => {
    if (!event.dataTransfer?.types.includes("Files")) return;
    event.preventDefault();
    body.classList.toggle("dropping", event.type === "dragover");
    const [file] = event.dataTransfer.files; // undefined before the drop
    if (event.type === "drop" && file) openFile(app, file);
  };
  for (const event of /** @type {const} */ (["dragover", "drop"])) body.addEventListener(event, onDragOrDrop);
  body.addEventListener("dragleave", (event) => event.relatedTarget || body.classList.remove("dropping")); // out of the window
}

/** Mount the start screen: open a file, start an empty piece, train a model, examples, earlier pieces. @param {App} app @param {HTMLElement} screen */
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
