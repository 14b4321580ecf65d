/** One playback: the events of the music, sent to the synthesiser ahead of time; or a sound file of the server. */

import { session } from "../core/api.js";
import { clickEvents, heldEvents, noteEvents, pedalEvents, pedalStates, prepareNotes, Transport } from "./schedule.js";

const LEAD = 0.08; // seconds from the command to the first note
const LOOKAHEAD = 0.25; // seconds for which events are sent ahead
const HIDDEN_LOOKAHEAD = 2.5; // the same in a hidden page, whose timers run once a second
const TICK = 60; // milliseconds between two calls of the scheduler
const TAIL = 1.0; // seconds that the playhead continues after the last note

/** @typedef {{notes: Map<number, Ghost> | Ghost[], tracks: {id: number, program: number, drum: boolean}[], pedals?: number[][], beats?: number[][]}} Music */
/**
 * @typedef PlayOptions  and those of a Playable; the server plays its proposal for browsers without the synthesiser
 * @property {[number, number] | null} [loop]  seconds of the piece
 * @property {number} [end]  where to stop (Infinity: never); default: after the last note
 * @property {number[]} [countIn]  clicks, in seconds before the start, the largest first
 */

export class Playback {
  /** The notes of the music at the last tick. @type {Music["notes"] | null} */
  #notes = null;
  /** The same, sorted and without overlaps. @type {ReturnType<typeof prepareNotes>} */
  #sorted = [];
  /** The time at which they have faded. */
  #end = 0;
  /** Notes that have not ended yet. @type {any[]} */
  #open = [];
  #isStart = true;

  /**
   * @param {Player} player @param {any} synth @param {Music} music  whose instruments are loaded @param {Map<number, number>} channels  by track
   * @param {number} from @param {PlayOptions & Partial<Playable> & {music: () => Music}} options
   */
  constructor(player, synth, music, channels, from, options) {
    this.player = player;
    this.synth = synth;
    this.tracks = music.tracks;
    this.channels = channels;
    this.options = options;
    const clicks = options.countIn ?? [];
    const start = player.output.context.currentTime + LEAD + (clicks[0] ?? 0);
    this.transport = new Transport(from, start, options.loop ?? null);
    this.loop = this.transport.loop;
    synth.send(clicks.flatMap((before, i) => clickEvents([[start - before, 0, i === 0 ? 1 : 2]], 0, Infinity)));
    this.timer = setInterval(() => this.tick(), TICK);
  }

  /** Return the time of the piece that sounded at a time of `performance.now()`. */
  at(performanceTime = performance.now()) {
    return this.transport.at(this.player.output.audibleTime(performanceTime));
  }

  stop() {
    clearInterval(this.timer);
    this.synth.silence();
  }

  /** Send the events up to the lookahead; wait for notes that are being composed, and stop at the end. */
  tick() {
    const { transport, options, player } = this;
    const music = options.music();
    this.#update(music);
    const composed = options.composedUntil?.() ?? Infinity;
    const time = player.output.context.currentTime;
    const until = time + (document.hidden ? HIDDEN_LOOKAHEAD : LOOKAHEAD);
    const windows = transport.nextWindows(until, Math.min(composed, transport.loop ? Infinity : options.end ?? Infinity));
    this.synth.send(windows.flatMap((window) => this.#eventsIn(window, music)));
    const position = transport.at(time);
    const waits = composed < Infinity && position >= composed - 0.02;
    if (waits) transport.hold(composed, time + LEAD);
    player.setState(waits ? "waiting" : "playing");
    const end = options.end ?? (composed === Infinity ? this.#end : Infinity);
    if (!transport.loop && position >= end) player.stop();
  }

  /** Prepare notes and instruments that are new since the last tick. @param {Music} music */
  #update(music) {
    if (music.notes !== this.#notes) {
      this.#notes = music.notes;
      const all = [...music.notes.values()];
      this.#sorted = prepareNotes(all);
      this.#end = this.#sorted.reduce((end, note) => Math.max(end, note.end), 0) + TAIL;
      const present = new Set(all);
      this.#open = this.#open.filter(({ source, channel, pitch, offset }) => {
        if (source.end === null && present.has(source)) return true;
        this.synth.send([[source.end === null ? 0 : source.end + offset, channel, 0x80, pitch, 0]]);
        return false;
      });
    }
    if (music.tracks !== this.tracks) {
      this.tracks = music.tracks;
      this.player.loadInstruments(music, this.synth).then((channels) => { this.channels = channels; });
    }
  }

  /** Return the events of a window of the transport. @param {ReturnType<Transport["nextWindows"]>[number]} window @param {Music} music */
  #eventsIn({ from, to, offset, stop }, { pedals = [], beats = [] }) {
    const { channels, transport, options, player } = this;
    const events = [
      // The pedal may be down at the end of a loop and up at its start.
      ...(this.#isStart || from === transport.loop?.[0] ? pedalStates(pedals, channels, from) : []),
      ...(this.#isStart ? heldEvents(this.#sorted, channels, from, stop) : []),
      ...noteEvents(this.#sorted, channels, from, to, Math.min(stop, options.end ?? Infinity), this.#open),
      ...pedalEvents(pedals, channels, from, to),
      ...(player.metronome ? clickEvents(beats, from, to) : []),
    ];
    for (const note of this.#open) note.offset ??= offset;
    this.#isStart = false;
    return events.map(([time, ...rest]) => [time + offset, ...rest]);
  }
}

/** Playback of the WAV export of a piece, for browsers that cannot run the synthesiser. */
export class FilePlayback {
  /** @param {Player} player @param {string} id  of the session @param {number} from @param {PlayOptions & Partial<Playable>} options */
  constructor(player, id, from, { loop, end, proposal }) {
    this.loop = loop ?? null;
    this.begin = loop ? loop[0] : from;
    const stop = loop ? loop[1] : end;
    const query = Object.entries({ begin: this.begin, end: stop, ...proposal }).filter(([, value]) => value !== undefined);
    const audio = new Audio(`/api/${session(id, "export", "sound.wav")}?${new URLSearchParams(query.map(([name, value]) => [name, String(value)]))}`);
    audio.loop = Boolean(loop);
    audio.volume = player.output.volume ** 2;
    audio.currentTime = loop && from > loop[0] && from < loop[1] ? from - this.begin : 0;
    audio.onplaying = () => player.setState("playing");
    audio.onwaiting = () => player.setState("loading");
    audio.onended = audio.onerror = () => player.stop();
    audio.play().catch(() => audio.onended?.(null)); // unless it was stopped already
    this.audio = audio;
  }

  at() {
    return this.begin + this.audio.currentTime;
  }

  stop() {
    this.audio.onended = this.audio.onerror = null;
    this.audio.pause();
    this.audio.removeAttribute("src");
  }
}
