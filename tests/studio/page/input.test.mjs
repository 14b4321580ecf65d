import assert from "node:assert/strict";
import test from "node:test";
import { KeyPiano } from "../../../musictx/studio/page/js/input/keys.js";
import { understand } from "../../../musictx/studio/page/js/input/midi.js";
import { operation, quantise } from "../../../musictx/studio/page/js/input/record.js";
import { beatAt, countIn, quantised, Recording, timeAt } from "../../../musictx/studio/page/js/input/take.js";

const near = (a, b) => assert.ok(Math.abs(a - b) < 1e-9, `${a} is not ${b}`);
/** Beats of 0.5 s, then of 1 s from beat 4 on, in 3/4. */
const BEATS = Array.from({ length: 12 }, (_, i) => [i < 4 ? i / 2 : 2 + (i - 4), 1 + Math.floor(i / 3), 1 + (i % 3)]);

test("keys are a piano, each ends the pitch that it began", () => {
  const piano = new KeyPiano();
  assert.deepEqual(piano.down("KeyA"), { on: 60 });
  assert.deepEqual(piano.down("KeyA", true), {}, "held keys do not repeat");
  piano.down("KeyX");
  assert.deepEqual(piano.down("KeyW"), { on: 73 });
  assert.deepEqual(piano.up("KeyA"), { off: 60 });
  assert.equal(piano.up("KeyA"), null);
  assert.equal(piano.down("KeyQ"), null);
  assert.deepEqual(piano.down("ShiftLeft"), { sustain: true });
  assert.deepEqual(piano.letGo(), [73]);
  for (let i = 0; i < 20; i++) piano.down("KeyZ");
  assert.ok(piano.base >= 0 && piano.down("KeyA").on === piano.base);
});

test("messages of a MIDI keyboard", () => {
  assert.deepEqual(understand([0x93, 60, 90]), { pitch: 60, velocity: 90 });
  assert.deepEqual(understand([0x90, 60, 0]), { pitch: 60, velocity: 0 });
  assert.deepEqual(understand([0x80, 60, 64]), { pitch: 60, velocity: 0 });
  assert.deepEqual(understand([0xb0, 64, 127]), { sustain: true });
  for (const other of [[0xf8], [0xb0, 1, 30], [0xe0, 0, 64], [0xfe]]) assert.equal(understand(other), null);
});

test("keys become notes; the pedal holds them until it goes up or the key comes again", () => {
  const take = new Recording(3, 1);
  take.on(0.2, 50, 70); take.off(0.8, 50); // before the start: nothing
  take.on(0.9, 60, 80); take.off(1.5, 60); // early: from the start on
  take.sustain(2, true);
  take.on(2.1, 62, 90); take.off(2.2, 62);
  take.on(2.5, 64, 90); take.off(2.6, 64);
  take.on(3, 62, 60); take.off(3.1, 62);
  take.sustain(4, false);
  take.on(5, 65, 100);
  assert.deepEqual(take.end(6), [[1, 1.5, 60, 80, 3], [2.1, 3, 62, 90, 3], [2.5, 4, 64, 90, 3], [3, 4, 62, 60, 3], [5, 6, 65, 100, 3]]);
});

test("beats and seconds are each other's inverse, through a change of tempo and past the end", () => {
  for (let time = 0; time < 15; time += 0.13) near(timeAt(BEATS, beatAt(BEATS, time)), time);
  near(beatAt(BEATS, 3.5), 5.5);
  near(timeAt(BEATS, 20), 18);
});

test("quantised notes lie on the grid, never without length, and half the strength is half the way", () => {
  const played = [[0.56, 0.93, 60, 80, 0], [2.3, 2.31, 61, 80, 0], [3.4, 4.6, 62, 80, 0]];
  const moved = quantised(played, BEATS, 4);
  moved.forEach(([start, end], i) => {
    for (const time of [start, end]) near((beatAt(BEATS, time) * 4) % 1, 0);
    assert.ok(end > start);
    assert.ok(Math.abs(beatAt(BEATS, start) - beatAt(BEATS, played[i][0])) <= 0.125 + 1e-9);
  });
  const half = quantised(played, BEATS, 4, 0.5);
  near(beatAt(BEATS, half[0][0]), (beatAt(BEATS, 0.56) + beatAt(BEATS, moved[0][0])) / 2);
  assert.deepEqual(quantised(moved, BEATS, 4), moved);
});

test("a count-in is a bar of the meter at the tempo of the start", () => {
  assert.deepEqual(countIn(BEATS, 0), [1.5, 1, 0.5]);
  assert.deepEqual(countIn(BEATS, 6), [3, 2, 1]);
  assert.equal(countIn(BEATS, 0, 2).length, 6);
  assert.equal(countIn([], 0).length, 4);
});

test("operations take the document's next ids, and change notes that are there", () => {
  const document = { next_id: 7, beats: BEATS, notes: [[1, 0.56, 0.93, 60, 80, 0], [2, 0.1, 0.2, 61, 80, 0]] };
  assert.equal(operation(document, []), null);
  const made = operation(document, [[0.56, 0.93, 60, 80, 0], [1, 2, 61, 80, 0]], 4);
  assert.deepEqual(made.add.map((note) => note[0]), [7, 8]);
  assert.equal(made.label, "record 2 notes");
  const { change } = quantise(document, [1]);
  assert.deepEqual(change, [[1, ...made.add[0].slice(1)]]);
});
