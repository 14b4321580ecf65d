/** Pieces for the tests, from seeds. */

import { fromWire } from "../../../musictx/studio/page/js/document/operation.js";

/** Numbers from 0 up to 1, the same for the same seed. */
export function randomly(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

export const whole = (random, low, high) => low + Math.floor(random() * (high - low + 1));

/** Every beat of so many bars: [time, bar, beat]. */
export function beatsOf(bars, { beats = 4, length = 0.5 } = {}) {
  return Array.from({ length: bars * beats }, (_, i) => [i * length, 1 + Math.floor(i / beats), 1 + (i % beats)]);
}

/** A document as the server writes it. */
export function documentOf(notes = [], more = {}) {
  return {
    id: "20260101-test-0000", name: "test", revision: 0, can_undo: false, can_redo: false,
    duration: Math.max(0, ...notes.map((note) => note[2])),
    tracks: [{ id: 0, name: "Piano", program: 0, drum: false }, { id: 1, name: "Bass", program: 32, drum: false }],
    notes, locked: [], brought: {}, next_id: Math.max(-1, ...notes.map((note) => note[0])) + 1,
    timings: [{ time: 0, tempo: 120, beats: 4, unit: 4, key: null, pickup: 0 }], meters: [], keys: [], pedals: [], fermatas: [], markers: [], chords: [], sections: [], lyrics: [], beats: beatsOf(64), takes: [], ...more,
  };
}

export const pieceOf = (notes, more) => fromWire(documentOf(notes, more));

/** [id, start, end, pitch, velocity, track] at random. */
export function randomNotes(random, count, seconds = 30) {
  return Array.from({ length: count }, (_, id) => {
    const start = random() * seconds;
    const length = random() < 0.05 ? random() * 12 : random() + 0.01;
    return [id, start, start + length, whole(random, 30, 90), whole(random, 1, 127), whole(random, 0, 1)];
  });
}

export const rows = (piece) => [...piece.notes.values()]
  .map(({ id, start, end, pitch, velocity, track }) => [id, start, end, pitch, velocity, track])
  .sort((a, b) => a[0] - b[0]);
