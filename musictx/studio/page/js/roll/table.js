/** The notes as a table, for screen readers and exact numbers. */

import { fill, h } from "../core/dom.js";
import { likelyKey, pitchName, pitchWords } from "../document/spelling.js";
import { count, dynamicWords, positionLabel, positionWords, trackName } from "../document/words.js";
import { openDialog } from "../shell/dialog.js";

const ROWS = 100;

/** Open a table of the selected notes, or of all. @param {App} app */
export function openTable(app) {
  const { piece, beats, selection, roll } = app;
  if (!piece) return;
  const chosen = selection.notes.size > 1;
  const notes = roll.index.notes.filter((note) => !chosen || selection.notes.has(note.id));
  const tracks = new Map(piece.tracks.map((track) => [track.id, trackName(track)]));
  const key = piece.timings[0].key ?? [likelyKey(notes.map((note) => note.pitch)), false];
  let page = 0;
  const body = h("tbody");
  const where = h("span.hint", { role: "status" });
  const pages = Math.max(1, Math.ceil(notes.length / ROWS));
  const before = h("button.small", { onclick: () => turn(-1) }, "Before");
  const after = h("button.small", { onclick: () => turn(1) }, "After");

  function turn(by) {
    page += by;
    before.disabled = page === 0;
    after.disabled = page === pages - 1;
    const shown = notes.slice(page * ROWS, (page + 1) * ROWS);
    where.textContent = notes.length ? `${page * ROWS + 1} to ${page * ROWS + shown.length} of ${count(notes.length, "note")}` : "There are no notes.";
    fill(body, ...shown.map(row));
  }

  function row(note) {
    const box = h("input", {
      type: "checkbox", checked: selection.notes.has(note.id), "aria-label": `Select ${pitchWords(note.pitch)}, ${positionWords(beats, note.start)}`,
      onchange: () => selection.pickNotes([note.id], "toggle"),
    });
    return h("tr", null, h("td", null, box), h("td", null, positionLabel(beats, note.start)),
      h("td", null, pitchName(note.pitch, key)), h("td", null, count(beats.length(note.start, note.end), "beat")),
      h("td", null, `${dynamicWords(note.velocity)} (${note.velocity})`), h("td", null, tracks.get(note.track) ?? ""),
      h("td", null, piece.locked.has(note.id) ? "locked" : ""));
  }

  turn(0);
  const head = ["Selected", "Bar and beat", "Pitch", "Length", "Loudness", "Track", "Locked"];
  openDialog(chosen ? "The selected notes" : "The notes",
    h("div.table-head", null, where, before, after),
    h("div.table", { tabIndex: 0, role: "region", "aria-label": "Notes" },
      h("table", null, h("thead", null, h("tr", null, ...head.map((label) => h("th", { scope: "col" }, label)))), body)));
}
