// What was played, as notes: keys down and up, a sustain pedal, a count-in. Pure.
import { count } from "../document/words.js";

const SHORTEST = 0.03;

/** Gathers keys as they go down and up; times are seconds of the document. */
export class Recording {
  /** @param {number} track @param {number} from what is played earlier, in the count-in, begins here */
  constructor(track, from = 0) {
    this.track = track;
    this.from = from;
    this.open = new Map(); // pitch -> [start, velocity]
    this.held = new Map(); // let go under the pedal
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

  /** The recording ends: what sounds still ends too. Returns the notes, by time. */
  end(time) {
    this.sustained = false;
    for (const keys of [this.open, this.held]) for (const pitch of [...keys.keys()]) this.#finish(keys, pitch, time);
    return this.notes.sort((a, b) => a.start - b.start || a.pitch - b.pitch);
  }

  /** All notes, those that sound still with end null, to be drawn. */
  get notesSoFar() {
    const sounding = [...this.open, ...this.held].map(([pitch, [start, velocity]]) => (
      { start: Math.max(start, this.from), end: null, pitch, velocity, track: this.track }));
    return [...this.notes, ...sounding];
  }

  #finish(keys, pitch, time) {
    const key = keys.get(pitch);
    keys.delete(pitch);
    if (!key || time <= this.from) return; // played and over before the start
    const start = Math.max(key[0], this.from);
    this.notes.push({ start, end: Math.max(time, start + SHORTEST), pitch, velocity: key[1], track: this.track });
  }
}

/** Seconds before `from` at which a count-in clicks: a bar like the one there. @param {Beats} beats */
export function countIn(beats, /** @type {number} */ from) {
  const { begin, end } = beats.bar(from);
  const count = beats.index((begin + end) / 2 + (end - begin) / 2 - 1e-3) - beats.index(begin) + 1;
  const length = (end - begin) / count;
  const clicks = Math.max(count, 2); // a bar of one beat, a pick-up, is too short to find the time
  return Array.from({ length: clicks }, (_, i) => (clicks - i) * length);
}

/** The operation that puts what was played into a piece; null for nothing. @param {Piece} piece @param {Recording["notes"]} played */
export function addRecording(piece, played) {
  if (!played.length) return null;
  return { label: `${count(played.length, "note")} addRecording`, add: played.map((note, i) => ({ ...note, id: piece.next_id + i })) };
}
