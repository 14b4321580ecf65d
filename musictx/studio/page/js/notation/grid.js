// Time as notation sees it: bars, and notes on a grid of ticks. Pure.
import { lowerBound } from "../core/search.js";

/** Ticks of a quarter: a 32nd is 3, an eighth of a triplet 8. */
export const QUARTER = 24;
const NEAR = 0.06; // quarters by which a note may miss the grid and still be on it

/** @typedef {{at: number, ticks: number, time: number, number: number, meter: [number, number], key: [number, any]}} Bar */
/** @typedef {{id: number, start: number, end: number, pitch: number, track: number}} GridNote ticks */

/** The bars of a piece up to its last note, in ticks from the first bar's start. @param {Piece} piece @returns {Bar[]} */
export function barsOf({ beats, meters, keys, duration: last }) {
  const holds = (/** @type {any[][]} */ list, time, /** @type {any} */ otherwise) =>
    list.findLast((one) => one[0] <= time + 1e-6)?.slice(1) ?? otherwise;
  const bars = [];
  let at = 0;
  for (let i = 0; i < beats.length;) {
    const [time, number] = beats[i];
    if (time > last - 1e-3 && bars.length) break;
    let next = i;
    while (next < beats.length && beats[next][1] === number) next++;
    const meter = holds(meters, time, [4, 4]);
    const ticks = Math.round(((next - i) * QUARTER * 4) / meter[1]);
    bars.push({ at, ticks, time, number, meter, key: holds(keys, time, null) });
    at += ticks;
    i = next;
  }
  return bars;
}

/** Seconds -> quarters from the first beat, along the beats. */
export function quartersOf(/** @type {Pick<Piece, "beats" | "meters">} */ { beats, meters }) {
  const lengths = beats.map(([time]) => 4 / (meters.findLast((m) => m[0] <= time + 1e-6)?.[2] ?? 4));
  const at = [0];
  for (const length of lengths) at.push(at.at(-1) + length);
  return (/** @type {number} */ time) => {
    const last = lowerBound(beats, time + 1e-9, (beat) => beat[0]) - 1; // of the beats that have begun
    const beat = Math.min(Math.max(last, 0), beats.length - 2);
    const share = (time - beats[beat][0]) / (beats[beat + 1][0] - beats[beat][0]);
    return at[beat] + share * lengths[beat];
  };
}

/**
 * Notes on the grid. Each quarter is cut into 16ths (32nds where the music needs them) or into a
 * triplet, whichever its notes are nearer to.
 * @returns {{notes: GridNote[], onGrid: number}} onGrid: the share of starts that were on the grid already
 */
export function quantiseNotes(/** @type {Note[]} */ played, /** @type {Pick<Piece, "beats" | "meters">} */ piece) {
  const quarters = quartersOf(piece);
  const raw = played.map(({ id, start, end, pitch, track }) => ({ id, pitch, track, start: quarters(start), end: quarters(end) }));
  const misses = (steps) => raw.filter((n) => missed(n.start, steps) > NEAR / 2 && missed(n.start, 3) > NEAR).length;
  const steps = misses(4) > 0 && misses(8) === 0 ? 8 : 4;
  /** @type {Map<number, number>} quarter -> into how many parts it is cut */
  const parts = new Map();
  const within = new Map();
  for (const note of raw) {
    for (const place of [note.start, note.end]) {
      const quarter = Math.floor(place + NEAR);
      listed(within, quarter).push(place - quarter);
    }
  }
  for (const [quarter, places] of within) {
    const error = (n) => places.reduce((sum, place) => sum + missed(place, n), 0);
    const third = places.some((place) => [1, 2].includes(Math.round(place * 3)) && missed(place, 3) < NEAR);
    parts.set(quarter, third && error(3) < 0.6 * error(steps) ? 3 : steps);
  }
  const snap = (place) => {
    const quarter = Math.floor(place + NEAR);
    const n = parts.get(quarter) ?? steps;
    return (quarter + Math.round((place - quarter) * n) / n) * QUARTER;
  };
  const notes = raw.map((note) => {
    const start = Math.round(snap(note.start));
    const n = parts.get(Math.floor(start / QUARTER)) ?? steps;
    return { ...note, start, end: Math.max(Math.round(snap(note.end)), start + QUARTER / n), loose: missed(note.end, n) > NEAR };
  });
  const loose = raw.filter((n) => missed(n.start, steps) > 0.7 * NEAR && missed(n.start, 3) > 0.7 * NEAR).length;
  const onGrid = raw.length ? 1 - loose / raw.length : 1;
  return { notes: joined(notes), onGrid };
}

function listed(map, key) {
  if (!map.has(key)) map.set(key, []);
  return map.get(key);
}

function missed(place, steps) {
  return Math.abs(place * steps - Math.round(place * steps)) / steps;
}

/** Notes that were let go a little early reach to the next one of their track: no rests of a breath. */
function joined(notes) {
  const starts = new Map();
  for (const note of notes) listed(starts, note.track).push(note.start);
  for (const list of starts.values()) list.sort((a, b) => a - b);
  return notes.map(({ loose, ...note }) => {
    if (!loose) return note;
    const places = starts.get(note.track);
    const next = places[lowerBound(places, note.end)];
    return next !== undefined && next - note.end <= QUARTER / 4 ? { ...note, end: next } : note;
  });
}
