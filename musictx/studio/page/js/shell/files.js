/** Opening and leaving pieces. */

import { post } from "../core/api.js";
import { h } from "../core/dom.js";
import { title } from "../document/words.js";

/** The file types of the file dialog; the server checks the content. */
const TYPES = ".mid,.midi,.kar,.rmi,.musicxml,.mxl,.xml,.cho,.crd,.txt,.html,audio/midi,application/vnd.recordare.musicxml";

let opening = false; // ignores a second click before the answer

/** @param {App} app @param {string} query @param {Blob} [body] */
async function open(app, query, body) {
  if (opening) return;
  opening = true;
  const document = await app.attempt(post(`sessions?${query}`, body));
  opening = false;
  if (!document) return;
  await app.mirror.settled();
  app.open(document);
}

/** Open a file as a new session. @param {App} app @param {File} file */
function openFile(app, file) {
  if (!file.size) return app.showError(`${file.name} is empty.`); // the server would make an empty piece
  const name = file.name.replace(/\.[^.]*$/, "");
  open(app, new URLSearchParams({ name }).toString(), file);
}

/** @param {App} app */
export const openEmpty = (app) => open(app, "name=Untitled");

/** @param {App} app @param {string} example */
export const openExample = (app, example) => open(app, new URLSearchParams({ name: title(example), example }).toString());

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
  const isFile = (event) => event.dataTransfer?.types.includes("Files");
  const dropping = (on) => body.classList.toggle("dropping", on);
  body.addEventListener("dragover", (event) => {
    if (!isFile(event)) return;
    event.preventDefault();
    dropping(true);
  });
  body.addEventListener("dragleave", (event) => event.relatedTarget || dropping(false)); // out of the window
  body.addEventListener("drop", (event) => {
    if (!isFile(event)) return;
    event.preventDefault();
    dropping(false);
    const [file] = event.dataTransfer.files;
    if (file) openFile(app, file);
  });
}
