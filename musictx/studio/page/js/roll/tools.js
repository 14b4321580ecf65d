/** The toolbar above the roll: tool, grid, the selection and its edits. */

import { fill, h, setPressed, setRange } from "../core/dom.js";
import { allLocked, notesById } from "../document/notes.js";
import { timingAt } from "../document/beats.js";
import { count, dynamicLabel, stretchWords } from "../document/words.js";
import { selectedEdits } from "./commands.js";
import { mountTiming } from "./dialogs.js";

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
  const find = (selector) => /** @type {any} */ (bar.querySelector(selector));
  const [select, draw, grid, summary, edits] = [".select", ".draw", ".grid select", ".selection-summary", ".selection-tools"].map(find);
  const [loudness, mark, lock, lane] = [".loudness input", ".mark", ".lock", "[data-key=E]"].map(find);
  select.onclick = () => app.changeSettings({ tool: "select" });
  draw.onclick = () => app.changeSettings({ tool: "draw" });
  grid.append(...GRIDS.map((value) => h("option", { value })));
  grid.onchange = () => {
    app.lastLength = 0;
    app.changeSettings({ division: Number(grid.value) });
  };
  find(".zoom-out").onclick = () => app.roll.zoom(0.8); // in the middle; the keys zoom at the cursor
  find(".zoom-in").onclick = () => app.roll.zoom(1.25);
  mountTiming(app, find(".timing"));
  let mean = 80; // velocity of the selected notes

  loudness.addEventListener("input", () => showLoudness(Number(loudness.value)));
  // All notes change by the same amount, so that accents stay.
  loudness.addEventListener("change", () => selectedEdits(app).changeVelocity(Number(loudness.value) - mean));

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
    const number = notes.length > 0 && count(notes.length, "note");
    const where = bars && h("span", null, bars[0].toUpperCase() + bars.slice(1), number && " · ");
    fill(summary, where, number, !where && !number && (piece.music === "free" && piece.notes.size ? "Played freely: bars only measure time" : "Nothing selected"));
    summary.classList.toggle("nothing-selected", !where && !number);
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
