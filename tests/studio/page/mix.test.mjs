import assert from "node:assert/strict";
import test from "node:test";
import { Beats } from "../../../musictx/studio/page/js/document/beats.js";
import { barsOf, favoured, isFavourite, mixed } from "../../../musictx/studio/page/js/document/mix.js";
import { apply } from "../../../musictx/studio/page/js/document/operation.js";
import { proposalFromWire } from "../../../musictx/studio/page/js/document/takes.js";
import { beatsOf, pieceOf, rows } from "./music.mjs";

const beats = new Beats(beatsOf(20)); // bars of two seconds
const brought = { id: 7, name: "Bass", program: 33, drum: false };
const proposal = (number, notes, removes, tracks = []) => proposalFromWire({ number, state: "done", notes, removes, tracks });

test("a mix has each bar of one of the two, and only what that one replaces goes", () => {
  const piece = pieceOf([[0, 0, 1, 60, 80, 0], [1, 2, 3, 61, 80, 0], [2, 4, 5, 62, 80, 0], [3, 6, 7, 63, 80, 0]], { locked: [2] });
  const take = { id: 1 };
  const one = proposal(1, [[0, 2.5, 70, 80, 0], [2, 3, 71, 80, 0], [4, 5, 72, 80, 0]], [0, 1, 2]);
  const two = proposal(2, [[0, 1, 40, 80, 7], [2.1, 4.2, 41, 80, 7], [4, 5, 42, 80, 0]], [1, 2], [brought]);
  const bars = barsOf({ begin: 0, end: 6 }, beats);
  assert.deepEqual(bars.map((bar) => [bar.number, bar.begin, bar.end]), [[1, 0, 2], [2, 2, 4], [3, 4, 6]]);
  const after = apply(piece, mixed(piece, take, [one, two], bars, [0, 1, 0]));
  assert.deepEqual(rows(after), [
    [2, 4, 5, 62, 80, 0], [3, 6, 7, 63, 80, 0], // locked, and after it
    [4, 0, 2, 70, 80, 0], [5, 4, 5, 72, 80, 0], // the first one's, cut where the other goes on
    [6, 2.1, 4, 41, 80, 7],
  ]);
  assert.deepEqual(after.tracks.map((track) => track.id), [0, 1, 7]);
  const plain = apply(piece, mixed(piece, take, [one, two], bars, [0, 0, 0]));
  assert.equal(plain.tracks.length, 2);
  assert.deepEqual([...plain.notes.keys()], [2, 3, 4, 5, 6]);
});

test("instruments that both bring share a track", () => {
  const piece = pieceOf([[0, 0, 1, 60, 80, 0]]);
  const both = [1, 2].map((number) => proposal(number, [[0, 1, 40 + number, 80, 7], [2, 3, 50 + number, 80, 7]], [], [brought]));
  const after = apply(piece, mixed(piece, { id: 1 }, both, barsOf({ begin: 0, end: 4 }, beats), [0, 1]));
  assert.deepEqual(rows(after).slice(1).map((row) => [row[3], row[5]]), [[41, 7], [52, 7]]);
});

test("a favourite is one until it is none", () => {
  let piece = pieceOf([], { favourites: [] });
  piece = apply(piece, favoured(piece, 3, 2));
  assert.ok(isFavourite(piece, 3, 2) && !isFavourite(piece, 3, 1));
  assert.deepEqual(apply(piece, favoured(piece, 3, 2)).favourites, []);
});
