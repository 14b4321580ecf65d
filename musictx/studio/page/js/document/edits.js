/**
 * Edits as operations: pure functions from notes to what is sent to the server.
 * Locked notes are left as they are by all but `unlock`.
 */

import { count } from "./words.js";

/** Shortest note that an edit leaves: seconds. */
export const SHORTEST = 0.01;

/** Those of the ids that stand in the piece and are free. @param {Piece} piece @param {Iterable<number>} ids */
export function freeNotes(piece, ids) {
  const notes = [];
  for (const id of ids) {
    const note = piece.notes.get(id);
    if (note && !piece.locked.has(id)) notes.push(note);
  }
  return notes;
}

/** How far notes can move as a group, at most as far as asked. @param {Note[]} notes */
export function limitMove(notes, seconds, semitones) {
  let earliest = Infinity;
  let low = 127;
  let high = 0;
  for (const note of notes) {
    earliest = Math.min(earliest, note.start);
    low = Math.min(low, note.pitch);
    high = Math.max(high, note.pitch);
  }
  return {
    seconds: Math.max(seconds, -earliest),
    semitones: Math.min(Math.max(semitones, -low), 127 - high),
  };
}

/** @param {Note[]} notes @param {(note: Note) => Note} change @returns {Operation | null} */
function changeNotes(verb, notes, change) {
  const all = notes.map(change);
  const different = all.filter((note, i) => note !== notes[i]);
  return different.length ? { label: `${count(different.length, "note")} ${verb}`, change: different } : null;
}

/** @param {Note[]} notes */
export function move(notes, by, semitones) {
  const { seconds, semitones: up } = limitMove(notes, by, semitones);
  if (Math.abs(seconds) < 1e-9 && !up) return null;
  return changeNotes("moved", notes, (note) => ({
    ...note, start: Math.max(0, note.start + seconds), end: note.end + seconds, pitch: note.pitch + up,
  }));
}

/** Ends (or starts) later by so many seconds. @param {Note[]} notes @param {"start" | "end"} edge */
export function resize(notes, edge, by) {
  if (Math.abs(by) < 1e-9) return null;
  return changeNotes(edge === "end" && by > 0 ? "lengthened" : "shortened", notes, (note) => edge === "end"
    ? { ...note, end: Math.max(note.end + by, note.start + SHORTEST) }
    : { ...note, start: Math.max(0, Math.min(note.start + by, note.end - SHORTEST)) });
}

/** @param {Note[]} notes */
export function louder(notes, by) {
  return changeNotes(by > 0 ? "louder" : "softer", notes, (note) => {
    const velocity = clampVelocity(note.velocity + by);
    return velocity === note.velocity ? note : { ...note, velocity };
  });
}

/** Each as hard as drawn: note -> velocity. @param {Note[]} notes @param {Map<number, number>} velocities */
export function setVelocities(notes, velocities) {
  return changeNotes("struck anew", notes, (note) => {
    const velocity = clampVelocity(velocities.get(note.id) ?? note.velocity);
    return velocity === note.velocity ? note : { ...note, velocity };
  });
}

const clampVelocity = (velocity) => Math.min(127, Math.max(1, Math.round(velocity)));

/** Straight and whole: to the lines, starts alone. */
export const STRAIGHT = { strength: 1, swing: 0.5, lengths: false };

/** Return the nearest grid line, where every second line is delayed by `swing`. @param {Beats} beats */
function line(beats, seconds, division, swing) {
  if (division % 2 || swing === 0.5) return beats.snap(seconds, division);
  const beat = beats.index(seconds);
  const lines = Array.from({ length: division + 1 }, (_, k) => beats.toSeconds(beat + (k % 2 ? k - 1 + 2 * swing : k) / division));
  return lines.reduce((best, time) => (Math.abs(time - seconds) < Math.abs(best - seconds) - 1e-9 ? time : best));
}

/**
 * Starts to the grid, as far of the way as `strength` says (0 to 1); with `lengths` the ends too, else the
 * lengths stay. `swing` is where in a pair of lines the second one stands: 0.5 straight, 2/3 as triplets.
 * @param {Note[]} notes @param {Beats} beats
 */
export function quantise(notes, beats, division, { strength, swing, lengths } = STRAIGHT) {
  const lines = division || 4;
  return changeNotes("quantised", notes, (note) => {
    const at = line(beats, note.start, lines, swing);
    const start = note.start + (at - note.start) * strength;
    let end = note.end + start - note.start;
    if (lengths) {
      const to = line(beats, note.end, lines, swing);
      const least = at + (beats.step(at, lines, 1) - at) / 2;
      end = note.end + ((to > least ? to : line(beats, beats.step(at, lines, 1), lines, swing)) - note.end) * strength;
      end = Math.max(end, start + SHORTEST);
    }
    return Math.abs(start - note.start) < 1e-6 && Math.abs(end - note.end) < 1e-6 ? note : { ...note, start, end };
  });
}

/** @param {Note[]} notes */
export function toTrack(notes, track) {
  return changeNotes("moved to another track", notes, (note) => (note.track === track ? note : { ...note, track }));
}

/** @param {Note[]} notes @returns {Operation | null} */
export function erase(notes) {
  return notes.length ? { label: `${count(notes.length, "note")} deleted`, remove: notes.map((note) => note.id) } : null;
}

/** Locks the notes, or unlocks them if all are locked. @param {Piece} piece @param {number[]} ids @returns {Operation | null} */
export function toggleLock(piece, ids) {
  if (!ids.length) return null;
  const open = ids.filter((id) => !piece.locked.has(id));
  return open.length
    ? { label: `${count(open.length, "note")} locked`, lock: open }
    : { label: `${count(ids.length, "note")} unlocked`, unlock: ids };
}

/** A new note. @param {Piece} piece @param {Omit<Note, "id">} note @returns {Operation} */
export function draw(piece, note) {
  const start = Math.max(0, note.start);
  const end = Math.max(note.end, start + SHORTEST);
  return { label: "1 note drawn", add: [{ ...note, start, end, velocity: clampVelocity(note.velocity), id: piece.next_id }] };
}

/** Notes as the clipboard keeps them: from 0 on. @param {Note[]} notes */
export function clip(notes) {
  const first = Math.min(...notes.map((note) => note.start));
  return notes.map((note) => ({ ...note, start: note.start - first, end: note.end - first }));
}

/** The clipboard into the piece at a moment. @param {Piece} piece @param {Note[]} clipped @returns {Operation | null} */
export function paste(piece, clipped, at) {
  if (!clipped.length) return null;
  const ids = new Set(piece.tracks.map((track) => track.id));
  const add = clipped.map((note, i) => ({
    ...note,
    id: piece.next_id + i,
    start: note.start + at,
    end: note.end + at,
    track: ids.has(note.track) ? note.track : piece.tracks[0]?.id ?? 0,
  }));
  return { label: `${count(add.length, "note")} pasted`, add };
}
