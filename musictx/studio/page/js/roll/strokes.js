/** Velocities as heights in the lane, and strokes that draw them. Pure functions. */

import { clamp } from "../core/numbers.js";

export const HEIGHT = 84; // pixels
const EDGE = 6; // above 127 and below 1
const NEAR = 4; // pixels by which a stroke may miss a note

/** Return the y of a value, in pixels. */
export const heightOf = (value) => EDGE + (1 - value / 127) * (HEIGHT - 2 * EDGE);
/** Return the velocity at a y. */
export const velocityAt = (y) => clamp(Math.round((1 - (y - EDGE) / (HEIGHT - 2 * EDGE)) * 127), 1, 127);

/**
 * Return the velocities that a straight stroke gives to the notes which start between its ends.
 * @param {Note[]} notes @param {View} view @param {{x: number, y: number}} from @param {{x: number, y: number}} to @returns {Map<number, number>}
 */
export function velocitiesAlong(notes, view, from, to) {
  const [a, b] = from.x <= to.x ? [from, to] : [to, from];
  const changed = new Map();
  for (const note of notes) {
    const x = view.x(note.start);
    if (x < a.x - NEAR || x > b.x + NEAR) continue;
    const part = b.x - a.x < 1 ? 1 : clamp((x - a.x) / (b.x - a.x), 0, 1);
    changed.set(note.id, velocityAt(b.x - a.x < 1 ? to.y : a.y + (b.y - a.y) * part));
  }
  return changed;
}
