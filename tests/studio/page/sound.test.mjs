import assert from "node:assert/strict";
import test from "node:test";
import {
  channelsOf, clickEvents, heldEvents, noteEvents, outputTime, pedalEvents, prepareNotes, pedalStates, Transport,
} from "../../../musictx/studio/page/js/sound/schedule.js";

const CHANNELS = new Map([[0, 1], [7, 2]]);
const note = (start, end, pitch, track = 0, velocity = 80) => ({ start, end, pitch, velocity, track });

/** Seconds at which a key sounds, from events in the order of a synthesiser. */
function sounding(events) {
  const rank = (status) => (status === 0x80 ? 0 : 2);
  const open = new Map(), spans = [];
  for (const [time, channel, status, pitch] of [...events].sort((a, b) => a[0] - b[0] || rank(a[2]) - rank(b[2]))) {
    const key = `${channel} ${pitch}`;
    if (status === 0x90) {
      assert.ok(!open.has(key), `${key} is struck while it sounds`);
      open.set(key, time);
    } else if (status === 0x80) {
      assert.ok(open.has(key), `${key} ends without a beginning`);
      spans.push([open.get(key), time, channel, pitch]);
      open.delete(key);
    }
  }
  assert.equal(open.size, 0);
  return spans;
}

test("windows together give every note once", () => {
  const notes = Array.from({ length: 300 }, (_, i) => note((i * 37 % 100) / 10, (i * 37 % 100) / 10 + 0.3, 40 + (i % 40), i % 2 ? 7 : 0));
  const sorted = prepareNotes(notes);
  const all = [];
  for (let a = 0; a < 12; a += 0.17) all.push(...noteEvents(sorted, CHANNELS, a, a + 0.17));
  const spans = sounding(all);
  assert.equal(spans.length, sorted.length);
  const different = new Set(notes.map(({ start, pitch, track }) => `${start} ${pitch} ${track}`));
  assert.equal(spans.length, different.size);
});

test("notes that hold at the start sound from there, and pedals stand where they stood", () => {
  const sorted = prepareNotes([note(0, 2, 60), note(0, 0.5, 61), note(1, 2, 62)]);
  assert.deepEqual(sounding(heldEvents(sorted, CHANNELS, 1)), [[1, 2, 1, 60]]);
  const pedals = pedalStates([[0.1, 127, 0], [5, 0, 0]], CHANNELS, 1);
  assert.deepEqual(pedals, [[1, 1, 0xb0, 64, 127], [1, 2, 0xb0, 64, 0]]);
  assert.deepEqual(pedalEvents([[0.1, 127, 0], [5, 0, 0], [5, 9, 3]], CHANNELS, 1, 6), [[5, 1, 0xb0, 64, 0]]);
});

test("the metronome clicks on beats, another click on the first of a bar", () => {
  const beats = [[0, 1, 1], [0.5, 1, 2], [1, 1, 3], [1.5, 2, 1]];
  assert.deepEqual(clickEvents(beats, 0.5, 2).filter((e) => e[2] === 0x90).map((e) => [e[0], e[3]]), [[0.5, 77], [1, 77], [1.5, 76]]);
});

test("a note whose end is not known yet begins, and is remembered", () => {
  const open = [];
  const events = noteEvents(prepareNotes([note(0, null, 60), note(1, null, 60), note(0, 1, 64)]), CHANNELS, 0, 9, Infinity, open);
  assert.deepEqual(events.filter((e) => e[2] === 0x80).map((e) => [e[0], e[3]]), [[1, 60], [1, 64]]);
  assert.deepEqual(open.map((each) => [each.start, each.channel, each.pitch]), [[1, 1, 60]]);
  assert.deepEqual([...channelsOf([{ id: 4 }, { id: 2 }])], [[4, 1], [2, 2]]);
});

/** Everything that a transport takes, tick by tick: [document from, to, sound card from]. */
function taken(transport, until, step = 0.06) {
  const windows = [];
  for (let now = 10; now < until; now += step) windows.push(...transport.nextWindows(now));
  return windows.map(({ from, to, offset }) => [from, to, from + offset]);
}

test("a loop comes back without a gap in time, and the playhead with it", () => {
  const transport = new Transport(1, 10, [0, 2]);
  const windows = taken(transport, 20);
  for (let i = 1; i < windows.length; i++) {
    const [, to, when] = windows[i - 1];
    assert.ok(Math.abs(windows[i][2] - (when + to - windows[i - 1][0])) < 1e-9, "time goes on");
    assert.ok(windows[i][0] === to || (to === 2 && windows[i][0] === 0));
  }
  assert.equal(new Transport(0, 0, [1, 1]).loop, null, "shorter than a tick");
  for (const [time, place] of [[10, 1], [10.9, 1.9], [11.5, 0.5], [13.5, 0.5], [14.999, 1.999]]) {
    assert.ok(Math.abs(transport.at(time) - place) < 1e-9, `${time}: ${transport.at(time)}`);
  }
});

test("nothing is taken beyond what is known, and the music waits there", () => {
  const transport = new Transport(0, 10);
  transport.nextWindows(12, 1.5);
  assert.equal(transport.scheduled, 1.5);
  transport.hold(1.5, 14);
  assert.equal(transport.at(13), 1.5);
  const [window] = transport.nextWindows(14.5, 9);
  assert.deepEqual([window.from, window.from + window.offset], [1.5, 14]);
  assert.ok(Math.abs(transport.at(14.25) - 1.75) < 1e-9);
});

test("what is heard is what the sound card's stamp says, where that can be so", () => {
  const stamp = { contextTime: 5, performanceTime: 9000 };
  assert.ok(Math.abs(outputTime(stamp, 5.1, 0.02, 9050) - 5.05) < 1e-9);
  assert.ok(Math.abs(outputTime({ contextTime: 4.8, performanceTime: 9000 }, 5.1, 0, 9000) - 4.8) < 1e-9, "late, as by Bluetooth");
  assert.equal(outputTime({ contextTime: 5, performanceTime: 14475 }, 5, 0.25, 9040), 4.75, "a clock of its own");
  assert.equal(outputTime({ contextTime: 5, performanceTime: 2000 }, 5, 0, 9040), 5, "old");
  assert.equal(outputTime({ contextTime: 0, performanceTime: 0 }, 0.5, 0.25, 100), 0.25, "none yet");
  assert.equal(outputTime(undefined, 0.5, 0, 100), 0.5);
});
