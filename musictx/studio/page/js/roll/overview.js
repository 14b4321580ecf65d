/** The overview: the whole piece in a strip, which is the roll's scroll bar. */

import { contextOf, Pixels } from "../core/canvas.js";
import { onDrag } from "../core/dom.js";
import { clamp } from "../core/numbers.js";
import { extentOf, notesOf } from "../document/notes.js";
import { ramp } from "./colours.js";

export class Overview {
  /** Must the notes be drawn again? */
  stale = true;
  #pixels = new Pixels();
  #key = "";

  /** @param {Roll} roll @param {HTMLCanvasElement} canvas */
  constructor(roll, canvas) {
    this.roll = roll;
    this.canvas = canvas;
    onDrag(this.canvas, (event) => {
      const { view } = roll;
      const at = this.#time(event);
      const offset = at >= view.left && at <= view.right ? at - view.left : (view.right - view.left) / 2;
      const scroll = (now) => {
        view.left = this.#time(now) - offset;
        view.bound();
        roll.stopFollowing();
      };
      scroll(event);
      return { move: scroll };
    });
  }

  #time(event) {
    return (event.offsetX / this.canvas.clientWidth) * this.roll.view.length;
  }

  draw() {
    const { app, view, colours } = this.roll;
    const { clientWidth: width, clientHeight: height } = this.canvas;
    const key = `${width} ${view.length}`;
    if (this.stale || key !== this.#key) {
      this.#drawNotes(width, height);
      this.stale = false;
      this.#key = key;
    }
    const ctx = contextOf(this.canvas);
    ctx.fillStyle = colours.sunk;
    ctx.fillRect(0, 0, width, height);
    const left = (view.left / view.length) * width;
    const wide = Math.max(12, ((view.right - view.left) / view.length) * width);
    ctx.fillStyle = colours.panel;
    ctx.fillRect(left, 0, wide, height);
    const { range } = app.selection;
    if (range) {
      ctx.globalAlpha = 0.2;
      ctx.fillStyle = colours.select;
      ctx.fillRect((range.begin / view.length) * width, 0, ((range.end - range.begin) / view.length) * width, height);
      ctx.globalAlpha = 1;
    }
    this.#pixels.paint(ctx);
    const shown = app.ghost;
    if (shown) {
      ctx.fillStyle = colours.gold;
      const { begin: from, end: to } = app.stretchOf(shown.take);
      ctx.fillRect((from / view.length) * width, height - 4, ((to - from) / view.length) * width, 4);
    }
    ctx.strokeStyle = colours["ink-2"];
    ctx.lineWidth = 1;
    ctx.strokeRect(left + 0.5, 0.5, wide - 1, height - 1);
  }

  /** Draw all notes as thin lines. */
  #drawNotes(width, height) {
    const { app: { piece }, view, colours } = this.roll;
    const pixels = this.#pixels.begin(width, height);
    const { low, high } = extentOf(piece.notes.values()) ?? { low: 127, high: 0 };
    const scale = width / view.length;
    const row = (height - 8) / Math.max(24, high - low + 1);
    piece.tracks.forEach((track, i) => {
      pixels.setColour(ramp(track, i, colours.dark)[9]);
      for (const note of notesOf(piece, track.id)) {
        const length = Math.max(1, (note.end - note.start) * scale);
        pixels.fillRect(note.start * scale, 4 + (high - note.pitch) * row, length, clamp(row, 1, 3));
      }
    });
  }
}
