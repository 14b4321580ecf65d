/** The header: the piece's name, undo and redo, opening, exporting, theme, help. */

import { get } from "../core/api.js";
import { h, icon } from "../core/dom.js";
import { title } from "../document/words.js";
import { menu } from "./dialog.js";
import { exportLink, FORMATS, losses } from "./export.js";
import { chooseFile, leave, openEmpty, openExample } from "./files.js";
import { themeButton } from "./theme.js";
import { openTraining } from "./training.js";

/** @param {App} app @param {HTMLElement} header */
export function mountHeader(app, header) {
  const find = (selector) => /** @type {any} */ (header.querySelector(selector));
  const [name, heading, state] = [".name", "h1", ".state"].map(find);
  const [undo, redo] = ["Ctrl+Z", "Ctrl+Shift+Z"].map((key) => find(`[data-key="${key}"]`));
  find(".menus").replaceWith(menu("open", "Open", openItems), menu("export", "Export", exportItems));
  find("[data-key='?']").before(themeButton(app));
  name.onchange = () => {
    const to = name.value.trim();
    if (to && to !== app.piece?.name) app.change({ label: `rename to ${to}`, name: to });
    else name.value = app.piece?.name ?? "";
  };
  name.onkeydown = (event) => {
    if (event.key === "Escape") name.value = app.piece?.name ?? "";
    if (event.key === "Enter" || event.key === "Escape") app.roll.focus();
  };

  let names = /** @type {string[]} */ ([]);
  get("examples").then((answer) => { names = answer; }, () => {}); // none if the server does not answer

  function openItems() {
    const item = (text, onclick) => h("button", { onclick }, text);
    return [
      item("A file …", () => chooseFile(app)), item("An empty piece", () => openEmpty(app)), h("hr"),
      ...names.map((example) => item(title(example), () => openExample(app, example))), h("hr"),
      item("All pieces", () => leave(app)), item("Train a model …", () => openTraining(app)),
    ];
  }

  function exportItems() {
    if (!app.piece) return [];
    const { stretch } = app.selection.range ? app.selection.scope(app.piece) : { stretch: null };
    const item = (suffix, label, sentence, query = {}) =>
      exportLink(app, suffix, query, icon("export"), label, sentence && h("small", null, sentence));
    const print = h("button", { onclick: () => app.actions.print() }, icon("score"), "Print", h("small", null, "or PDF, by the browser"));
    const links = [...FORMATS.map(([suffix, label, sentence]) => item(suffix, label, sentence)), print];
    if (!stretch) return [...links, losses(app, {}), h("hr"), h("small", null, "Drag MIDI out of this menu into another program.")];
    return [...links, losses(app, {}), h("hr"), losses(app, stretch), ...FORMATS.slice(0, 3).map(([suffix, label]) => item(suffix, `Selected bars as ${label}`, "", stretch))];
  }

  app.on("piece", (piece) => {
    if (document.activeElement !== name) name.value = piece.name;
    heading.textContent = piece.name;
    undo.disabled = !piece.can_undo;
    redo.disabled = !piece.can_redo;
  });
  app.mirror.on("state", (now) => {
    state.textContent = { saved: "Saved", saving: "Saving …", lost: "Not connected" }[now];
  });
  app.on("opened", () => { state.textContent = ""; });
}
