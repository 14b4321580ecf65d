/** The player: the piece or a proposal, from any time or in a loop; single notes; the metronome. */

import { controllers } from "../document/mixer.js";
import { Output } from "./output.js";
import { FilePlayback, Playback } from "./playback.js";
import { channelsOf, METRONOME } from "./schedule.js";

const PREVIEW = 0.35; // seconds of a single note
const NO_SOUND = 3000; // milliseconds after which an audio context that does not run is reported

export class Player {
  /** "waiting": for notes that are being composed. @type {"stopped" | "loading" | "playing" | "waiting"} */
  state = "stopped";
  metronome = false;
  /** Are the selected bars, or else the whole piece, repeated? */
  repeats = false;
  output = new Output();
  /** @type {Playback | FilePlayback | null} */
  #playback = null;
  /** @type {import("./playback.js").PlayOptions & Partial<Playable>} */
  #options = {};
  #attempts = 0; // number of calls of start and stop, by which a start that is loading notices a later call
  #cursor = 0; // the position when nothing plays
  #warned = false;

  /** @param {App} app @param {() => void} onPosition  called at every frame while something plays */
  constructor(app, onPosition) {
    this.app = app;
    this.onPosition = onPosition;
    app.on("mix", () => this.#playback instanceof Playback && this.mix(this.#playback.synth, this.#playback.channels)); // the server mixes files
    app.on("selection", () => {
      const isPiece = this.#playback && !this.#options.music && !this.#options.countIn;
      if (this.repeats && isPiece && String(this.#loop()) !== String(this.#playback.loop)) this.play();
    });
  }

  get playing() {
    return this.state !== "stopped";
  }

  /** The time of the piece that sounds, or at which playback stopped. */
  get position() {
    return this.at();
  }

  /** Return the time of the piece that sounded at a time of `performance.now()`; default: now. @param {number} [performanceTime] */
  at(performanceTime) {
    return this.#playback?.at(performanceTime) ?? this.#cursor;
  }

  /** Play the piece, in a loop if it is repeated, or something else. @param {number} [from] @param {Playable} [instead] */
  play(from = this.position, instead) {
    const { piece } = this.app;
    if (!piece) return;
    const loop = instead ? null : this.#loop();
    if (loop && (from < loop[0] || from >= loop[1])) [from] = loop;
    else if (!instead && !loop && from >= piece.duration) from = 0;
    this.#start(from, { ...instead, loop });
  }

  /** Play the selection once, or from the cursor if nothing is selected. */
  playSelection() {
    const { stretch } = this.app.selection.scope(this.app.piece);
    this.#start(stretch?.begin ?? this.app.cursor.time, { end: stretch?.end });
  }

  /** Play on after the end of the piece, for a recording, after a count-in. @param {number} from @param {number[]} countIn  see PlayOptions */
  record(from, countIn) {
    return this.#start(from, { end: Infinity, countIn });
  }

  toggle() {
    const { piece } = this.app;
    if (this.playing) return this.stop();
    if (piece && !piece.notes.size && piece.chords.length) this.app.notify("The chords have no notes yet. Accompany composes some.");
    this.play();
  }

  /** Set whether the selected bars, or else the whole piece, are repeated. @param {boolean} on */
  repeat(on) {
    this.repeats = on;
    if (this.#playback) this.play();
  }

  /** Move the playhead, except during a recording. @param {number} seconds */
  seek(seconds) {
    this.#cursor = seconds;
    if (this.playing && !this.#options.countIn) this.play(seconds);
    else this.app.emit("play", this);
  }

  stop() {
    this.#attempts++;
    if (this.#playback) {
      this.#cursor = this.#playback.at();
      this.#playback.stop();
    }
    this.#playback = null;
    this.setState("stopped");
  }

  /** Where a loop begins, or else the piece. */
  get beginning() {
    return this.#loop()?.[0] ?? 0;
  }

  /** Return [start, end] of the loop: the selected bars, else the whole piece; null if nothing is repeated. @returns {[number, number] | null} */
  #loop() {
    const { piece, selection, beats } = this.app;
    if (!this.repeats || !piece) return null;
    const { begin, end } = selection.range ?? { begin: 0, end: beats.bars(0, piece.duration).end };
    return [begin, end];
  }

  /** @param {number} from @param {import("./playback.js").PlayOptions & Partial<Playable>} options */
  async #start(from, options) {
    this.stop();
    const attempt = ++this.#attempts;
    this.#options = options;
    this.setState("loading");
    const synth = await this.output.synth();
    if (attempt !== this.#attempts) return;
    if (!synth) {
      if (!this.#warned) this.app.showError(`This browser plays the server's sound file instead of single notes (${this.output.failure}).`);
      this.#warned = true;
      this.#playback = new FilePlayback(this, this.app.piece.id, from, options);
      return this.#follow();
    }
    const music = options.music ?? (() => this.app.piece);
    const first = music();
    const channels = await this.loadInstruments(first, synth).catch((error) => this.output.fail(error));
    if (attempt !== this.#attempts) return;
    if (!channels) return this.#start(from, options);
    const playback = new Playback(this, synth, first, channels, from, { ...options, music });
    this.#playback = playback;
    setTimeout(() => this.#playback === playback && this.output.context.state !== "running"
      && this.app.showError("There is no sound: this browser has no audio output, or may not use it."), NO_SOUND);
    playback.tick();
    this.#follow();
  }

  /** Report the position at every animation frame of a playback. */
  #follow(playback = this.#playback) {
    if (!playback || playback !== this.#playback) return;
    this.#cursor = playback.at();
    this.onPosition();
    requestAnimationFrame(() => this.#follow(playback));
  }

  /** @param {Player["state"]} state */
  setState(state) {
    if (state === this.state) return;
    this.state = state;
    this.app.emit("play", this);
  }

  /** Load the instruments of the tracks, and return the channels by track id. */
  async loadInstruments(music, synth) {
    const channels = channelsOf(music.tracks);
    await Promise.all([
      synth.setChannel(METRONOME, 0, true),
      ...music.tracks.map((track) => synth.setChannel(channels.get(track.id), track.program, track.drum)),
    ]);
    this.mix(synth, channels);
    return channels;
  }

  /** Send volume, pan and reverb of each channel; tracks that are not in the piece have the defaults. */
  mix(synth, channels) {
    const { mixedTracks } = this.app;
    const others = [...channels.keys()].filter((id) => !mixedTracks.some((track) => track.id === id));
    const all = controllers([...mixedTracks, ...others.map((id) => ({ id }))]);
    synth.send([...channels].flatMap(([id, channel]) => (all.get(id) ?? []).map(([number, value]) => [0, channel, 0xb0, number, value])));
  }

  /** Play a short note, such as one that is clicked. */
  async audition(pitch, velocity, track) {
    const { synth, channel } = await this.#voice(track);
    const now = this.output.context?.currentTime ?? 0;
    synth?.send([[now, channel, 0x90, pitch, velocity], [now + PREVIEW, channel, 0x80, pitch, 0]]);
  }

  /** Press a key of a track or, with velocity 0, release it. */
  key = (track, pitch, velocity) => this.#send(track, velocity ? 0x90 : 0x80, pitch, velocity);

  /** Press or release the sustain pedal of a track. */
  pedal = (track, down) => this.#send(track, 0xb0, 64, down ? 127 : 0);

  /** Send a MIDI message to the channel of a track, at once. */
  async #send(track, ...message) {
    const { synth, channel } = await this.#voice(track);
    synth?.send([[0, channel, ...message]]);
  }

  async #voice(trackId) {
    const synth = await this.output.synth();
    const { tracks } = this.app.piece ?? { tracks: [] };
    const track = tracks.find(({ id }) => id === trackId) ?? { id: 0, program: 0, drum: false };
    const channel = channelsOf(tracks).get(track.id) ?? 1;
    await synth?.setChannel(channel, track.program, track.drum);
    return { synth, channel };
  }
}
