/**
 * Edits of notes as operations. Pure functions; they return null if nothing would change.
 * Callers pass unlocked notes (see freeNotes in notes.js).
 */

import { clamp } from "../core/numbers.js";
import { extentOf } from "./notes.js";
import { count } from "./words.js";

/** The shortest note that an edit makes, in seconds. */
const SHORTEST = 0.01;

/** Apply `change` to each note; it returns a note that stays as it is unchanged. @param {Note[]} notes @param {(note: Note) => Note} change @returns {Operation | null} */
function changeNotes(verb, notes, change) {
  const changed = notes.map(change).filter((note, i) => note !== notes[i]);
  return changed.length ? { label: `${count(changed.length, "note")} ${verb}`, change: changed } : null;
}

/** Move notes by seconds and semitones, all by the same: as far as they stay after the start and within MIDI pitches. @param {Note[]} notes */
export function moveNotes(notes, seconds, semitones) {
  const { begin, low, high } = extentOf(notes);
  const by = Math.max(seconds, -begin);
  const up = clamp(semitones, -low, 127 - high);
  if (Math.abs(by) < 1e-9 && !up) return null;
  return changeNotes("moved", notes, (note) => ({
    ...note, start: Math.max(0, note.start + by), end: note.end + by, pitch: note.pitch + up,
  }));
}

/** Move the ends or the starts of notes by seconds. @param {Note[]} notes @param {"start" | "end"} edge */
export function resizeNotes(notes, edge, by) {
  if (Math.abs(by) < 1e-9) return null;
  return changeNotes(edge === "end" && by > 0 ? "lengthened" : "shortened", notes, (note) => edge === "end"
    ? { ...note, end: Math.max(note.end + by, note.start + SHORTEST) }
    : { ...note, start: Math.max(0, Math.min(note.start + by, note.end - SHORTEST)) });
}

/** Return the note with the MIDI velocity nearest to `wanted`. @param {Note} note @param {number} wanted */
function withVelocity(note, wanted) {
  const velocity = clamp(Math.round(wanted), 1, 127);
  return velocity === note.velocity ? note : { ...note, velocity };
}

/** Add to the velocity of notes. @param {Note[]} notes */
export const changeVelocity = (notes, by) => changeNotes(by > 0 ? "louder" : "softer", notes, (note) => withVelocity(note, note.velocity + by));

/** Set velocities by note id. @param {Note[]} notes @param {Map<number, number>} velocities */
export const setVelocities = (notes, velocities) =>
  changeNotes("given new velocities", notes, (note) => withVelocity(note, velocities.get(note.id) ?? note.velocity));

/** The default options of quantise. */
export const DEFAULT_QUANTISE = { strength: 1, swing: 0.5, lengths: false };

/** Return the nearest grid line, where every second line is delayed by `swing`. @param {Beats} beats */
function nearestLine(beats, seconds, division, swing) {
  if (division % 2 || swing === 0.5) return beats.snap(seconds, division);
  const beat = beats.index(seconds);
  const lines = Array.from({ length: division + 1 }, (_, k) => beats.toSeconds(beat + (k % 2 ? k - 1 + 2 * swing : k) / division));
  return lines.reduce((best, time) => (Math.abs(time - seconds) < Math.abs(best - seconds) - 1e-9 ? time : best));
}

/**
 * Move the starts of notes towards the grid by `strength` (0 to 1: onto it), and their ends too if `lengths`; else notes
 * keep their lengths. `swing` is the position of every second grid line between its neighbours: 0.5 straight, 2/3 triplets.
 * @param {Note[]} notes @param {Beats} beats
 */
export function quantiseNotes(notes, beats, division, { strength, swing, lengths } = DEFAULT_QUANTISE) {
  const lines = division || 4;
  return changeNotes("quantised", notes, (note) => {
    const startLine = nearestLine(beats, note.start, lines, swing);
    const start = note.start + (startLine - note.start) * strength;
    let end = note.end + start - note.start;
    if (lengths) {
      const nextLine = beats.step(startLine, lines, 1);
      const nearest = nearestLine(beats, note.end, lines, swing);
      const endLine = nearest > (startLine + nextLine) / 2 ? nearest : nearestLine(beats, nextLine, lines, swing);
      end = note.end + (endLine - note.end) * strength;
      end = Math.max(end, start + SHORTEST);
    }
    return Math.abs(start - note.start) < 1e-6 && Math.abs(end - note.end) < 1e-6 ? note : { ...note, start, end };
  });
}

/** Move notes to a track. @param {Note[]} notes */
export function moveToTrack(notes, track) {
  return changeNotes("moved to another track", notes, (note) => (note.track === track ? note : { ...note, track }));
}

/** Delete notes. @param {Note[]} notes @returns {Operation | null} */
export function deleteNotes(notes) {
  return notes.length ? { label: `${count(notes.length, "note")} deleted`, remove: notes.map((note) => note.id) } : null;
}

/** Lock notes, or unlock them if all are locked. @param {Piece} piece @param {number[]} ids @returns {Operation | null} */
export function toggleLock(piece, ids) {
  if (!ids.length) return null;
  const unlocked = ids.filter((id) => !piece.locked.has(id));
  return unlocked.length
    ? { label: `${count(unlocked.length, "note")} locked`, lock: unlocked }
    : { label: `${count(ids.length, "note")} unlocked`, unlock: ids };
}

/** Return copies of notes for the clipboard, the first starting at 0. @param {Note[]} notes */
export function copyNotes(notes) {
  const { begin } = extentOf(notes);
  return notes.map((note) => ({ ...note, start: note.start - begin, end: note.end - begin }));
}

/** Add the notes of the clipboard at a time; notes of a deleted track go to the first track. @param {Piece} piece @param {Note[]} clipped @param {number} time @returns {Operation | null} */
export function pasteNotes(piece, clipped, time) {
  if (!clipped.length) return null;
  const ids = new Set(piece.tracks.map((track) => track.id));
  const add = clipped.map((note, i) => ({
    ...note,
    id: piece.next_id + i,
    start: note.start + time,
    end: note.end + time,
    track: ids.has(note.track) ? note.track : piece.tracks[0]?.id ?? 0,
  }));
  return { label: `${count(add.length, "note")} pasted`, add };
}
