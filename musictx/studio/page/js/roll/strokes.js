/** Velocities as heights in the lane under the roll, and strokes that draw them. Pure. */

export const HEIGHT = 84; // pixels
const EDGE = 6; // above 127 and below 1
const NEAR = 4; // pixels by which a stroke may miss a note

/** The height of a value: pixels. */
export const heightOf = (value) => EDGE + (1 - value / 127) * (HEIGHT - 2 * EDGE);
/** The velocity at a height. */
export const velocityAt = (y) => Math.min(127, Math.max(1, Math.round((1 - (y - EDGE) / (HEIGHT - 2 * EDGE)) * 127)));

/**
 * Velocities along a stroke: of the notes that begin between two points of it, as high as it is there.
 * @param {Note[]} notes @param {View} view @param {{x: number, y: number}} from @param {{x: number, y: number}} to @returns {Map<number, number>}
 */
export function velocitiesAlong(notes, view, from, to) {
  const [a, b] = from.x <= to.x ? [from, to] : [to, from];
  const changed = new Map();
  for (const note of notes) {
    const x = view.x(note.start);
    if (x < a.x - NEAR || x > b.x + NEAR) continue;
    const part = b.x - a.x < 1 ? 1 : Math.min(1, Math.max(0, (x - a.x) / (b.x - a.x)));
    changed.set(note.id, velocityAt(b.x - a.x < 1 ? to.y : a.y + (b.y - a.y) * part));
  }
  return changed;
}
