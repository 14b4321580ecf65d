// The clock of the music: which moment of the document sounds at which moment of the sound card.
// Pure: it counts, it plays nothing.

/**
 * Plays from `from`; with a loop it jumps from the loop's end to its begin for ever. Windows that are
 * taken follow each other without gap: each is a stretch of the document and when it is to sound.
 */
export class Transport {
  /**
   * @param {number} from moment of the document
   * @param {number} when moment of the sound card at which it sounds
   * @param {[number, number] | null} loop
   */
  constructor(from, when, loop = null) {
    this.loop = loop && loop[1] - loop[0] > 0.05 ? loop : null;
    /** @type {{from: number, when: number}[]} stretches that begin, in order */
    this.stretches = [{ from, when }];
    this.taken = from; // up to here of the last stretch
  }

  /** Stretches to be scheduled until `until` (sound card), none beyond `edge` (document). */
  take(until, edge = Infinity) {
    const windows = [];
    for (;;) {
      const { from, when } = this.stretches.at(-1);
      const end = this.loop && this.taken < this.loop[1] ? this.loop[1] : Infinity;
      const to = Math.min(from + until - when, end, Math.max(edge, this.taken));
      if (to > this.taken) windows.push({ from: this.taken, to, offset: when - from, stop: end });
      this.taken = Math.max(this.taken, to);
      if (this.taken < end) return windows;
      this.stretches.push({ from: this.loop[0], when: when + end - from });
      this.taken = this.loop[0];
      if (this.stretches.length > 64) this.stretches.shift();
    }
  }

  /** Stand still: at `when` (sound card) the music is at `moment`, whatever was before. */
  hold(moment, when) {
    this.stretches = [{ from: moment, when }];
    this.taken = Math.max(this.taken, moment);
  }

  /** The moment of the document that sounds at `when`. */
  at(when) {
    const part = this.stretches.findLast((stretch) => stretch.when <= when) ?? this.stretches[0];
    const moment = part.from + Math.max(0, when - part.when);
    return this.loop && part === this.stretches.at(-1) && moment > this.loop[1] && part.from < this.loop[1]
      ? this.loop[1] : moment;
  }
}

const LATEST = 1; // seconds that sound may take to the ears; Bluetooth takes some tenths

/**
 * The time of a context that the loudspeakers play now: by its time stamp where that is possible (in WebKitGTK the
 * clock of the stamp runs twice as fast as the page's), else by its latency. Seconds, but `now` and the clock of the
 * stamp count milliseconds.
 * @param {{contextTime?: number, performanceTime?: number} | undefined} stamp
 */
export function outputTime(stamp, currentTime, latency, now) {
  const reported = stamp?.performanceTime ? stamp.contextTime + (now - stamp.performanceTime) / 1000 : NaN;
  return reported > currentTime - LATEST && reported < currentTime + 0.1 ? reported : currentTime - latency;
}
