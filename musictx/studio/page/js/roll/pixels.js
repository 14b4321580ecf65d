/** Fast drawing of many rectangles. A canvas takes about 3 µs for each, too long for all notes of a long piece. */

/** CSS colours as numbers, in the byte order of ImageData. @type {Map<string, number>} */
const numbers = new Map();

/** @param {string} colour */
function numberOf(colour) {
  let number = numbers.get(colour);
  if (number === undefined) {
    const probe = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
    probe.fillStyle = colour;
    probe.fillRect(0, 0, 1, 1);
    const [red, green, blue] = probe.getImageData(0, 0, 1, 1).data;
    number = red | (green << 8) | (blue << 16);
    numbers.set(colour, number);
  }
  return number;
}

/** An image in memory that is painted at once. Its rectangles are rounded to pixels of the screen. */
export class Pixels {
  #canvas = document.createElement("canvas");
  #image = new ImageData(1, 1);
  #words = new Uint32Array(1);
  #ratio = 1;
  #colour = 0;
  #empty = true;
  #painted = true;

  /** Clear the image, and set its size in CSS pixels. */
  begin(width, height) {
    this.#ratio = window.devicePixelRatio || 1;
    const [across, down] = [width, height].map((size) => Math.max(1, Math.round(size * this.#ratio)));
    if (across !== this.#image.width || down !== this.#image.height) {
      this.#image = new ImageData(across, down);
      this.#words = new Uint32Array(this.#image.data.buffer);
      Object.assign(this.#canvas, { width: across, height: down });
    } else if (!this.#empty) this.#words.fill(0);
    this.#empty = true;
    return this;
  }

  /** Set the colour of the next rectangles. @param {string} colour */
  setColour(colour, alpha = 1) {
    this.#colour = (numberOf(colour) | (Math.round(alpha * 255) << 24)) >>> 0;
  }

  /** Fill a rectangle, at least one pixel of the screen, without blending. */
  fillRect(x, y, width, height) {
    const { width: across, height: down } = this.#image;
    const words = this.#words;
    const colour = this.#colour;
    const [left, upper] = [Math.round(x * this.#ratio), Math.round(y * this.#ratio)];
    const right = Math.min(across, Math.max(left + 1, Math.round((x + width) * this.#ratio)));
    const lower = Math.min(down, Math.max(upper + 1, Math.round((y + height) * this.#ratio)));
    for (let row = Math.max(0, upper); row < lower; row++) {
      for (let i = row * across + Math.max(0, left), end = row * across + right; i < end; i++) words[i] = colour;
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
