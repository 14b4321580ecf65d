/** The layer of notes, and the layer above it: selected, locked, dragged and proposed notes. */

import { FONT } from "../core/canvas.js";
import { pitchLabel } from "../document/spelling.js";
import { level, ramp } from "./colours.js";

/** @typedef {{start: number, end: number, pitch: number}} Extent */

const MIN_SIZE = 2; // pixels of the width and height of a note
const MIN_ROUND = 7; // pixels of the width from which a note has round corners

/**
 * Draw notes: wide ones as paths, all of a colour at once; narrow ones, which may be many thousands, as pixels.
 * @param {CanvasRenderingContext2D} ctx @param {Pixels} pixels @param {View} view @param {Note[]} notes
 * @param {{tracks: Track[], selectedTracks: Set<number>, removed: Set<number>, dark: boolean}} style
 *   selectedTracks: the others are faint (empty: none is); removed: notes that a shown proposal replaces
 */
export function drawNotes(ctx, pixels, view, notes, { tracks, selectedTracks, removed, dark }) {
  const place = new Map(tracks.map((track, i) => [track.id, i]));
  /** @type {Map<number, Note[]>} */
  const groups = new Map();
  for (const note of notes) {
    if (note.pitch > view.top + 1 || note.pitch < view.bottom - 1) continue;
    const key = (removed.has(note.id) ? 4096 : 0) + (place.get(note.track) ?? 0) * 16 + level(note.velocity);
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push(note);
  }
  for (const [key, group] of groups) {
    const i = (key % 4096) >> 4;
    const track = tracks[i];
    if (!track) continue;
    const standsOut = !selectedTracks.size || selectedTracks.has(track.id);
    fillNotes(ctx, pixels, view, group, ramp(track, i, dark)[key % 16], key >= 4096 ? 0.16 : standsOut ? 1 : 0.28);
  }
}

/** Fill notes. @param {CanvasRenderingContext2D} ctx @param {Pixels} pixels @param {View} view @param {Extent[]} notes @param {string} colour */
export function fillNotes(ctx, pixels, view, notes, colour, alpha = 1) {
  const height = Math.max(MIN_SIZE, view.row - (view.row >= 8 ? 1 : 0));
  pixels.setColour(colour, alpha);
  ctx.beginPath();
  for (const note of notes) {
    const { x, width } = sidesOf(view, note);
    const y = view.y(note.pitch);
    if (width < MIN_ROUND || height < 6) pixels.fillRect(x, y, width, height);
    else ctx.roundRect(x, y, width, height, Math.min(3, height / 3));
  }
  ctx.fillStyle = colour;
  ctx.globalAlpha = alpha;
  ctx.fill();
  ctx.globalAlpha = 1;
}

/** Outline notes. @param {CanvasRenderingContext2D} ctx @param {Pixels} pixels @param {View} view @param {Extent[]} notes @param {string} colour @param {number} lineWidth @param {number} grow  pixels by which the outline is outside the note */
export function outlineNotes(ctx, pixels, view, notes, colour, lineWidth, grow) {
  const height = view.row - (view.row >= 8 ? 1 : 0) + 2 * grow;
  pixels.setColour(colour);
  ctx.beginPath();
  for (const note of notes) {
    const { x, width } = sidesOf(view, note);
    const box = /** @type {[number, number, number, number]} */ ([x - grow, view.y(note.pitch) - grow, width + 2 * grow, height]);
    if (width < MIN_ROUND || height < 6) pixels.strokeRect(...box);
    else ctx.roundRect(...box, 3);
  }
  ctx.strokeStyle = colour;
  ctx.lineWidth = lineWidth;
  ctx.stroke();
}

/** Return the left edge and the width of a note, a pixel less than its length, so that repeated notes are separate. @param {View} view @param {Extent} note */
function sidesOf(view, note) {
  const x = Math.max(view.x(note.start), -8);
  const length = Math.min(view.x(note.end), view.width + 8) - x;
  return { x, width: Math.max(MIN_SIZE, length > 5 ? length - 1 : length) };
}

/** Draw a stripe at the lower edge of locked notes, and a padlock if there is room. @param {Pixels} pixels @param {View} view @param {Note[]} notes */
export function drawLocks(ctx, pixels, view, notes, colours) {
  pixels.setColour(colours.ink);
  ctx.fillStyle = colours.ink;
  for (const note of notes) {
    const x = view.x(note.start);
    const width = view.x(note.end) - x - 1;
    const y = view.y(note.pitch);
    pixels.fillRect(x, y + view.row - 3, Math.max(2, width), 2);
    if (width > 16 && view.row >= 12) {
      const middle = y + view.row / 2 - 2;
      ctx.fillRect(x + 4, middle - 0.5, 7, 5);
      ctx.strokeStyle = colours.ink;
      ctx.lineWidth = 1.3;
      ctx.beginPath();
      ctx.arc(x + 7.5, middle - 0.5, 2.3, Math.PI, 0);
      ctx.stroke();
    }
  }
}

/**
 * Draw a proposal in gold; while it is being composed, with a glow where it ends so far.
 * @param {Pixels} pixels @param {View} view @param {Ghost[]} ghosts @param {number} composed  seconds up to which it has been composed
 */
export function drawGhosts(ctx, pixels, view, ghosts, composed, isComposing, colours) {
  const visible = [];
  for (const { start, end, pitch, velocity } of ghosts) {
    const until = end ?? Math.max(composed, start + 0.05);
    if (until > view.left && start < view.right) visible.push({ start, end: until, pitch, velocity });
  }
  fillNotes(ctx, pixels, view, visible.filter((note) => note.velocity < 56), colours.gold, 0.62);
  fillNotes(ctx, pixels, view, visible.filter((note) => note.velocity >= 56), colours.gold, 0.95);
  outlineNotes(ctx, pixels, view, visible, colours["gold-ink"], 1, -0.5);
  if (!isComposing) return;
  const x = view.x(composed);
  const glow = ctx.createLinearGradient(x - 60, 0, x, 0);
  const clear = colours.gold.replace(/^rgb\((.*)\)$/, "rgba($1, 0)");
  glow.addColorStop(0, clear);
  glow.addColorStop(1, colours.gold);
  ctx.globalAlpha = 0.28;
  ctx.fillStyle = glow;
  ctx.fillRect(x - 60, 0, 60, view.height);
  ctx.globalAlpha = 1;
  ctx.fillStyle = colours.gold;
  ctx.fillRect(x, 0, 1.5, view.height);
}

/** Draw dragged notes, and the pitch of the first. @param {Pixels} pixels @param {View} view @param {Note[]} notes */
export function drawDragged(ctx, pixels, view, notes, colours) {
  fillNotes(ctx, pixels, view, notes, colours.select, 0.75);
  const label = pitchLabel(notes[0].pitch);
  const [x, y] = [view.x(notes[0].start), view.y(notes[0].pitch)];
  const top = y < 22 ? y + 18 : y - 18; // of the label: below the note where there is no room above
  ctx.font = `600 11px ${FONT}`;
  ctx.fillStyle = colours.ink;
  ctx.beginPath();
  ctx.roundRect(x, top, ctx.measureText(label).width + 8, 16, 4);
  ctx.fill();
  ctx.fillStyle = colours["row-white"];
  ctx.textBaseline = "middle";
  ctx.fillText(label, x + 4, top + 8.5);
}
