/** The visible part of the piece: conversion between seconds and pitches, and pixels. */

import { clamp } from "../core/numbers.js";

/** Bounds of the zoom: pixels a second, and pixels a semitone. */
const SCALE = { low: 0.05, high: 1200 };
const ROW = { low: 4, high: 36 };

export class View {
  left = 0; // seconds at the left edge
  scale = 90; // pixels a second
  top = 84; // pitch at the upper edge; with a fraction, part of its row is scrolled away
  row = 14; // pixels a semitone
  width = 800; // CSS pixels
  height = 400;
  length = 60; // seconds within which the view can scroll

  x(seconds) {
    return (seconds - this.left) * this.scale;
  }

  time(x) {
    return this.left + x / this.scale;
  }

  /** Return the upper edge of a pitch's row. */
  y(pitch) {
    return (this.top - pitch) * this.row;
  }

  /** Return the pitch at a y. */
  pitch(y) {
    return clamp(Math.ceil(this.top - y / this.row), 0, 127);
  }

  get right() {
    return this.left + this.width / this.scale;
  }

  /** The pitch at the lower edge. */
  get bottom() {
    return this.top - this.height / this.row;
  }

  /**
   * Return which pixels each visible mark takes, if it holds until the next one. Marks begin with their time.
   * @template {any[]} Mark @param {Mark[]} marks
   */
  spans(marks) {
    return marks.flatMap((mark, i) => {
      const left = Math.max(this.x(mark[0]), 0);
      const right = Math.min(i + 1 < marks.length ? this.x(marks[i + 1][0]) : this.width, this.width);
      return right > left ? [{ mark, i, left, right }] : [];
    });
  }

  /** Limit zoom and scroll position to the piece. */
  bound() {
    this.scale = clamp(this.scale, SCALE.low, SCALE.high);
    this.row = clamp(this.row, Math.max(ROW.low, this.height / 128), ROW.high);
    this.left = clamp(this.left, 0, this.length - this.width / this.scale / 2);
    this.top = clamp(this.top, this.height / this.row - 1, 127);
    return this;
  }

  /** Change the size, and zoom so that the same pitches stay visible. */
  resize(width, height) {
    const rows = this.height / this.row;
    const middle = this.top - rows / 2;
    this.row = clamp(height / rows, 7, 24);
    this.width = width;
    this.height = height;
    this.top = middle + height / this.row / 2;
    return this.bound();
  }

  /** Scroll and zoom as little as needed to show a range of pitches. */
  revealPitches(low, high) {
    if (high + 1 <= this.top && low - 1 >= this.bottom) return this;
    const [from, to] = [Math.min(low - 2, this.bottom), Math.max(high + 2, this.top)];
    this.row = clamp(this.height / (to - from), 7, this.row);
    this.top = to - from <= this.height / this.row + 1e-6 ? to : (low + high) / 2 + this.height / this.row / 2;
    return this.bound();
  }

  /** Scroll by pixels. */
  pan(dx, dy) {
    this.left += dx / this.scale;
    this.top -= dy / this.row;
    return this.bound();
  }

  /** Zoom in time; the time at x stays there. */
  zoomTime(factor, x) {
    const time = this.time(x);
    this.scale = clamp(this.scale * factor, SCALE.low, SCALE.high);
    this.left = time - x / this.scale;
    return this.bound();
  }

  /** Zoom in pitch; the pitch at y stays there. */
  zoomPitch(factor, y) {
    const pitch = this.top - y / this.row;
    this.row = clamp(this.row * factor, Math.max(ROW.low, this.height / 128), ROW.high);
    this.top = pitch + y / this.row;
    return this.bound();
  }

  /** Scroll as little as needed to show a time and a pitch. */
  reveal(seconds, pitch) {
    const space = Math.min(40, this.width / 4);
    if (this.x(seconds) < space) this.left = seconds - space / this.scale;
    else if (this.x(seconds) > this.width - space) this.left = seconds - (this.width - space) / this.scale;
    if (pitch !== undefined) {
      if (this.y(pitch) < this.row) this.top = pitch + 1;
      else if (this.y(pitch) > this.height - 2 * this.row) this.top = pitch + this.height / this.row - 2;
    }
    return this.bound();
  }

  /** Show a stretch of time and a range of pitches, as far as the zoom allows. */
  fit(begin, end, low, high) {
    this.scale = clamp(this.width / Math.max(1, end - begin), SCALE.low, 220);
    this.row = clamp(this.height / (high - low + 7), 7, 22);
    this.left = begin;
    this.top = (low + high) / 2 + this.height / this.row / 2 - 0.5;
    return this.bound();
  }
}
