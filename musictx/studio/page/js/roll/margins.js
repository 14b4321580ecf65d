/** The ruler above the roll and the keyboard at its left. */

import { FONT } from "../core/canvas.js";
import { clamp } from "../core/numbers.js";
import { gridLines, isBlack } from "./grid.js";

/** @param {CanvasRenderingContext2D} ctx @param {View} view */
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
