/** The transport bar, and the player that all parts of the page use. */

import { fill, h, icon, iconButton, setPressed, set, setRange } from "../core/dom.js";
import { clock, positionLabel } from "../document/words.js";
import { mountInput } from "../input/index.js";
import { listenAlong } from "./along.js";
import { createPlayer } from "./player.js";
import { saveSetting, loadSetting } from "../core/storage.js";

/**
 * Fill the transport bar and return the player.
 * @param {App} app @param {HTMLElement} bar
 * @returns {Player}
 */
export function mountSound(app, bar) {
  const player = createPlayer({
    getDocument: () => app.piece,
    onState(state, why) {
      if (state === "deaf") return app.emit("message", { text: "Nothing is heard: this browser has no way to the loudspeakers, or was not allowed to use them.", kind: "error" });
      bar.dataset.state = state;
      if (state !== "file") app.emit("play", page);
      else if (!warned) app.emit("message", { text: `This browser plays the server's sound file instead of single notes (${why}).`, kind: "error" });
      warned ||= state === "file";
    },
    onPosition: show,
  });
  let warned = false;
  let loop = false;
  let listening = false; // to a proposal, instead of the piece

  /** Return [start, end] of the loop: the selected bars, else the whole piece; null if the loop is off. */
  const loopRange = () => {
    if (!loop || !app.piece) return null;
    const { begin, end } = app.selection.range ?? { begin: 0, end: app.beats.bars(0, app.piece.duration).end };
    return /** @type {[number, number]} */ ([begin, end]);
  };

  let showsStop = false; // whether the play button has the icon "stop"

  const page = {
    get position() { return player.position; },
    get playing() { return player.playing || player.state === "loading"; },
    play(from = player.position, /** @type {Playable | undefined} */ instead) {
      if (!app.piece) return;
      listening = Boolean(instead);
      const within = listening ? null : loopRange();
      if (within && (from < within[0] || from >= within[1])) [from] = within;
      else if (!listening && !within && from >= app.piece.duration) from = 0;
      player.play(from, { ...instead, loop: within });
    },
    /** Play the selection once, or from the cursor if nothing is selected. */
    playSelection() {
      const { stretch } = app.selection.scope(app.piece);
      listening = false;
      player.play(stretch?.begin ?? app.cursor.time, { end: stretch?.end });
    },
    stop() { player.stop(); },
    toggle() { page.playing ? page.stop() : page.play(); },
    seek(seconds) {
      player.position = seconds;
      if (page.playing && !input.recording) page.play(seconds);
      else app.emit("play", page);
      show();
    },
    audition(pitch, velocity, track) { player.audition(pitch, velocity, track); },
  };

  app.actions.record = () => input.record.click();
  const play = iconButton("play", "Play or stop (Space)", () => page.toggle());
  const start = iconButton("start", "To the beginning", () => page.seek(loopRange()?.[0] ?? 0));
  const repeat = iconButton("loop", "Repeat the selected bars, or the whole piece", () => {
    loop = !loop;
    show();
    if (player.playing) page.play();
  });
  const clicks = iconButton("metronome", "Metronome", () => {
    player.metronome = !player.metronome;
    show();
  });
  const along = iconButton("along", "Hear new music while it is composed", () => {
    saveSetting("along", !loadSetting("along", true));
    show();
  });
  const volume = h("input", {
    type: "range", min: 0, max: 100, "aria-label": "Volume", title: "Volume",
    oninput() {
      setVolume(Number(volume.value));
      saveSetting("volume", player.volume);
    },
    onpointerup: () => app.piece && app.roll.focus(), // so that keys are commands again
  });
  /** @param {number} percent */
  function setVolume(percent) {
    player.volume = percent / 100;
    setRange(volume, percent, `${percent} %`);
  }
  const where = h("span.where", { role: "timer", "aria-label": "Position" });
  const input = mountInput(app, player);
  fill(bar, start, play, input.record, where, repeat, clicks, along, h("span.gap"), ...input.controls, h("label.volume", null, volume));

  setVolume(Math.round(loadSetting("volume", 0.8) * 100));

  function show() {
    const on = page.playing;
    if (on !== showsStop) play.replaceChildren(icon((showsStop = on) ? "stop" : "play"));
    set(play, { "aria-pressed": on, "aria-label": on ? "Stop (Space)" : "Play (Space)" });
    for (const [button, pressed] of [[repeat, loop], [clicks, player.metronome], [along, loadSetting("along", true)]]) {
      setPressed(button, pressed);
    }
    if (input.countIn) where.textContent = `in ${input.countIn} …`;
    else where.textContent = app.piece ? `${positionLabel(app.beats, player.position)}   ${clock(player.position)}` : "";
  }
  app.on("play", show);
  app.on("piece", show);
  app.on("opened", () => {
    player.stop();
    page.seek(0);
  });
  app.on("mix", () => player.setMix(app.mixed));
  app.on("selection", () => {
    if (loop && player.playing && !listening && !input.recording) updateLoop();
  });
  /** Continue with the loop that is selected now. */
  function updateLoop() {
    const within = loopRange();
    if (String(within) !== String(player.loop)) page.play();
  }
  listenAlong(app, page);
  // Browsers allow sound only after a click or a key, so the first one loads the synthesiser.
  const onFirstInput = () => {
    for (const kind of ["pointerdown", "keydown"]) removeEventListener(kind, onFirstInput, true);
    player.prepare();
  };
  for (const kind of ["pointerdown", "keydown"]) addEventListener(kind, onFirstInput, true);
  show();
  return page;
}
