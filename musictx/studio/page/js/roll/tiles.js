/**
 * What stands along time, kept as pictures: scrolling paints what comes into sight, and no more.
 * One for the notes, one for the lane under them.
 */

import { View } from "./view.js";

const WIDTH = 256; // pixels
const SPARE = 2; // tiles that are kept on each side of what is seen

export class Tiles {
  /** By place: the first one begins with the piece. @type {Map<number, HTMLCanvasElement>} */
  #tiles = new Map();
  /** Canvases that nobody sees. @type {HTMLCanvasElement[]} */
  #free = [];
  #look = /** @type {any[]} */ ([]);

  /**
   * Paints the tiles in sight, those that are new by `paint(context, view)`, whose view is the tile's.
   * @param {CanvasRenderingContext2D} ctx @param {View} view @param {number} height  pixels
   * @param {any[]} look  all that the pictures depend on beside the place: where one differs, all are painted anew
   * @param {(ctx: CanvasRenderingContext2D, view: View) => void} paint
   */
  show(ctx, view, height, look, paint) {
    const ratio = window.devicePixelRatio || 1;
    const now = [...look, view.scale, view.row, view.top, height, ratio];
    if (now.length !== this.#look.length || now.some((value, i) => value !== this.#look[i])) {
      this.#drop(() => true);
      this.#look = now;
    }
    const first = Math.floor((view.left * view.scale) / WIDTH);
    const last = Math.floor((view.right * view.scale) / WIDTH);
    this.#drop((place) => place < first - SPARE || place > last + SPARE);
    for (let place = first; place <= last; place++) {
      const left = (place * WIDTH) / view.scale;
      let tile = this.#tiles.get(place);
      if (!tile) {
        tile = this.#free.pop() ?? document.createElement("canvas");
        tile.width = Math.ceil(WIDTH * ratio); // which empties it too
        tile.height = Math.ceil(height * ratio);
        const own = tile.getContext("2d");
        own.setTransform(ratio, 0, 0, ratio, 0, 0);
        paint(own, Object.assign(new View(), { ...view, left, width: WIDTH }));
        this.#tiles.set(place, tile);
      }
      ctx.drawImage(tile, Math.round(view.x(left) * ratio) / ratio, 0, tile.width / ratio, tile.height / ratio);
    }
  }

  /** @param {(place: number) => boolean} gone */
  #drop(gone) {
    for (const [place, tile] of this.#tiles) {
      if (!gone(place)) continue;
      this.#tiles.delete(place);
      this.#free.push(tile);
    }
  }
}
