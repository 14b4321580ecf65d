/** Tempo, meter and key of a piece at a time; bars, beats and grid lines, computed from the server's list of beats. */

import { lowerBound } from "../core/numbers.js";

const TOLERANCE = 1e-4; // seconds between times that count as the same

/** Return the timing that holds at a time. @param {Piece} piece @param {number} [time] @returns {Timing} */
export const timingAt = ({ timings }, time = 0) => timings.findLast((each) => each.time <= time + TOLERANCE) ?? timings[0];

export class Beats {
  /** @param {Beat[]} list  every beat, in order of time */
  constructor(list) {
    this.list = list.length > 1 ? list : [[0, 1, 1], [0.5, 1, 2]];
    this.times = Float64Array.from(this.list, (beat) => beat[0]);
    const last = this.list.length - 1;
    /** Length of the beats after the list's end, in seconds. */
    this.tail = this.times[last] - this.times[last - 1];
    const lastBar = this.list[last][1];
    /** Beats in each bar after the list's end: as many as in the last whole bar. */
    this.tailBeats = Math.max(1, ...this.list.filter((beat) => beat[1] >= lastBar - 1).map((beat) => beat[2]));
  }

  /** Return the index of the beat at a moment, from 0; the beats continue after the list's end. */
  index(seconds) {
    const last = this.times.length - 1;
    if (seconds >= this.times[last] - TOLERANCE) return last + Math.max(0, Math.floor((seconds - this.times[last] + TOLERANCE) / this.tail));
    return Math.max(0, lowerBound(this.times, seconds + TOLERANCE) - 1);
  }

  /** Return the start of a beat in seconds. */
  time(index) {
    const last = this.times.length - 1;
    return index <= last ? this.times[Math.max(0, index)] : this.times[last] + (index - last) * this.tail;
  }

  /** Return [bar, beat] of the beat with an index. */
  barAndBeat(index) {
    const last = this.list.length - 1;
    if (index <= last) return this.list[Math.max(0, index)].slice(1);
    const [, bar, beat] = this.list[last];
    const beats = beat - 1 + index - last;
    return [bar + Math.floor(beats / this.tailBeats), 1 + (beats % this.tailBeats)];
  }

  /** Return a time in beats: the index of the beat, plus the fraction of it that has passed. */
  toBeats(seconds) {
    const index = this.index(seconds);
    const start = this.time(index);
    return index + (seconds - start) / (this.time(index + 1) - start);
  }

  /** Return the seconds of a time in beats. */
  toSeconds(beats) {
    const index = Math.floor(beats);
    const start = this.time(index);
    return start + (beats - index) * (this.time(index + 1) - start);
  }

  /** Return {bar, beat, part} of a time; part is the fraction of the beat that has passed, 0 to below 1. */
  at(seconds) {
    const index = this.index(Math.max(0, seconds));
    const [bar, beat] = this.barAndBeat(index);
    const part = this.toBeats(Math.max(0, seconds)) - index;
    return { bar, beat, part: part > 1 - TOLERANCE || part < TOLERANCE ? 0 : part };
  }

  /** Return the beats between two moments, rounded to hundredths. */
  length(begin, end) {
    return Math.round((this.toBeats(end) - this.toBeats(begin)) * 100) / 100;
  }

  /** Return the bar at a moment. @returns {Bar} */
  bar(seconds) {
    let first = this.index(Math.max(0, seconds));
    const [number] = this.barAndBeat(first);
    let after = first + 1;
    while (first > 0 && this.barAndBeat(first - 1)[0] === number) first--;
    while (this.barAndBeat(after)[0] === number) after++;
    return { number, begin: this.time(first), end: this.time(after) };
  }

  /** Return the whole bars that contain two moments, given in either order. */
  bars(a, b) {
    const [low, high] = a < b ? [a, b] : [b, a];
    const first = this.bar(low + TOLERANCE);
    const last = this.bar(Math.max(low + TOLERANCE, high - 3 * TOLERANCE));
    return { begin: first.begin, end: last.end };
  }

  /** Yield {time, bar, beat} of the beats from `begin` to `end`. */
  *between(begin, end) {
    for (let index = this.index(Math.max(0, begin)); ; index++) {
      const time = this.time(index);
      if (time > end) return;
      const [bar, beat] = this.barAndBeat(index);
      yield { time, bar, beat };
    }
  }

  /** Return the nearest line of a grid that has `division` lines a beat; 0 means no grid. */
  snap(seconds, division) {
    const time = Math.max(0, seconds);
    return division ? this.toSeconds(Math.round(this.toBeats(time) * division) / division) : time;
  }

  /** Return the last grid line at or before a moment. */
  floor(seconds, division) {
    const time = Math.max(0, seconds);
    return division ? this.toSeconds(Math.floor(this.toBeats(time + TOLERANCE) * division) / division) : time;
  }

  /** Return the moment `count` grid lines later (earlier if negative). Without a grid, a line is a quarter of a beat. */
  step(seconds, division, count) {
    const lines = division || 4;
    const from = this.toBeats(Math.max(0, seconds)) * lines;
    const line = (count > 0 ? Math.floor(from + 1e-3) : Math.ceil(from - 1e-3)) + count;
    return this.toSeconds(Math.max(0, line) / lines);
  }
}
