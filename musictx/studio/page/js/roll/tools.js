/** The toolbar above the roll: tool, grid, the selection and its edits. */

import { selectBox, fill, h, iconButton, setPressed, setRange } from "../core/dom.js";
import { allLocked, notesById } from "../document/notes.js";
import { timingAt } from "../document/timing.js";
import { count, dynamicLabel, stretchWords } from "../document/words.js";
import { selectedEdits } from "./commands.js";
import { openQuantise } from "./quantise.js";
import { openTable } from "./table.js";
import { timingButton } from "./timing.js";

/** Grid lines in a beat that can be chosen; 0 is no grid. */
const GRIDS = [1, 2, 3, 4, 6, 8, 0];
const VALUES = { 2: "Halves", 4: "Quarters", 8: "Eighths", 16: "Sixteenths" };
/** Name a grid by its note value; `unit` is the note value of a beat, such as 4. */
function gridName(lines, unit) {
  if (!lines) return "No grid";
  const [value, triplets] = lines % 3 ? [unit * lines, ""] : [(unit * lines * 2) / 3, ", triplets"];
  return (VALUES[value] ?? `1/${value} notes`) + triplets;
}

/** @param {App} app @param {HTMLElement} bar */
export function mountTools(app, bar) {
  const actions = selectedEdits(app);
  const tool = (name, label) => iconButton(name, label, () => app.set({ tool: name }), { "aria-pressed": false });
  const select = tool("select", "Select and move (D changes the tool)");
  const draw = tool("draw", "Draw notes (D changes the tool)");
  const grid = selectBox(GRIDS.map((lines) => [String(lines), ""]), "", (lines) => { app.lastLength = 0; app.set({ division: Number(lines) }); }, { "aria-label": "Grid", title: "Grid" });
  const what = h("span.what", { role: "status" });
  const loudness = h("input", { type: "range", min: 1, max: 127, "aria-label": "Loudness of the selected notes" });
  const mark = h("output.mark");
  const lock = iconButton("lock", "Lock (L): tasks leave these notes as they are", actions.lock);
  const edits = h("span.some", { hidden: true },
    h("label.loudness", { title: "Loudness" }, loudness, mark),
    iconButton("quantise", "Quantise to the grid (Q)", actions.quantise),
    h("button.icon.how", { title: "How to quantise (Shift+Q)", "aria-label": "How to quantise (Shift+Q)", onclick: () => openQuantise(app, actions.quantise) }, "▾"), lock,
    iconButton("erase", "Delete (Del)", actions.erase),
    iconButton("close", "Select nothing (Esc)", () => app.selection.drop()));
  const lane = iconButton("lane", "The lane of velocities and controllers (E)", () => app.roll.lane.toggle(), { "aria-pressed": false });
  let mean = 80; // velocity of the selected notes
  fill(bar, h("span.group", null, select, draw), timingButton(app), h("label.grid", null, grid), what, edits, h("span.gap"),
    h("span.group.zoom", null, iconButton("minus", "Zoom out (-)", () => app.roll.zoom(0.8)), iconButton("plus", "Zoom in (+)", () => app.roll.zoom(1.25)),
      iconButton("fit", "Zoom to fit what is selected, or the whole piece (F)", () => app.roll.fitAll())),
    lane, iconButton("table", "The notes as a table (N)", () => openTable(app)));

  loudness.addEventListener("input", () => showLoudness(Number(loudness.value)));
  // All notes change by the same amount, so that accents stay.
  loudness.addEventListener("change", () => actions.louder(Number(loudness.value) - mean));

  function showLoudness(velocity) {
    setRange(loudness, velocity, `${velocity}, ${dynamicLabel(velocity)}`);
    mark.textContent = dynamicLabel(velocity);
  }

  function showSettings() {
    setPressed(select, app.settings.tool === "select");
    setPressed(draw, app.settings.tool === "draw");
    grid.value = String(app.settings.division);
    setPressed(lane, app.roll.lane.shown);
  }

  function showSelection() {
    const { piece, selection } = app;
    if (!piece) return;
    const notes = notesById(piece, selection.notes);
    const bars = selection.range && stretchWords(app.beats, selection.range.begin, selection.range.end);
    const number = notes.length ? count(notes.length, "note") : "";
    const text = [bars && bars[0].toUpperCase() + bars.slice(1), number].filter(Boolean).join(" · ");
    what.textContent = text || (piece.music === "free" && piece.notes.size ? "Played freely: bars only measure time" : "Nothing selected");
    what.classList.toggle("none", !text);
    edits.hidden = !notes.length;
    if (notes.length) mean = Math.round(notes.reduce((sum, note) => sum + note.velocity, 0) / notes.length);
    showLoudness(mean);
    setPressed(lock, allLocked(piece, notes));
  }

  app.on("settings", showSettings);
  app.on("selection", showSelection);
  app.on("piece", (piece) => {
    for (const option of grid.options) option.textContent = gridName(Number(option.value), timingAt(piece).unit);
    showSelection();
  });
  showSettings();
}
