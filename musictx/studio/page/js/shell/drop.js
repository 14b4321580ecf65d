/** A file dropped anywhere on the page is opened. */

import { openFile } from "./files.js";

/** @param {import("../app.js").App} app @param {HTMLElement} body */
export function mountDrop(app, body) {
  let depth = 0;
  const isFile = (event) => event.dataTransfer?.types.includes("Files");
  const over = (change) => {
    depth = Math.max(0, depth + change);
    body.classList.toggle("dropping", depth > 0);
  };
  body.addEventListener("dragenter", (event) => isFile(event) && over(1));
  body.addEventListener("dragleave", (event) => isFile(event) && over(-1));
  body.addEventListener("dragover", (event) => isFile(event) && event.preventDefault());
  body.addEventListener("drop", (event) => {
    if (!isFile(event)) return;
    event.preventDefault();
    over(-depth);
    const [file] = event.dataTransfer.files;
    if (file) openFile(app, file);
  });
}
