/** Conversion between the time of the document and the time of the audio context. */

/**
 * The schedule of a playback, which repeats the loop if there is one. `take` returns consecutive windows of the document,
 * each with the offset from document time to audio time.
 */
export class Transport {
  /**
   * @param {number} from  time of the document
   * @param {number} when  audio time at which it sounds
   * @param {[number, number] | null} loop
   */
  constructor(from, when, loop = null) {
    this.loop = loop && loop[1] - loop[0] > 0.05 ? loop : null;
    /** @type {{from: number, when: number}[]} in order: the start, then a stretch for each jump of the loop */
    this.stretches = [{ from, when }];
    this.taken = from; // end of the last window, in time of the document
  }

  /** Return the windows up to the audio time `until`, at most up to the document time `limit`. */
  take(until, limit = Infinity) {
    const windows = [];
    for (;;) {
      const { from, when } = this.stretches.at(-1);
      const end = this.loop && this.taken < this.loop[1] ? this.loop[1] : Infinity;
      const to = Math.min(from + until - when, end, Math.max(limit, this.taken));
      if (to > this.taken) windows.push({ from: this.taken, to, offset: when - from, stop: end });
      this.taken = Math.max(this.taken, to);
      if (this.taken < end) return windows;
      this.stretches.push({ from: this.loop[0], when: when + end - from });
      this.taken = this.loop[0];
      if (this.stretches.length > 64) this.stretches.shift();
    }
  }

  /** Wait at a document time, to continue at the audio time `when`. */
  hold(moment, when) {
    this.stretches = [{ from: moment, when }];
    this.taken = Math.max(this.taken, moment);
  }

  /** Return the document time that sounds at an audio time. */
  at(when) {
    const part = this.stretches.findLast((stretch) => stretch.when <= when) ?? this.stretches[0];
    const moment = part.from + Math.max(0, when - part.when);
    return this.loop && part === this.stretches.at(-1) && moment > this.loop[1] && part.from < this.loop[1]
      ? this.loop[1] : moment;
  }
}

const MAX_LATENCY = 1; // seconds; Bluetooth has some tenths

/**
 * Return the context time that the loudspeakers play now, from the output timestamp if it is plausible (in WebKitGTK its
 * clock runs twice too fast), else from the latency. `now` and `performanceTime` are milliseconds.
 * @param {{contextTime?: number, performanceTime?: number} | undefined} stamp
 */
export function outputTime(stamp, currentTime, latency, now) {
  const reported = stamp?.performanceTime ? stamp.contextTime + (now - stamp.performanceTime) / 1000 : NaN;
  return reported > currentTime - MAX_LATENCY && reported < currentTime + 0.1 ? reported : currentTime - latency;
}
