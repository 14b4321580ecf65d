/** The layer of notes: what is seen, by track and loudness. */

import { level, ramp } from "./colours.js";

/** @typedef {import("../document/types.js").Note} Note */
/** @typedef {import("./view.js").View} View */

/** Least width and from which width corners are round: pixels. */
const THIN = 2;
const ROUND = 7;

/**
 * Draws notes in few strokes: those of one colour together.
 * @param {CanvasRenderingContext2D} ctx @param {View} view @param {Note[]} notes
 * @param {{tracks: import("../document/types.js").Track[], tracksMeant: Set<number>, gone: Set<number>, dark: boolean}} look
 *   tracksMeant: tracks that stand out (empty: all); gone: notes that a shown proposal replaces
 */
export function drawNotes(ctx, view, notes, { tracks, tracksMeant, gone, dark }) {
  const place = new Map(tracks.map((track, i) => [track.id, i]));
  /** @type {Map<number, Note[]>} */
  const groups = new Map();
  for (const note of notes) {
    if (note.pitch > view.top + 1 || note.pitch < view.bottom - 1) continue;
    const key = (gone.has(note.id) ? 4096 : 0) + (place.get(note.track) ?? 0) * 16 + level(note.velocity);
    const group = groups.get(key);
    if (group) group.push(note);
    else groups.set(key, [note]);
  }
  for (const [key, group] of groups) {
    const i = (key % 4096) >> 4;
    const track = tracks[i];
    if (!track) continue;
    const meant = !tracksMeant.size || tracksMeant.has(track.id);
    ctx.globalAlpha = key >= 4096 ? 0.16 : meant ? 1 : 0.28;
    ctx.fillStyle = ramp(track, i, dark)[key % 16];
    fillNotes(ctx, view, group);
  }
  ctx.globalAlpha = 1;
}

/** Fills the shapes of notes with the colour that is set. @param {CanvasRenderingContext2D} ctx @param {View} view @param {{start: number, end: number, pitch: number}[]} notes */
export function fillNotes(ctx, view, notes) {
  const gap = view.row >= 8 ? 1 : 0;
  const height = view.row - gap;
  const round = Math.min(3, height / 3);
  let rounded = false;
  ctx.beginPath();
  for (const note of notes) {
    const { x, width } = extent(view, note);
    const y = view.y(note.pitch);
    // One rectangle after the other is painted far sooner than a path of thousands.
    if (width < ROUND || height < 6) ctx.fillRect(x, y, width, height);
    else {
      ctx.roundRect(x, y, width, height, round);
      rounded = true;
    }
  }
  if (rounded) ctx.fill();
}

/** Draws the outlines of notes with the line that is set. @param {View} view */
export function outlineNotes(ctx, view, notes, grow = 0) {
  const gap = view.row >= 8 ? 1 : 0;
  ctx.beginPath();
  for (const note of notes) {
    const { x, width } = extent(view, note);
    ctx.roundRect(x - grow, view.y(note.pitch) - grow, width + 2 * grow, view.row - gap + 2 * grow, 3);
  }
  ctx.stroke();
}

/** A note's left edge and width, one pixel short of its end so that repeated notes stay apart. */
function extent(view, note) {
  const left = Math.max(view.x(note.start), -8);
  const right = Math.min(view.x(note.end), view.width + 8);
  const width = Math.max(THIN, right - left - (right - left > 5 ? 1 : 0));
  return { x: left, width };
}
