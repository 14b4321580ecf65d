/** Canvases with the resolution of the screen, drawn in CSS pixels. */

/** The font family of texts, as in the style sheet. */
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

/** CSS colours as numbers, in the byte order of ImageData, without alpha. @type {Map<string, number>} */
const colourNumbers = new Map();

/** @param {string} colour */
function numberOf(colour) {
  let number = colourNumbers.get(colour);
  if (number === undefined) {
    const probe = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
    probe.fillStyle = colour;
    probe.fillRect(0, 0, 1, 1);
    const [red, green, blue] = probe.getImageData(0, 0, 1, 1).data;
    number = red | (green << 8) | (blue << 16);
    colourNumbers.set(colour, number);
  }
  return number;
}

/**
 * An image in memory for many rectangles, each rounded to pixels of the screen. A canvas takes about 3 µs for a rectangle, too
 * long for all notes of a long piece.
 */
export class Pixels {
  #canvas = document.createElement("canvas");
  #image = new ImageData(1, 1);
  #data = new Uint32Array(1);
  #ratio = 1;
  #colour = 0;
  #empty = true;
  #painted = true;

  /** Clear the image, and set its size in CSS pixels. */
  begin(width, height) {
    this.#ratio = window.devicePixelRatio || 1;
    const [columns, rows] = [width, height].map((size) => Math.max(1, Math.round(size * this.#ratio)));
    if (columns !== this.#image.width || rows !== this.#image.height) {
      this.#image = new ImageData(columns, rows);
      this.#data = new Uint32Array(this.#image.data.buffer);
      Object.assign(this.#canvas, { width: columns, height: rows });
    } else if (!this.#empty) this.#data.fill(0);
    this.#empty = true;
    return this;
  }

  /** Set the colour of the next rectangles. @param {string} colour */
  setColour(colour, alpha = 1) {
    this.#colour = (numberOf(colour) | (Math.round(alpha * 255) << 24)) >>> 0;
  }

  /** Fill a rectangle, at least one pixel of the screen, without blending. */
  fillRect(x, y, width, height) {
    const { width: columns, height: rows } = this.#image;
    const [data, colour] = [this.#data, this.#colour];
    const [left, upper] = [Math.round(x * this.#ratio), Math.round(y * this.#ratio)];
    const right = Math.min(columns, Math.max(left + 1, Math.round((x + width) * this.#ratio)));
    const lower = Math.min(rows, Math.max(upper + 1, Math.round((y + height) * this.#ratio)));
    for (let row = Math.max(0, upper); row < lower; row++) {
      for (let i = row * columns + Math.max(0, left), end = row * columns + right; i < end; i++) data[i] = colour;
    }
    this.#empty = this.#painted = false;
  }

  /** Draw the edge of a rectangle, one CSS pixel wide. */
  strokeRect(x, y, width, height) {
    this.fillRect(x, y, width, 1);
    this.fillRect(x, y + height - 1, width, 1);
    this.fillRect(x, y, 1, height);
    this.fillRect(x + width - 1, y, 1, height);
  }

  /** Paint the image onto a canvas. @param {CanvasRenderingContext2D} ctx */
  paint(ctx) {
    if (this.#empty) return;
    if (!this.#painted) this.#canvas.getContext("2d").putImageData(this.#image, 0, 0);
    this.#painted = true;
    ctx.drawImage(this.#canvas, 0, 0, this.#canvas.width / this.#ratio, this.#canvas.height / this.#ratio);
  }
}
