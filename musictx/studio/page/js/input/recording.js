/** A recording of keys and a sustain pedal as notes, and the count-in before it; no DOM. */

import { count } from "../document/words.js";

const SHORTEST = 0.03; // seconds of a recorded note at least

/** Notes from keys that are pressed and released; times are seconds of the document. */
export class Recording {
  /** @param {number} track @param {number} from  start of the recording; a note that starts in the count-in starts here */
  constructor(track, from = 0) {
    this.track = track;
    this.from = from;
    this.sustained = false;
    /** All notes so far; those that still sound have the end null. @type {Ghost[]} */
    this.notes = [];
    this.pressed = new Set(); // pitches; other notes that sound are held by the pedal
  }

  noteOn(time, pitch, velocity) {
    this.#finish(time, (note) => note.pitch === pitch);
    this.pressed.add(pitch);
    this.notes.push({ start: Math.max(time, this.from), end: null, pitch, velocity, track: this.track });
  }

  noteOff(time, pitch) {
    this.pressed.delete(pitch);
    if (!this.sustained) this.#finish(time, (note) => note.pitch === pitch);
  }

  sustain(time, down) {
    this.sustained = down;
    if (!down) this.#finish(time, (note) => !this.pressed.has(note.pitch));
  }

  /** End the recording and all open notes; return the notes, by start. */
  end(time) {
    this.#finish(time, () => true);
    return this.notes.sort((a, b) => a.start - b.start || a.pitch - b.pitch);
  }

  /** End the open notes for which `ends` is true; notes that end in the count-in are dropped. @param {number} time @param {(note: Ghost) => boolean} ends */
  #finish(time, ends) {
    const ended = this.notes.filter((note) => note.end === null && ends(note));
    for (const note of ended) note.end = Math.max(time, note.start + SHORTEST);
    if (time <= this.from) this.notes = this.notes.filter((note) => !ended.includes(note));
  }
}

/** Return the clicks of a count-in in seconds before `from`: a bar of the meter and tempo there. @param {Beats} beats */
export function countIn(beats, /** @type {number} */ from) {
  const { begin, end } = beats.bar(from);
  const count = beats.index((begin + end) / 2 + (end - begin) / 2 - 1e-3) - beats.index(begin) + 1;
  const length = (end - begin) / count;
  const clicks = Math.max(count, 2); // a pick-up bar of one beat is too short to hear the tempo
  return Array.from({ length: clicks }, (_, i) => (clicks - i) * length);
}

/** Return the operation that adds the recorded notes; null without notes. @param {Piece} piece @param {Recording["notes"]} played */
export function addRecording(piece, played) {
  if (!played.length) return null;
  return { label: `${count(played.length, "note")} recorded`, add: played.map((note, i) => ({ ...note, id: piece.next_id + i })) };
}
