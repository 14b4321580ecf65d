/**
 * Sound. This player is silent: it keeps time, so that the playhead moves.
 */

import { h, iconButton } from "../core/dom.js";
import { clock, positionLabel } from "../document/words.js";

/** @typedef {import("../app.js").App} App */

/**
 * Fills the transport bar and returns the player. Called once, before a piece is open.
 * @param {App} app @param {HTMLElement} bar
 * @returns {import("../app.js").Player}
 */
export function mountSound(app, bar) {
  let began = 0;
  let from = 0;
  const player = {
    playing: false,
    get position() {
      return this.playing ? from + (performance.now() - began) / 1000 : from;
    },
    play(at = from) {
      from = at;
      began = performance.now();
      this.playing = true;
      app.emit("play", this);
    },
    stop() {
      from = this.position;
      this.playing = false;
      app.emit("play", this);
    },
    toggle() {
      if (this.playing) this.stop();
      else this.play();
    },
    seek(seconds) {
      from = seconds;
      began = performance.now();
      app.emit("play", this);
    },
    audition() {},
  };
  const where = h("output.where");
  bar.append(iconButton("play", "Play or stop (Space)", () => player.toggle()), where);
  const show = () => {
    where.textContent = `${positionLabel(app.beats, player.position)}   ${clock(player.position)}`;
    if (player.playing) requestAnimationFrame(show);
  };
  app.on("play", show);
  app.on("opened", () => player.seek(0));
  return player;
}
