/** A recording of keys and a sustain pedal as notes, and the count-in before it. Pure. */

import { count } from "../document/words.js";

const SHORTEST = 0.03; // seconds of a recorded note at least

/** Notes from keys that are pressed and released; times are seconds of the document. */
export class Recording {
  /** @param {number} track @param {number} from  start of the recording; a note that starts in the count-in starts here */
  constructor(track, from = 0) {
    this.track = track;
    this.from = from;
    this.open = new Map(); // pitch -> [start, velocity] of a pressed key
    this.held = new Map(); // the same of released keys that the pedal holds
    this.sustained = false;
    /** @type {{start: number, end: number, pitch: number, velocity: number, track: number}[]} */
    this.notes = [];
  }

  on(time, pitch, velocity) {
    this.off(time, pitch);
    this.#finish(this.held, pitch, time);
    this.open.set(pitch, [time, velocity]);
  }

  off(time, pitch) {
    if (!this.open.has(pitch)) return;
    if (this.sustained) {
      this.held.set(pitch, this.open.get(pitch));
      this.open.delete(pitch);
    } else {
      this.#finish(this.open, pitch, time);
    }
  }

  sustain(time, down) {
    this.sustained = down;
    if (!down) for (const pitch of [...this.held.keys()]) this.#finish(this.held, pitch, time);
  }

  /** End the recording and all open notes; return the notes, by start. */
  end(time) {
    this.sustained = false;
    for (const keys of [this.open, this.held]) for (const pitch of [...keys.keys()]) this.#finish(keys, pitch, time);
    return this.notes.sort((a, b) => a.start - b.start || a.pitch - b.pitch);
  }

  /** All notes so far; those that still sound have the end null. */
  get notesSoFar() {
    const sounding = [...this.open, ...this.held].map(([pitch, [start, velocity]]) => (
      { start: Math.max(start, this.from), end: null, pitch, velocity, track: this.track }));
    return [...this.notes, ...sounding];
  }

  #finish(keys, pitch, time) {
    const key = keys.get(pitch);
    keys.delete(pitch);
    if (!key || time <= this.from) return; // the note ended in the count-in
    const start = Math.max(key[0], this.from);
    this.notes.push({ start, end: Math.max(time, start + SHORTEST), pitch, velocity: key[1], track: this.track });
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
