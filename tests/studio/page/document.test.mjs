import assert from "node:assert/strict";
import test from "node:test";
import { Emitter } from "../../../musictx/studio/page/js/core/emitter.js";
import { fetchOnChange } from "../../../musictx/studio/page/js/document/fetch_on_change.js";
import { Beats } from "../../../musictx/studio/page/js/document/beats.js";
import { chordLabel, setText, textAt, writeChords } from "../../../musictx/studio/page/js/document/harmony.js";
import { barsIn, mixProposals } from "../../../musictx/studio/page/js/document/takes.js";
import { duplicateTrack, toggleTrackLock, moveTrack, changeTrack } from "../../../musictx/studio/page/js/document/mixer.js";
import { allLocked, notesOf } from "../../../musictx/studio/page/js/document/notes.js";
import { apply, toWire } from "../../../musictx/studio/page/js/document/operation.js";
import { proposalFromWire } from "../../../musictx/studio/page/js/document/takes.js";
import { beatsOf, pieceOf, rows } from "./music.mjs";

test("a chord is written, replaced and taken away; sections beside it stay", () => {
  const markers = [[0, "Verse"], [0, "F#:min7"], [2, "G:maj"]];
  const piece = pieceOf([], { markers, chords: [[0, "F#:min7", "F#m7"], [2, "G:maj", "G"]], sections: [[0, "Verse"]] });
  const after = (...change) => setText(piece, ...change)?.markers;
  assert.deepEqual(after("chord", 0, "Bb:maj"), [[0, "Verse"], [0, "Bb:maj"], [2, "G:maj"]]);
  assert.deepEqual(after("chord", 1, "C:maj"), [[0, "Verse"], [0, "F#:min7"], [1, "C:maj"], [2, "G:maj"]]);
  assert.deepEqual(after("section", 2, "A"), [[0, "Verse"], [0, "F#:min7"], [2, "A"], [2, "G:maj"]]);
  assert.deepEqual(after("section", 0, "Chorus"), [[0, "Chorus"], [0, "F#:min7"], [2, "G:maj"]]);
  const both = ["Bb:maj", "A"].reduce((now, text, i) => apply(now, setText(now, i ? "section" : "chord", 1, text, i ? text : "Bb")), piece);
  assert.deepEqual(both.chords[1], [1, "Bb:maj", "Bb"], "one after the other, before the server has answered");
  assert.deepEqual(both.sections, [[0, "Verse"], [1, "A"]]);
  assert.ok(!("chords" in toWire(setText(piece, "chord", 1, "C:maj", "C"), 0)));
  assert.deepEqual(after("chord", 0, ""), [[0, "Verse"], [2, "G:maj"]]);
  assert.equal(setText(piece, "chord", 1, ""), null);
  assert.deepEqual(textAt(piece.chords, 2.01), [2, "G:maj", "G"]);
  const found = writeChords(piece, [[0, "A:min", "Am"], [2, "N", "N.C."]]);
  assert.deepEqual(found.markers, [[0, "Verse"], [0, "A:min"], [2, "N"]], "what was named before gives way");
  assert.equal(chordLabel("Cm7b5/Eb"), "Cm7♭5/E♭");
});

const piece = pieceOf([[0, 0, 1, 60, 80, 0], [1, 1, 2, 40, 70, 1]], { pedals: [[0, 127, 0], [1, 0, 0]] });

test("a track is duplicated with its notes and pedals, moved, and locked as a whole", () => {
  const twice = apply(piece, duplicateTrack(piece, 0));
  assert.deepEqual(twice.tracks.map((track) => [track.id, track.name]), [[0, "Piano"], [2, "Piano copy"], [1, "Bass"]]);
  assert.deepEqual(rows(twice).at(-1), [2, 0, 1, 60, 80, 2]);
  assert.deepEqual(twice.pedals.filter(([, , of]) => of === 2), [[0, 127, 2], [1, 0, 2]]);
  assert.deepEqual(apply(piece, moveTrack(piece, 1, -1)).tracks.map((track) => track.id), [1, 0]);
  assert.equal(moveTrack(piece, 1, 1), null);
  const held = apply(piece, toggleTrackLock(piece, 1));
  assert.deepEqual([[...held.locked], allLocked(held, notesOf(held, 1)), allLocked(held, notesOf(held, 0))], [[1], true, false]);
  assert.deepEqual([...apply(held, toggleTrackLock(held, 1)).locked], []);
  assert.equal(changeTrack(piece, 0, { name: "Piano" }), null);
  assert.equal(apply(piece, changeTrack(piece, 0, { volume: 3 })).tracks[0].volume, 3);
});

