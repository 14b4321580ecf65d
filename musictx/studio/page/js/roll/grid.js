/** The layer below the notes (rows of pitches; lines of bars, beats and the grid), the ruler above the roll, and the keyboard at its left. */

import { FONT } from "../core/canvas.js";
import { clamp } from "../core/numbers.js";

const isBlack = (pitch) => [1, 3, 6, 8, 10].includes(pitch % 12);

/** Return the pitch classes of a key and its tonic; a minor key has those of its relative major. */
function scaleOf(sharps, minor) {
  const major = (((sharps * 7) % 12) + 12) % 12;
  return { classes: new Set([0, 2, 4, 5, 7, 9, 11].map((step) => (major + step) % 12)), tonic: (major + (minor ? 9 : 0)) % 12 };
}

/** @param {CanvasRenderingContext2D} ctx @param {View} view @param {Beats} beats @param {Timing[]} timings  the scales of their keys are shaded; without a key the black keys are */
export function drawGrid(ctx, view, beats, division, colours, timings) {
  const { width, height } = view;
  ctx.fillStyle = colours["row-white"];
  ctx.fillRect(0, 0, width, height);
  const low = Math.max(0, Math.floor(view.bottom));
  const high = Math.min(127, Math.ceil(view.top));
  /** @type {[number, Timing["key"]][]} */
  const keys = timings.length ? timings.map(({ time, key }) => [time, key]) : [[0, null]];
  for (const { mark: [, key], left, right } of view.spans(keys)) {
    const scale = key && scaleOf(...key);
    for (let pitch = low; pitch <= high; pitch++) {
      const tonic = scale?.tonic === pitch % 12;
      if (!tonic && (scale ? scale.classes.has(pitch % 12) : !isBlack(pitch))) continue;
      ctx.fillStyle = tonic ? colours["row-tonic"] : colours["row-black"];
      ctx.fillRect(left, Math.round(view.y(pitch)), right - left, Math.round(view.row));
    }
  }
  // Lines between B and C, and E and F, where there is no black key.
  for (let pitch = low; pitch <= high; pitch++) {
    if (pitch % 12 !== 0 && pitch % 12 !== 5) continue;
    ctx.fillStyle = pitch % 12 ? colours["row-line"] : colours.beat;
    ctx.fillRect(0, Math.round(view.y(pitch) + view.row) - 1, width, 1);
  }
  const { bars, lines } = gridLines(view, beats, division);
  for (const [kind, xs] of Object.entries(lines)) {
    ctx.fillStyle = colours[kind];
    for (const x of xs) ctx.fillRect(Math.round(x), 0, 1, height);
  }
  ctx.fillStyle = colours.bar;
  for (const { x } of bars) ctx.fillRect(Math.round(x), 0, 1, height);
  const stop = view.x(view.length);
  if (stop < width) {
    ctx.fillStyle = colours.sunk;
    ctx.fillRect(stop, 0, width - stop, height);
  }
}

/** Least pixels between two grid or beat lines, two bar lines, two bar numbers. */
const [LINE_DISTANCE, BAR_DISTANCE, NUMBER_DISTANCE] = [9, 14, 42];

/** Return the least power of two, up to 4096, of bars that take so many pixels. */
const barsFor = (pixels, barWidth) => 2 ** clamp(Math.ceil(Math.log2(pixels / barWidth)), 0, 12);

/** Return the x of the lines of bars, beats and grid, leaving out lines without room. @param {View} view @param {Beats} beats */
export function gridLines(view, beats, division) {
  const bars = [];
  const lines = { grid: /** @type {number[]} */ ([]), beat: /** @type {number[]} */ ([]) };
  const barWidth = (time) => (beats.bar(time).end - beats.bar(time).begin) * view.scale;
  const shortest = Math.min(...[view.left, (view.left + view.right) / 2, view.right].map(barWidth));
  const drawn = barsFor(BAR_DISTANCE, shortest);
  const numbered = barsFor(NUMBER_DISTANCE, shortest);
  let last = null;
  for (const { time, bar, beat } of beats.between(view.left, view.right)) {
    const x = view.x(time);
    if (last !== null && division > 1 && (x - last) / division >= LINE_DISTANCE) {
      for (let i = 1; i < division; i++) lines.grid.push(last + ((x - last) * i) / division);
    }
    if (beat === 1) {
      if ((bar - 1) % drawn === 0) bars.push({ x, bar, numbered: (bar - 1) % numbered === 0 });
    } else if (last === null || x - last >= LINE_DISTANCE) lines.beat.push(x);
    last = x;
  }
  return { bars, lines };
}

/** Draw the ruler: bar lines with their numbers, and beats. @param {CanvasRenderingContext2D} ctx @param {View} view */
export function drawRuler(ctx, view, beats, colours) {
  const height = ctx.canvas.clientHeight;
  ctx.fillStyle = colours.panel;
  ctx.fillRect(0, 0, view.width, height);
  const { bars, lines } = gridLines(view, beats, 1);
  ctx.fillStyle = colours.bar;
  for (const x of lines.beat) ctx.fillRect(Math.round(x), height - 5, 1, 5);
  ctx.font = `12px ${FONT}`;
  ctx.textBaseline = "alphabetic";
  for (const { x, bar, numbered } of bars) {
    ctx.fillStyle = colours.bar;
    ctx.fillRect(Math.round(x), numbered ? height - 20 : height - 8, 1, 20);
    ctx.fillStyle = colours["ink-2"];
    if (numbered) ctx.fillText(String(bar), x + 5, height - 10);
  }
  ctx.fillStyle = colours.line;
  ctx.fillRect(0, height - 1, view.width, 1);
}

/** Draw the keyboard. @param {View} view @param {Map<number, string>} lit  pitch -> colour of its key */
export function drawKeys(ctx, view, lit, colours) {
  const width = ctx.canvas.clientWidth;
  ctx.fillStyle = colours["key-white"];
  ctx.fillRect(0, 0, width, view.height);
  const low = Math.max(0, Math.floor(view.bottom));
  const high = Math.min(127, Math.ceil(view.top));
  const black = width * 0.6;
  for (let pitch = low; pitch <= high; pitch++) {
    const y = view.y(pitch);
    const dark = isBlack(pitch);
    if (dark || lit.has(pitch)) {
      ctx.fillStyle = lit.get(pitch) ?? colours["key-black"];
      ctx.beginPath();
      ctx.roundRect(-3, y + 0.5, (dark ? black : width - 1) + 3, view.row - 1, 3);
      ctx.fill();
    }
    ctx.fillStyle = "#b5b0a4";
    // Edges of white keys: below C and F, and at the middle of each black key.
    if (dark) ctx.fillRect(black, Math.round(y + view.row / 2), width - black, 0.75);
    else if (pitch % 12 === 0 || pitch % 12 === 5) ctx.fillRect(0, Math.round(y + view.row) - 1, width, 0.75);
    if (pitch % 12 === 0 && view.row >= 5) {
      ctx.font = `${clamp(view.row, 9, 11)}px ${FONT}`;
      ctx.textBaseline = "middle";
      ctx.textAlign = "right";
      ctx.fillStyle = "#55544f";
      ctx.fillText(`C${pitch / 12 - 1}`, width - 5, y + view.row / 2 + 0.5);
      ctx.textAlign = "left";
    }
  }
  ctx.fillStyle = colours.bar;
  ctx.fillRect(width - 1, 0, 1, view.height);
}
