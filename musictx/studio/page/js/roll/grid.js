/** The layer below the notes: rows of pitches, and lines of bars, beats and the grid. */

const BLACK = new Set([1, 3, 6, 8, 10]);
export const isBlack = (pitch) => BLACK.has(pitch % 12);

/** Return the pitch classes of a key and its tonic; a minor key has those of its relative major. */
export function scaleOf(sharps, minor) {
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
  const marks = timings.length ? timings.map(({ time, key }) => [time, key]) : [[0, null]];
  for (const { mark: [, key], left, right } of view.spans(marks)) {
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

/** Least pixels between two grid lines, two bar lines, two bar numbers. */
const APART = 9;
const BARS = 14;
const NUMBERS = 42;

/** Return the least power of two of bars that takes so many pixels. */
function barsFor(pixels, barWidth) {
  let bars = 1;
  while (bars * barWidth < pixels && bars < 4096) bars *= 2;
  return bars;
}

/**
 * Return the x of the lines of bars, beats and grid, leaving out lines without room.
 * @param {View} view @param {Beats} beats
 */
export function gridLines(view, beats, division) {
  const bars = [];
  const lines = { grid: /** @type {number[]} */ ([]), beat: /** @type {number[]} */ ([]) };
  const barWidth = (time) => (beats.bar(time).end - beats.bar(time).begin) * view.scale;
  const shortest = Math.min(...[view.left, (view.left + view.right) / 2, view.right].map(barWidth));
  const drawn = barsFor(BARS, shortest);
  const numbered = barsFor(NUMBERS, shortest);
  let last = null;
  for (const { time, bar, beat } of beats.between(view.left, view.right)) {
    const x = view.x(time);
    if (last !== null && division > 1 && (x - last) / division >= APART) {
      for (let i = 1; i < division; i++) lines.grid.push(last + ((x - last) * i) / division);
    }
    if (beat === 1) {
      if ((bar - 1) % drawn === 0) bars.push({ x, bar, numbered: (bar - 1) % numbered === 0 });
    } else if (last === null || x - last >= APART) lines.beat.push(x);
    last = x;
  }
  return { bars, lines };
}