const beats = new Beats(beatsOf(20)); // bars of two seconds
const brought = { id: 7, name: "Bass", program: 33, drum: false };
const proposal = (number, notes, removes, tracks = []) => proposalFromWire({ number, state: "done", notes, removes, tracks });

test("the server is asked about each state of a piece once, when all is saved, and anew in another one", async () => {
  const app = Object.assign(new Emitter(), { piece: { id: "a", revision: 0 }, mirror: { pending: true }, online: true });
  const paths = [];
  const answers = [];
  const before = globalThis.fetch;
  globalThis.fetch = /** @type {any} */ (async (path) => paths.push(path) && { ok: true, status: 200, json: async () => paths.length });
  const turn = () => new Promise((resolve) => setTimeout(resolve, 5));
  try {
    fetchOnChange(app, "chords", (piece) => piece.revision < 9, (answer) => answers.push(answer), 0);
    for (const change of [{}, { mirror: { pending: false } }, {}, { piece: { id: "a", revision: 1 } }, { piece: { id: "a", revision: 9 } }]) {
      Object.assign(app, change).emit("piece", app.piece);
      await turn();
    }
    assert.deepEqual([paths.length, answers], [2, [1, 2, null]]);
    app.piece = { id: "a", revision: 1 };
    for (let time = 0; time < 2; time++) { // left and opened again
      app.emit("piece", app.piece);
      app.emit("opened", app.piece);
      await turn();
    }
    assert.deepEqual(answers.slice(3), [null, 3, null, 4]);
  } finally {
    globalThis.fetch = before;
  }
});

test("a mix has each bar of one of the two, and only what that one replaces goes", () => {
  const piece = pieceOf([[0, 0, 1, 60, 80, 0], [1, 2, 3, 61, 80, 0], [2, 4, 5, 62, 80, 0], [3, 6, 7, 63, 80, 0]], { locked: [2] });
  const take = { id: 1 };
  const one = proposal(1, [[0, 2.5, 70, 80, 0], [2, 3, 71, 80, 0], [4, 5, 72, 80, 0]], [0, 1, 2]);
  const two = proposal(2, [[0, 1, 40, 80, 7], [2.1, 4.2, 41, 80, 7], [4, 5, 42, 80, 0]], [1, 2], [brought]);
  const bars = barsIn({ begin: 0, end: 6 }, beats);
  assert.deepEqual(bars.map((bar) => [bar.number, bar.begin, bar.end]), [[1, 0, 2], [2, 2, 4], [3, 4, 6]]);
  const after = apply(piece, mixProposals(piece, take, [one, two], bars, [0, 1, 0]));
  assert.deepEqual(rows(after), [
    [2, 4, 5, 62, 80, 0], [3, 6, 7, 63, 80, 0], // locked, and after it
    [4, 0, 2, 70, 80, 0], [5, 4, 5, 72, 80, 0], // the first one's, cut where the other goes on
    [6, 2.1, 4, 41, 80, 7],
  ]);
  assert.deepEqual(after.tracks.map((track) => track.id), [0, 1, 7]);
  const both = [1, 2].map((number) => proposal(number, [[0, 1, 40 + number, 80, 7], [2, 3, 50 + number, 80, 7]], [], [brought]));
  const shared = apply(piece, mixProposals(piece, take, both, bars, [0, 1, 0]));
  assert.deepEqual(rows(shared).slice(-2).map((row) => [row[3], row[5]]), [[41, 7], [52, 7]], "what both bring shares a track");
});
