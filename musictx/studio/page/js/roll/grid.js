/** The layer below the notes: rows of keys, lines of bars, beats and the grid. */

/** @typedef {import("./view.js").View} View */

const BLACK = new Set([1, 3, 6, 8, 10]);
export const isBlack = (pitch) => BLACK.has(pitch % 12);

/** @param {CanvasRenderingContext2D} ctx @param {View} view @param {import("../document/beats.js").Beats} beats */
export function drawGrid(ctx, view, beats, division, colours) {
  const { width, height } = view;
  ctx.fillStyle = colours["row-white"];
  ctx.fillRect(0, 0, width, height);
  const low = Math.max(0, Math.floor(view.bottom));
  const high = Math.min(127, Math.ceil(view.top));
  ctx.fillStyle = colours["row-black"];
  for (let pitch = low; pitch <= high; pitch++) {
    if (isBlack(pitch)) ctx.fillRect(0, Math.round(view.y(pitch)), width, Math.round(view.row));
  }
  ctx.fillStyle = colours["row-line"];
  for (let pitch = low; pitch <= high; pitch++) {
    // Between B and C the octave, between E and F the other place without a black key.
    if (pitch % 12 === 0 || pitch % 12 === 5) ctx.fillRect(0, Math.round(view.y(pitch) + view.row) - 1, width, 1);
  }
  ctx.fillStyle = colours.beat;
  for (let pitch = low - (low % 12); pitch <= high; pitch += 12) {
    if (pitch >= low) ctx.fillRect(0, Math.round(view.y(pitch) + view.row) - 1, width, 1);
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

/** Least pixels between two lines of the grid, two bars, two numbers. */
const APART = 9;
const BARS = 14;
const NUMBERS = 42;

/** Every how many bars there is room for something: 1, 2, 4, 8 ... */
function every(pixels, bar) {
  let bars = 1;
  while (bars * bar < pixels && bars < 4096) bars *= 2;
  return bars;
}

/**
 * Where lines are drawn: bars with their numbers, beats and grid only where there is room.
 * @param {View} view @param {import("../document/beats.js").Beats} beats
 */
export function gridLines(view, beats, division) {
  const bars = [];
  const lines = { grid: /** @type {number[]} */ ([]), beat: /** @type {number[]} */ ([]) };
  const long = (time) => (beats.bar(time).end - beats.bar(time).begin) * view.scale;
  const shortest = Math.min(long(view.left), long((view.left + view.right) / 2), long(view.right));
  const drawn = every(BARS, shortest);
  const numbered = every(NUMBERS, shortest);
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
