/**
 * A piece as a score: bars, quantised notes, staves and voices. Times are ticks, of which a quarter note has 24. A voice is a
 * list of chords that never overlap. Pure functions.
 */

import { clamp, lowerBound } from "../core/numbers.js";
import { extentOf } from "../document/notes.js";

export const QUARTER = 24; // ticks: a 32nd note has 3, an eighth of a triplet 8
const MIDDLE_C = 60;
const TOLERANCE = 0.06; // quarters by which a note that is on the grid may miss it

/** @typedef {{tick: number, ticks: number, time: number, number: number, meter: [number, number], key: [number, any] | null}} Bar  tick: its start; time: its start in seconds */
/** @typedef {{id: number, start: number, end: number, pitch: number, track: number}} GridNote */
/** @typedef {{start: number, end: number, notes: GridNote[]}} VoiceChord */
/** @typedef {{clef: "treble" | "bass", voices: VoiceChord[][]}} Staff */

/** Return the bars of a piece up to its last note. @param {Piece} piece @returns {Bar[]} */
export function barsOf({ beats, meters, keys, duration }) {
  const valueAt = (/** @type {any[][]} */ marks, time, /** @type {any} */ fallback) =>
    marks.findLast(([start]) => start <= time + 1e-6)?.slice(1) ?? fallback;
  const bars = [];
  let tick = 0;
  for (let i = 0; i < beats.length;) {
    const [time, number] = beats[i];
    if (time > duration - 1e-3 && bars.length) break;
    let next = i;
    while (next < beats.length && beats[next][1] === number) next++;
    const meter = valueAt(meters, time, [4, 4]);
    const ticks = Math.round(((next - i) * QUARTER * 4) / meter[1]);
    bars.push({ tick, ticks, time, number, meter, key: valueAt(keys, time, null) });
    tick += ticks;
    i = next;
  }
  return bars;
}

/** Return a function from seconds to quarter notes after the first beat. @param {Pick<Piece, "beats" | "meters">} piece */
export function quartersOf({ beats, meters }) {
  const lengths = beats.map(([time]) => 4 / (meters.findLast(([start]) => start <= time + 1e-6)?.[2] ?? 4));
  const starts = [0];
  for (const length of lengths) starts.push(starts.at(-1) + length);
  return (/** @type {number} */ time) => {
    const last = lowerBound(beats, time + 1e-9, (beat) => beat[0]) - 1; // the last beat that has begun
    const beat = clamp(last, 0, beats.length - 2);
    const part = (time - beats[beat][0]) / (beats[beat + 1][0] - beats[beat][0]);
    return starts[beat] + part * lengths[beat];
  };
}

/** Return how many quarters a time misses the nearest of `steps` equal parts of a quarter. */
const distance = (quarters, steps) => Math.abs(quarters * steps - Math.round(quarters * steps)) / steps;

/**
 * Quantise notes. Each quarter is divided into 16ths (32nds if the music needs them) or a triplet, whichever is nearer
 * to its notes. `onGrid` is the share of notes that started on the grid before.
 * @param {Note[]} notes @param {Pick<Piece, "beats" | "meters">} piece @returns {{notes: GridNote[], onGrid: number}}
 */
export function quantiseForNotation(notes, piece) {
  const quarters = quartersOf(piece);
  const played = notes.map(({ id, start, end, pitch, track }) => ({ id, pitch, track, start: quarters(start), end: quarters(end) }));
  const countOff = (steps) => played.filter(({ start }) => distance(start, steps) > TOLERANCE / 2 && distance(start, 3) > TOLERANCE).length;
  const steps = countOff(4) > 0 && countOff(8) === 0 ? 8 : 4;
  /** @type {Map<number, number[]>} quarter -> where in it notes start or end */
  const within = new Map();
  for (const time of played.flatMap(({ start, end }) => [start, end])) {
    const quarter = Math.floor(time + TOLERANCE);
    append(within, quarter, time - quarter);
  }
  /** @type {Map<number, number>} quarter -> number of parts */
  const parts = new Map();
  for (const [quarter, places] of within) {
    const error = (n) => places.reduce((sum, place) => sum + distance(place, n), 0);
    const hasThird = places.some((place) => [1, 2].includes(Math.round(place * 3)) && distance(place, 3) < TOLERANCE);
    parts.set(quarter, hasThird && error(3) < 0.6 * error(steps) ? 3 : steps);
  }
  const snap = (time) => {
    const quarter = Math.floor(time + TOLERANCE);
    const n = parts.get(quarter) ?? steps;
    return Math.round((quarter + Math.round((time - quarter) * n) / n) * QUARTER);
  };
  const quantised = played.map((note) => {
    const start = snap(note.start);
    const n = parts.get(Math.floor(start / QUARTER)) ?? steps;
    return { ...note, start, end: Math.max(snap(note.end), start + QUARTER / n), endsOffGrid: distance(note.end, n) > TOLERANCE };
  });
  const off = played.filter(({ start }) => distance(start, steps) > 0.7 * TOLERANCE && distance(start, 3) > 0.7 * TOLERANCE).length;
  return { notes: closeGaps(quantised), onGrid: played.length ? 1 - off / played.length : 1 };
}

