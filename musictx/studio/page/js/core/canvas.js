/** Canvases with the resolution of the screen, drawn in CSS pixels. */

/** The fonts of texts, as in the style sheet. */
export const FONT = "system-ui, -apple-system, 'Segoe UI', 'Liberation Sans', sans-serif";

/**
 * Return the context of a canvas, scaled to CSS pixels. The style sheet sets the size of the canvas; if that has
 * changed, the canvas is cleared.
 * @param {HTMLCanvasElement} canvas @returns {CanvasRenderingContext2D}
 */
export function contextOf(canvas) {
  const ratio = window.devicePixelRatio || 1;
  const [width, height] = [canvas.clientWidth, canvas.clientHeight].map((size) => Math.round(size * ratio));
  if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
  const ctx = canvas.getContext("2d");
  ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
  return ctx;
}
