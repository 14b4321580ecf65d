/** The header: the piece's name, undo and redo, opening, exporting, theme, help. */

import { fill, h, icon, iconButton } from "../core/dom.js";
import { title } from "../document/words.js";
import { exportLink, FORMATS, losses } from "./export.js";
import { chooseFile, examples, leave, openEmpty, openExample } from "./files.js";
import { menu } from "./menu.js";
import { themeButton } from "./theme.js";
import { openTraining } from "./training.js";

/** @param {App} app @param {HTMLElement} header */
export function mountHeader(app, header) {
  const name = h("input.name", {
    type: "text", "aria-label": "Name of the piece", maxLength: 80, spellcheck: false,
    onchange() {
      const to = name.value.trim();
      if (to && to !== app.piece?.name) app.change({ label: `rename to ${to}`, name: to });
      else name.value = app.piece?.name ?? "";
    },
    onkeydown(event) {
      if (event.key === "Escape") name.value = app.piece?.name ?? "";
      if (event.key === "Enter" || event.key === "Escape") app.roll.focus();
    },
  });
  const heading = h("h1.unseen");
  const state = h("span.state", { role: "status" });
  const undo = iconButton("undo", "Undo (Ctrl+Z)", () => app.mirror.undo());
  const redo = iconButton("redo", "Redo (Ctrl+Shift+Z)", () => app.mirror.redo());
  fill(header,
    h("button.icon.mark", { title: "All pieces", "aria-label": "All pieces", onclick: () => leave(app) },
      h("img", { src: "/page/icon.svg", alt: "" })),
    heading, name, state, h("span.gap"), undo, redo, h("span.rule"),
    menu("open", "Open", openItems), menu("export", "Export", exportItems), h("span.rule"),
    themeButton(app), iconButton("help", "Keys and help (?)", () => app.actions.help()));

  let names = /** @type {string[]} */ ([]);
  examples().then((answer) => { names = answer; });

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
