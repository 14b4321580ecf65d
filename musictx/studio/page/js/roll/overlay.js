/** The layer above the notes: the selected, locked, dragged and proposed ones. */

import { outlineNotes, fillNotes } from "./notes.js";
import { pitchLabel } from "../document/spelling.js";

/** Outline selected notes. @param {Pixels} pixels @param {View} view @param {Note[]} notes */
export function drawSelected(ctx, pixels, view, notes, colours) {
  outlineNotes(ctx, pixels, view, notes, colours["row-white"], 3, 0.5);
  outlineNotes(ctx, pixels, view, notes, colours.ink, 1.75, 0.5);
}

/** Draw a stripe at the lower edge of locked notes, and a padlock if there is room. @param {Pixels} pixels @param {View} view @param {Note[]} notes */
export function drawLocks(ctx, pixels, view, notes, colours) {
  pixels.ink(colours.ink);
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
 * Draw a proposal in gold; while it is composed, with a glow at its frontier.
 * @param {Pixels} pixels @param {View} view @param {Ghost[]} ghosts @param {number} frontier seconds
 */
export function drawGhosts(ctx, pixels, view, ghosts, frontier, composing, colours) {
  const visible = [];
  for (const { start, end, pitch, velocity } of ghosts) {
    const till = end ?? Math.max(frontier, start + 0.05);
    if (till > view.left && start < view.right) visible.push({ start, end: till, pitch, velocity });
  }
  fillNotes(ctx, pixels, view, visible.filter((note) => note.velocity < 56), colours.gold, 0.62);
  fillNotes(ctx, pixels, view, visible.filter((note) => note.velocity >= 56), colours.gold, 0.95);
  outlineNotes(ctx, pixels, view, visible, colours["gold-ink"], 1, -0.5);
  if (!composing) return;
  const x = view.x(frontier);
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
  const first = notes[0];
  if (first) tag(ctx, pitchLabel(first.pitch), view.x(first.start), view.y(first.pitch) - 4, colours.ink, colours["row-white"]);
}

function tag(ctx, text, x, y, back, front) {
  ctx.font = "600 11px system-ui, sans-serif";
  const width = ctx.measureText(text).width + 8;
  const top = y < 18 ? y + 22 : y - 14;
  ctx.fillStyle = back;
  ctx.beginPath();
  ctx.roundRect(x, top, width, 16, 4);
  ctx.fill();
  ctx.fillStyle = front;
  ctx.textBaseline = "middle";
  ctx.fillText(text, x + 4, top + 8.5);
}
