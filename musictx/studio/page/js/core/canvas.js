/** Canvases with the resolution of the screen, drawn in CSS pixels. */

/** The fonts of texts, as in the style sheet. */
export const FONT = "system-ui, -apple-system, 'Segoe UI', 'Liberation Sans', sans-serif";

/** Set the size of a canvas. @param {HTMLCanvasElement} canvas */
export function sizeCanvas(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
}

/** Return the context of a canvas, scaled to CSS pixels. @param {HTMLCanvasElement} canvas @returns {CanvasRenderingContext2D} */
export function contextOf(canvas) {
  const ratio = window.devicePixelRatio || 1;
  const ctx = canvas.getContext("2d");
  ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
  return ctx;
}
