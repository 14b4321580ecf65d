import assert from "node:assert/strict";
import test from "node:test";
import { audible, controllers, duplicated, isLocked, level, locked, panWords, reordered, tracked } from "../../../musictx/studio/page/js/document/mixer.js";
import { apply } from "../../../musictx/studio/page/js/document/operation.js";
import { pieceOf, rows } from "./music.mjs";

const piece = pieceOf([[0, 0, 1, 60, 80, 0], [1, 1, 2, 40, 70, 1]], { pedals: [[0, 127, 0], [1, 0, 0]] });

test("mute silences, solo silences all others, and a mute track alone is heard", () => {
  const of = (...flags) => flags.map((flag, id) => ({ id, [flag]: true }));
  const heard = (tracks) => tracks.filter((track) => audible(tracks, track.id)).map((track) => track.id);
  assert.deepEqual(heard(of("x", "x")), [0, 1]);
  assert.deepEqual(heard(of("mute", "x")), [1]);
  assert.deepEqual(heard(of("x", "solo", "solo")), [1, 2]);
  assert.deepEqual(heard([{ id: 0, mute: true, solo: true }, { id: 1 }]), [0]);
  const sent = controllers([{ id: 3, volume: 90, pan: 0, reverb: 20 }, { id: 5, mute: true }]);
  assert.deepEqual([...sent], [[3, [[7, 90], [10, 0], [91, 20]]], [5, [[7, 0], [10, 64], [91, 40]]]]);
  assert.deepEqual([level({}, "volume"), panWords(64), panWords(0), panWords(127)], [100, "middle", "100 % left", "100 % right"]);
});

test("a track is duplicated with its notes and pedals, moved, and locked as a whole", () => {
  const twice = apply(piece, duplicated(piece, 0));
  assert.deepEqual(twice.tracks.map((track) => [track.id, track.name]), [[0, "Piano"], [2, "Piano copy"], [1, "Bass"]]);
  assert.deepEqual(rows(twice).at(-1), [2, 0, 1, 60, 80, 2]);
  assert.deepEqual(twice.pedals.filter(([, , of]) => of === 2), [[0, 127, 2], [1, 0, 2]]);
  assert.deepEqual(apply(piece, reordered(piece, 1, -1)).tracks.map((track) => track.id), [1, 0]);
  assert.equal(reordered(piece, 1, 1), null);
  const held = apply(piece, locked(piece, 1));
  assert.deepEqual([[...held.locked], isLocked(held, 1), isLocked(held, 0)], [[1], true, false]);
  assert.deepEqual([...apply(held, locked(held, 1)).locked], []);
  assert.equal(tracked(piece, 0, { name: "Piano" }), null);
  assert.equal(apply(piece, tracked(piece, 0, { volume: 3 })).tracks[0].volume, 3);
});
