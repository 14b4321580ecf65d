import assert from "node:assert/strict";
import test from "node:test";
import { KeyPiano } from "../../../musictx/studio/page/js/input/keyboards.js";
import { Beats } from "../../../musictx/studio/page/js/document/beats.js";
import { countIn, Recording } from "../../../musictx/studio/page/js/input/recording.js";

/** Beats of 0.5 s, then of 1 s from the fifth on, in 3/4. */
const LIST = Array.from({ length: 12 }, (_, i) => [i < 4 ? i / 2 : 2 + (i - 4), 1 + Math.floor(i / 3), 1 + (i % 3)]);
const BEATS = new Beats(LIST);

test("keys are a piano, each ends the pitch that it began", () => {
  const played = [];
  const piano = new KeyPiano((pitch, velocity) => played.push(velocity ? pitch : -pitch), () => {});
  const down = (code, repeat = false) => piano.down({ code, repeat, timeStamp: 0 });
  assert.ok(down("KeyA") && down("KeyA", true), "held keys do not repeat");
  assert.ok(down("KeyX") && down("KeyW"));
  assert.ok(piano.up({ code: "KeyA" }) && !piano.up({ code: "KeyA" }) && !down("KeyQ"));
  piano.releaseAll();
  assert.deepEqual(played, [60, 73, -60, -73]);
  for (let i = 0; i < 20; i++) down("KeyZ");
  assert.ok(piano.base >= 0 && down("KeyA"));
  assert.equal(played.at(-1), piano.base);
});

test("keys become notes; the pedal holds them until it goes up or the key comes again", () => {
  const recording = new Recording(3, 1);
  recording.noteOn(0.2, 50, 70); recording.noteOff(0.8, 50); // before the start: nothing
  recording.noteOn(0.9, 60, 80); recording.noteOff(1.5, 60); // early: from the start on
  recording.sustain(2, true);
  recording.noteOn(2.1, 62, 90); recording.noteOff(2.2, 62);
  recording.noteOn(2.5, 64, 90); recording.noteOff(2.6, 64);
  recording.noteOn(3, 62, 60); recording.noteOff(3.1, 62);
  recording.sustain(4, false);
  recording.noteOn(5, 65, 100);
  assert.deepEqual(recording.notes.filter((note) => note.end === null).map((note) => note.pitch), [65]);
  const rows = recording.end(6).map(({ start, end, pitch, velocity, track }) => [start, end, pitch, velocity, track]);
  assert.deepEqual(rows, [[1, 1.5, 60, 80, 3], [2.1, 3, 62, 90, 3], [2.5, 4, 64, 90, 3], [3, 4, 62, 60, 3], [5, 6, 65, 100, 3]]);
});

test("a count-in is a bar of the meter at the tempo of the start", () => {
  assert.deepEqual(countIn(BEATS, 0), [1.5, 1, 0.5]);
  assert.deepEqual(countIn(BEATS, 6), [3, 2, 1]);
  assert.deepEqual(countIn(BEATS, 40), [3, 2, 1]);
  assert.equal(countIn(new Beats([[0, 1, 1], [0.5, 2, 1], [1, 2, 2], [1.5, 2, 3]]), 0).length, 2);
});
