import assert from "node:assert/strict";
import test from "node:test";
import { Beats } from "../../../musictx/studio/page/js/document/beats.js";
import * as edits from "../../../musictx/studio/page/js/document/edits.js";
import { apply } from "../../../musictx/studio/page/js/document/operation.js";
import { freeNotes, notesIn } from "../../../musictx/studio/page/js/document/notes.js";
import { Selection } from "../../../musictx/studio/page/js/selection.js";
import { beatsOf, pieceOf, randomly, randomNotes, rows, whole } from "./music.mjs";

const beats = new Beats(beatsOf(40));
const valid = (note) => note.start >= 0 && note.end > note.start && note.pitch >= 0 && note.pitch <= 127 && note.velocity >= 1 && note.velocity <= 127;

test("whatever is done to notes, they stay notes", () => {
  for (let seed = 0; seed < 40; seed++) {
    const random = randomly(seed);
    let piece = pieceOf(randomNotes(random, 30));
    for (let i = 0; i < 20; i++) {
      const ids = [...piece.notes.keys()].filter(() => random() < 0.3);
      const notes = freeNotes(piece, ids);
      if (!notes.length) continue;
      const by = (random() - 0.5) * 40;
      const operation = [
        () => edits.moveNotes(notes, by, whole(random, -90, 90)),
        () => edits.resizeNotes(notes, random() < 0.5 ? "start" : "end", by),
        () => edits.changeVelocity(notes, whole(random, -130, 130)),
        () => edits.quantiseNotes(notes, beats, whole(random, 0, 8)),
        () => edits.moveToTrack(notes, 1),
        () => edits.pasteNotes(piece, edits.copyNotes(notes), random() * 20),
      ][whole(random, 0, 5)]();
      if (operation?.label.endsWith(" moved")) { // together
        const [first, ...others] = operation.change.map((note) => [note, piece.notes.get(note.id)]);
        for (const [now, was] of others) {
          assert.ok(Math.abs(now.start - first[0].start - (was.start - first[1].start)) < 1e-9);
          assert.equal(now.pitch - first[0].pitch, was.pitch - first[1].pitch);
        }
      }
      if (operation) piece = apply(piece, operation);
      for (const note of piece.notes.values()) assert.ok(valid(note), JSON.stringify([operation?.label, note]));
    }
  }
});

test("locked notes are left alone, and locking twice unlocks", () => {
  const piece = pieceOf(randomNotes(randomly(12), 5), { locked: [1, 2] });
  assert.deepEqual(freeNotes(piece, [0, 1, 2, 3, 99]).map((note) => note.id), [0, 3]);
  assert.deepEqual(edits.toggleLock(piece, [0, 1]).lock, [0]);
  const locked = apply(piece, edits.toggleLock(piece, [0, 1]));
  assert.deepEqual(edits.toggleLock(locked, [0, 1]).unlock, [0, 1]);
  assert.equal(edits.toggleLock(piece, []), null);
});

test("what is cut and pasted at its old place is what it was", () => {
  const piece = pieceOf(randomNotes(randomly(14), 12));
  const chosen = freeNotes(piece, [2, 5, 7]);
  const cut = apply(piece, edits.deleteNotes(chosen));
  const at = Math.min(...chosen.map((note) => note.start));
  const back = apply(cut, edits.pasteNotes(cut, edits.copyNotes(chosen), at));
  const plain = (each) => rows(each).map(([, start, end, ...rest]) => [start.toFixed(9), end.toFixed(9), ...rest].join()).sort();
  assert.deepEqual(plain(back), plain(piece));
  assert.equal(edits.pasteNotes(cut, [{ ...chosen[0], track: 7 }], 0).add[0].track, 0, "of a track that is gone");
});

test("without bars the notes say what is meant: their stretch and their tracks", () => {
  const piece = pieceOf([[0, 1, 2, 60, 80, 0], [1, 3, 5, 62, 80, 0], [2, 2, 3, 40, 80, 1]]);
  const selection = new Selection();
  selection.selectNotes([0, 1]);
  assert.deepEqual(selection.scope(piece), { stretch: { begin: 1, end: 5 }, tracks: [0] });
  selection.toggleNotes([2, 0]);
  assert.deepEqual(selection.scope(piece), { stretch: { begin: 2, end: 5 }, tracks: null });
  selection.clear();
  assert.deepEqual(selection.scope(piece), { stretch: null, tracks: null });
});

test("what leaves the piece leaves the selection", () => {
  const piece = pieceOf(randomNotes(randomly(16), 6));
  const selection = new Selection();
  selection.selectNotes([1, 2, 3]);
  selection.prune(apply(piece, { label: "", remove: [2] }));
  assert.deepEqual([...selection.notes], [1, 3]);
  const rows = [[0, 1.5, 2.5], [1, 1.94, 3], [2, 1.95, 2.01], [3, 3.95, 4.5]].map(([id, start, end]) => [id, start, end, 60, 80, 0]);
  assert.deepEqual(notesIn(pieceOf(rows), { begin: 2, end: 4 }).map((note) => note.id), [1], "played just before the bar that it sounds in");
});

test("notes are quantised as far as asked, with swing, and their lengths too", () => {
  const note = (start, end) => [{ id: 0, start, end, pitch: 60, velocity: 80, track: 0 }];
  const to = (start, end, how) => edits.quantiseNotes(note(start, end), beats, 4, { ...edits.DEFAULT_QUANTISE, ...how })?.change[0];
  const near = (a, b) => assert.ok(Math.abs(a - b) < 1e-9, `${a} is not ${b}`);
  near(to(0.15, 0.3).start, 0.125); // a beat lasts half a second
  near(to(0.15, 0.3, { strength: 0.5 }).start, 0.1375);
  near(to(0.13, 0.3, { swing: 2 / 3 }).start, 0.25 * (2 / 3));
  const long = to(0.15, 0.3, { lengths: true });
  near(long.end, 0.25);
  near(to(0.15, 0.18, { lengths: true }).end, 0.25); // one line at least
  near(to(0.15, 0.33, { lengths: true, strength: 0.5 }).end, 0.3525);
  near(edits.quantiseNotes(note(0.15, 0.3), beats, 3, { ...edits.DEFAULT_QUANTISE, swing: 0.7 }).change[0].start, 1 / 6, "triplets do not swing");
  assert.equal(to(0.125, 0.375, { lengths: true }), undefined);
});
