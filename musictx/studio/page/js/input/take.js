// What was played, as notes: keys down and up, a sustain pedal, a grid. Pure.

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
    /** @type {[start: number, end: number, pitch: number, velocity: number, track: number][]} */
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
    return this.notes.sort((a, b) => a[0] - b[0] || a[2] - b[2]);
  }

  #finish(keys, pitch, time) {
    const found = keys.get(pitch);
    keys.delete(pitch);
    if (!found || time <= this.from) return; // played and over before the start
    const start = Math.max(found[0], this.from);
    this.notes.push([start, Math.max(time, start + SHORTEST), pitch, found[1], this.track]);
  }
}

/**
 * The beat at a moment, as a number with its fraction, and back; beats: [[time, bar, beat], ...].
 * Beyond the last beat time goes on as between the last two.
 */
export function beatAt(/** @type {number[][]} */ beats, /** @type {number} */ time) {
  const i = segment(beats, (beat) => beats[beat][0] <= time);
  return i + (time - beats[i][0]) / (beats[i + 1][0] - beats[i][0]);
}

export function timeAt(/** @type {number[][]} */ beats, /** @type {number} */ beat) {
  const i = segment(beats, (index) => index <= beat);
  return beats[i][0] + (beat - i) * (beats[i + 1][0] - beats[i][0]);
}

function segment(beats, before) {
  let low = 0, high = beats.length - 2;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (before(middle)) low = middle;
    else high = middle - 1;
  }
  return low;
}

/**
 * Notes moved to the nearest of `steps` equal parts of a beat: starts by `strength` (0 to 1) of the
 * way, lengths to whole parts, one at least. Ids, where there are any, stay in front.
 * @param {number[][]} notes [start, end, ...] or, with `at` 1, [id, start, end, ...]
 */
export function quantised(notes, beats, steps = 4, strength = 1, at = 0) {
  if (beats.length < 2) return notes;
  return notes.map((note) => {
    const [start, end] = [beatAt(beats, note[at]), beatAt(beats, note[at + 1])];
    const grid = Math.max(Math.round(start * steps) / steps, 0);
    const length = Math.max(Math.round((end - start) * steps), 1) / steps;
    const moved = start + (grid - start) * strength;
    const until = end + (grid + length - end) * strength;
    return [...note.slice(0, at), timeAt(beats, moved), timeAt(beats, until), ...note.slice(at + 2)];
  });
}

/** Seconds before `from` at which a count-in clicks: a bar of beats as long as those at `from`. */
export function countIn(/** @type {number[][]} */ beats, /** @type {number} */ from, bars = 1) {
  if (beats.length < 2) return [2, 1.5, 1, 0.5];
  const place = Math.min(Math.max(Math.floor(beatAt(beats, from) + 1e-6), 0), beats.length - 2);
  const length = beats[place + 1][0] - beats[place][0];
  const bar = beats[place][1];
  const inBar = beats.filter((beat) => beat[1] === bar).length;
  const clicks = Math.max(inBar, 2) * bars;
  return Array.from({ length: clicks }, (_, i) => (clicks - i) * length);
}
