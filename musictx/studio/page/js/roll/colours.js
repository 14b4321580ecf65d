/** Colours of the roll: a hue for each track, more intense for louder notes. */

import { h } from "../core/dom.js";
import { clamp } from "../core/numbers.js";
import { isDark } from "../shell/theme.js";

/** Hues of oklch() for the tracks: each differs from its neighbours and from the gold of proposals. */
const HUES = [255, 25, 165, 310, 215, 350, 135, 285];
const LEVELS = 16; // of velocity
/** Lightness and chroma of the softest and the loudest note. */
const LIGHT = { soft: [0.8, 0.07], loud: [0.47, 0.19] };
const DARK = { soft: [0.46, 0.07], loud: [0.83, 0.15] };

/** Colours of the velocity levels, by hue and theme. @type {Map<string, string[]>} */
const ramps = new Map();

const NAMES = ["paper", "panel", "ink", "ink-2", "line", "gold", "gold-ink", "playhead", "select", "focus", "on-gold",
  "key-white", "key-black", "row-white", "row-black", "row-tonic", "row-line", "grid", "beat", "bar", "sunk"];

/** Return the roll's colours of the current theme: custom properties of the style sheet, as a canvas needs them. */
export function palette() {
  const probe = h("span", { hidden: true });
  document.body.append(probe);
  const colours = NAMES.map((name) => {
    probe.style.color = `var(--${name})`;
    return [name, getComputedStyle(probe).color];
  });
  probe.remove();
  return { ...Object.fromEntries(colours), dark: isDark() };
}

/** Return the level of a velocity, 0 to 15. */
export const level = (velocity) => Math.min(LEVELS - 1, velocity >> 3);

/** Return the colours of a track's notes by level, for its index in the list of tracks. @param {{drum: boolean}} track @param {number} index @returns {string[]} */
export function ramp(track, index, dark = isDark()) {
  const hue = track.drum ? -1 : HUES[index % HUES.length]; // -1: grey
  const key = `${hue} ${dark}`;
  let shades = ramps.get(key);
  if (!shades) {
    const { soft, loud } = dark ? DARK : LIGHT;
    shades = Array.from({ length: LEVELS }, (_, i) => {
      // Most velocities are between 30 and 110, so most of the ramp is there.
      const part = clamp((i * 8 + 4 - 20) / 90, 0, 1);
      const lightness = soft[0] + (loud[0] - soft[0]) * part;
      const chroma = hue < 0 ? 0.012 : soft[1] + (loud[1] - soft[1]) * part;
      return `oklch(${lightness.toFixed(3)} ${chroma.toFixed(3)} ${Math.max(0, hue)})`;
    });
    ramps.set(key, shades);
  }
  return shades;
}

/** Return the colour of a track in the list of tracks. */
export const trackColour = (track, index) => ramp(track, index)[11];
