/** The transport bar, and the player that all parts of the page use. */

import { setPressed, set, setRange } from "../core/dom.js";
import { clock, positionLabel } from "../document/words.js";
import { mountInput } from "../input/index.js";
import { listenAlong } from "./proposals.js";
import { Player } from "./player.js";
import { saveSetting, loadSetting } from "../core/storage.js";

/** Mount the transport bar and return the player. @param {App} app @param {HTMLElement} bar @returns {Player} */
export function mountSound(app, bar) {
  const player = new Player(app, show);

  const find = (selector) => /** @type {any} */ (bar.querySelector(selector));
  const [play, where, repeat, clicks, along, volume] = [".play", ".where", ".repeat", ".clicks", ".along", ".volume input"].map(find);
  const input = mountInput(app, player, find);
  find(".start").onclick = () => player.seek(player.beginning);
  const onClick = (button, action) => { button.onclick = () => { action(); show(); }; };
  onClick(repeat, () => player.repeat(!player.repeats));
  onClick(clicks, () => { player.metronome = !player.metronome; });
  onClick(along, () => saveSetting("along", !loadSetting("along", true)));
  volume.oninput = () => {
    setVolume(Number(volume.value));
    saveSetting("volume", player.output.volume);
  };
  volume.onpointerup = () => app.piece && app.roll.focus(); // so that keys are commands again
  /** @param {number} percent */
  function setVolume(percent) {
    player.output.volume = percent / 100;
    setRange(volume, percent, `${percent} %`);
  }
  setVolume(Math.round(loadSetting("volume", 0.8) * 100));

  function show() {
    const on = player.playing;
    set(play, { "aria-pressed": on, "aria-label": on ? "Stop (Space)" : "Play (Space)" });
    setPressed(repeat, player.repeats);
    setPressed(clicks, player.metronome);
    setPressed(along, loadSetting("along", true));
    if (input.countIn) where.textContent = `in ${input.countIn} …`;
    else where.textContent = app.piece ? `${positionLabel(app.beats, player.position)}   ${clock(player.position)}` : "";
  }
  app.on("play", () => {
    bar.dataset.state = player.state;
    play.querySelector("use").setAttribute("href", `/page/icons.svg#${player.playing ? "stop" : "play"}`);
    show();
  });
  app.on("piece", show);
  app.on("opened", () => { // after mountInput has dropped a recording
    player.stop();
    player.seek(0);
  });
  listenAlong(app, player);
  // Browsers allow sound only after a click or a key, so the first one loads the synthesiser.
  const firstInput = new AbortController();
  const prepare = () => {
    firstInput.abort();
    player.output.synth();
  };
  for (const event of ["pointerdown", "keydown"]) addEventListener(event, prepare, { capture: true, signal: firstInput.signal });
  show();
  return player;
}
