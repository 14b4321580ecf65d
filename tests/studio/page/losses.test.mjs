import assert from "node:assert/strict";
import test from "node:test";
import { holds, lines, standing } from "../../../musictx/studio/page/js/document/losses.js";

test("a folder is told in words", () => {
  const told = { files: 128, read: 20, on_beats: 17, density: 6.8, hours: 7.4, model: "song", why: "17 of 20 files keep to their beats" };
  assert.equal(holds(told), "128 pieces, about 7.4 hours of music. Of 20 looked at 17 keep to the beats of their file, 3 are played freely; 6.8 notes a second. Training begins from the model song, as 17 of 20 files keep to their beats.");
  assert.match(holds({ ...told, files: 1, read: 1, on_beats: 0, hours: 0.05, model: null, why: "strings" }), /^1 piece, about 3 minutes of music. Of 1 looked at all are played freely; .* from nothing, which takes hours: strings\.$/);
});

test("a training is told in a sentence", () => {
  const rows = [[1, 3, null], [25, 2.5, 2.75], [50, 2.25, 2.5], [75, 2, 2.625]];
  assert.equal(standing({ state: "none" }), "");
  assert.match(standing({ state: "training", step: 0, rows: [] }), /^Reading the files/);
  assert.equal(standing({ state: "stopped", step: 75, rows }), "Stopped after 75 steps. Validation 2.500 nats a token at best. It can go on from there.");
  assert.match(standing({ state: "failed", step: 0, rows: [], error: "no room" }), /no room$/);
});

test("losses become lines from the highest to the lowest", () => {
  const { train, val, low, high, steps } = lines([[0, 3, null], [50, 2, 2.5], [100, 1, null]]);
  assert.deepEqual([low, high, steps], [1, 3, 100]);
  assert.equal(train, "0.00,1.00 50.00,20.00 100.00,39.00");
  assert.equal(val, "50.00,10.50");
  assert.equal(lines([]).steps, 0);
  assert.equal(lines([[5, 2, null]]).train, "100.00,20.00", "a single value is a point in the middle");
});
