/** The layer of notes, coloured by track and velocity. */

import { level, ramp } from "./colours.js";

/** @typedef {{start: number, end: number, pitch: number}} Extent */

/** Pixels: the least width and height of a note, and the width from which it has round corners. */
const THIN = 2;
const ROUND = 7;

/**
 * Draw notes: wide ones as paths, all of a colour at once; narrow ones, which may be many thousands, as pixels.
 * @param {CanvasRenderingContext2D} ctx @param {Pixels} pixels @param {View} view @param {Note[]} notes
 * @param {{tracks: Track[], tracksMeant: Set<number>, removed: Set<number>, dark: boolean}} look
 *   tracksMeant: tracks that stand out (empty: all); removed: notes that a shown proposal replaces
 */
export function drawNotes(ctx, pixels, view, notes, { tracks, tracksMeant, removed, dark }) {
  const place = new Map(tracks.map((track, i) => [track.id, i]));
  /** @type {Map<number, Note[]>} */
  const groups = new Map();
  for (const note of notes) {
    if (note.pitch > view.top + 1 || note.pitch < view.bottom - 1) continue;
    const key = (removed.has(note.id) ? 4096 : 0) + (place.get(note.track) ?? 0) * 16 + level(note.velocity);
    const group = groups.get(key);
    if (group) group.push(note);
    else groups.set(key, [note]);
  }
  for (const [key, group] of groups) {
    const i = (key % 4096) >> 4;
    const track = tracks[i];
    if (!track) continue;
    const meant = !tracksMeant.size || tracksMeant.has(track.id);
    fillNotes(ctx, pixels, view, group, ramp(track, i, dark)[key % 16], key >= 4096 ? 0.16 : meant ? 1 : 0.28);
  }
}

/** Fill notes. @param {CanvasRenderingContext2D} ctx @param {Pixels} pixels @param {View} view @param {Extent[]} notes @param {string} colour */
export function fillNotes(ctx, pixels, view, notes, colour, alpha = 1) {
  const height = Math.max(THIN, view.row - (view.row >= 8 ? 1 : 0));
  pixels.ink(colour, alpha);
  ctx.beginPath();
  for (const note of notes) {
    const x = leftOf(view, note);
    const width = widthOf(view, note);
    const y = view.y(note.pitch);
    if (width < ROUND || height < 6) pixels.fillRect(x, y, width, height);
    else ctx.roundRect(x, y, width, height, Math.min(3, height / 3));
  }
  ctx.fillStyle = colour;
  ctx.globalAlpha = alpha;
  ctx.fill();
  ctx.globalAlpha = 1;
}

/** Outline notes. @param {CanvasRenderingContext2D} ctx @param {Pixels} pixels @param {View} view @param {Extent[]} notes @param {string} colour @param {number} line  its width in pixels */
export function outlineNotes(ctx, pixels, view, notes, colour, line, grow) {
  const height = view.row - (view.row >= 8 ? 1 : 0) + 2 * grow;
  pixels.ink(colour);
  ctx.beginPath();
  for (const note of notes) {
    const x = leftOf(view, note);
    const width = widthOf(view, note);
    const box = [x - grow, view.y(note.pitch) - grow, width + 2 * grow, height];
    if (width < ROUND || height < 6) pixels.strokeRect(...box);
    else ctx.roundRect(...box, 3);
  }
  ctx.strokeStyle = colour;
  ctx.lineWidth = line;
  ctx.stroke();
}

const leftOf = (view, note) => Math.max(view.x(note.start), -8);

/** Return the width of a note, one pixel less than its length, so that repeated notes are separate. */
function widthOf(view, note) {
  const long = Math.min(view.x(note.end), view.width + 8) - leftOf(view, note);
  return Math.max(THIN, long > 5 ? long - 1 : long);
}
