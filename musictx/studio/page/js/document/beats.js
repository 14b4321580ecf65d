/** Bars and beats: from the server's list of every beat to positions, bars and the grid. */

import { lowerBound } from "../core/search.js";

const NEAR = 1e-4; // seconds that count as the same moment

export class Beats {
  /** @param {Beat[]} list  every beat in order, from the first bar on */
  constructor(list) {
    this.list = list.length > 1 ? list : [[0, 1, 1], [0.5, 1, 2]];
    this.times = Float64Array.from(this.list, (beat) => beat[0]);
    const last = this.list.length - 1;
    /** Length of a beat after the last one that is listed. */
    this.tail = this.times[last] - this.times[last - 1];
    const lastBar = this.list[last][1];
    /** Beats in a bar there: as many as the last whole bar had. */
    this.tailBeats = Math.max(1, ...this.list.filter((beat) => beat[1] >= lastBar - 1).map((beat) => beat[2]));
  }

  /** Number of the beat that a moment is in: 0 is the first; goes on past the list. */
  index(seconds) {
    const last = this.times.length - 1;
    if (seconds >= this.times[last] - NEAR) return last + Math.max(0, Math.floor((seconds - this.times[last] + NEAR) / this.tail));
    return Math.max(0, lowerBound(this.times, seconds + NEAR) - 1);
  }

  /** When a beat begins. */
  time(index) {
    const last = this.times.length - 1;
    return index <= last ? this.times[Math.max(0, index)] : this.times[last] + (index - last) * this.tail;
  }

  /** [bar, beat] of the beat with that number. */
  name(index) {
    const last = this.list.length - 1;
    if (index <= last) return this.list[Math.max(0, index)].slice(1);
    const [, bar, beat] = this.list[last];
    const beats = beat - 1 + index - last;
    return [bar + Math.floor(beats / this.tailBeats), 1 + (beats % this.tailBeats)];
  }

  /** Where a moment is: {bar, beat, part}, part from 0 up to 1 through the beat. */
  at(seconds) {
    const index = this.index(Math.max(0, seconds));
    const [bar, beat] = this.name(index);
    const begin = this.time(index);
    const part = (seconds - begin) / (this.time(index + 1) - begin);
    return { bar, beat, part: part > 1 - NEAR || part < NEAR ? 0 : part };
  }

  /** Beats from one moment to another, to hundredths. */
  length(begin, end) {
    const [from, to] = [begin, end].map((at) => this.index(at) + (at - this.time(this.index(at))) / (this.time(this.index(at) + 1) - this.time(this.index(at))));
    return Math.round((to - from) * 100) / 100;
  }

  /** The bar that a moment is in. @returns {Bar} */
  bar(seconds) {
    let first = this.index(Math.max(0, seconds));
    const [number] = this.name(first);
    let after = first + 1;
    while (first > 0 && this.name(first - 1)[0] === number) first--;
    while (this.name(after)[0] === number) after++;
    return { number, begin: this.time(first), end: this.time(after) };
  }

  /** The stretch of whole bars that holds two moments, in either order. */
  bars(a, b) {
    const [low, high] = a < b ? [a, b] : [b, a];
    const first = this.bar(low + NEAR);
    const last = this.bar(Math.max(low + NEAR, high - 3 * NEAR));
    return { begin: first.begin, end: last.end };
  }

  /** Beats from one moment up to another: {time, bar, beat}, for drawing. */
  *between(begin, end) {
    for (let index = this.index(Math.max(0, begin)); ; index++) {
      const time = this.time(index);
      if (time > end) return;
      const [bar, beat] = this.name(index);
      yield { time, bar, beat };
    }
  }

  /** The nearest line of a grid of `division` lines a beat; 0: no grid. */
  snap(seconds, division) {
    const at = Math.max(0, seconds);
    if (!division) return at;
    const index = this.index(at);
    const begin = this.time(index);
    const step = (this.time(index + 1) - begin) / division;
    return begin + Math.round((at - begin) / step) * step;
  }

  /** The line of the grid at or before a moment. */
  floor(seconds, division) {
    const at = Math.max(0, seconds);
    if (!division) return at;
    const index = this.index(at);
    const begin = this.time(index);
    const step = (this.time(index + 1) - begin) / division;
    return begin + Math.floor((at - begin + NEAR) / step) * step;
  }

  /** `count` lines of the grid later, or earlier; without a grid the quarter of a beat counts. */
  step(seconds, division, count) {
    const lines = division || 4;
    const index = this.index(Math.max(0, seconds));
    const begin = this.time(index);
    const part = ((seconds - begin) / (this.time(index + 1) - begin)) * lines;
    const line = index * lines + (count > 0 ? Math.floor(part + 1e-3) : Math.ceil(part - 1e-3)) + count;
    const beat = Math.floor(Math.max(0, line) / lines);
    const from = this.time(beat);
    return from + ((Math.max(0, line) % lines) / lines) * (this.time(beat + 1) - from);
  }
}