/** Extend notes that end off the grid shortly before the next note of their track up to that note, so that no short rests are written. */
function closeGaps(notes) {
  const starts = new Map();
  for (const { track, start } of notes) append(starts, track, start);
  for (const times of starts.values()) times.sort((a, b) => a - b);
  return notes.map(({ endsOffGrid, ...note }) => {
    const times = starts.get(note.track);
    const next = endsOffGrid ? times[lowerBound(times, note.end)] : Infinity;
    return next - note.end <= QUARTER / 4 ? { ...note, end: next } : note;
  });
}

function append(lists, key, value) {
  if (!lists.has(key)) lists.set(key, []);
  lists.get(key).push(value);
}

/**
 * Return a part with its staves for each track that has notes, except drums. Four tracks of single notes, ordered
 * from high to low, become one choir on two staves.
 * @param {GridNote[]} notes @param {Track[]} tracks @returns {{name: string, staves: Staff[], choir: boolean}[]}
 */
export function partsOf(notes, tracks) {
  const parts = tracks.filter((track) => !track.drum).map(({ id, name }) => {
    const trackNotes = notes.filter((note) => note.track === id);
    const voices = voicesOf(trackNotes);
    const isMelody = voices.length === 1 && voices[0].every((chord) => chord.notes.length === 1);
    return { name, notes: trackNotes, voices, isMelody, meanPitch: trackNotes.reduce((sum, note) => sum + note.pitch, 0) / trackNotes.length };
  }).filter((part) => part.notes.length);
  if (parts.length === 4 && parts.every((part, i) => part.isMelody && (i === 0 || part.meanPitch < parts[i - 1].meanPitch))) {
    const [soprano, alto, tenor, bass] = parts.map((part) => part.voices[0]);
    return [{ name: "", staves: [{ clef: "treble", voices: [soprano, alto] }, { clef: "bass", voices: [tenor, bass] }], choir: true }];
  }
  return parts.map((part) => ({ name: part.name, staves: stavesOf(part), choir: false }));
}

/** Return one staff if it is enough, else a staff for each hand. @returns {Staff[]} */
function stavesOf({ notes, voices, isMelody, meanPitch }) {
  const { low, high } = extentOf(notes);
  if (isMelody || low >= MIDDLE_C - 5 || high <= MIDDLE_C + 4) {
    return [{ clef: meanPitch >= MIDDLE_C - 3 ? "treble" : "bass", voices }];
  }
  return [
    { clef: "treble", voices: voicesOf(notes.filter((note) => note.pitch >= MIDDLE_C)) },
    { clef: "bass", voices: voicesOf(notes.filter((note) => note.pitch < MIDDLE_C)) },
  ];
}

/** Distribute notes over as few voices as possible; notes with the same start and end form a chord. @param {GridNote[]} notes @returns {VoiceChord[][]} */
export function voicesOf(notes) {
  /** @type {Map<string, VoiceChord>} */
  const chords = new Map();
  for (const note of notes) {
    const key = `${note.start} ${note.end}`;
    const chord = chords.get(key) ?? { start: note.start, end: note.end, notes: [] };
    chords.set(key, chord);
    if (!chord.notes.some((other) => other.pitch === note.pitch)) chord.notes.push(note);
  }
  for (const chord of chords.values()) chord.notes.sort((a, b) => a.pitch - b.pitch);
  const voices = /** @type {VoiceChord[][]} */ ([]);
  for (const chord of [...chords.values()].sort((a, b) => a.start - b.start || b.notes.at(-1).pitch - a.notes.at(-1).pitch)) {
    const free = voices.find((voice) => voice.at(-1).end <= chord.start);
    if (free) free.push(chord);
    else voices.push([chord]);
  }
  return voices.length ? voices : [[]];
}
