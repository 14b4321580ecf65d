/** What playback sends and when: MIDI events of notes, pedals and clicks; document time and audio time. */

import { lowerBound } from "../core/numbers.js";

/** @typedef {[time: number, channel: number, status: number, data1: number, data2: number]} Event  time of the document */

const SHORTEST = 0.03; // seconds that a note sounds at least
export const METRONOME = 0; // the channel of the clicks; tracks follow
const [BAR_CLICK, BEAT_CLICK] = [76, 77]; // woodblocks
const CLICK_SECONDS = 0.05;

/** Return the channel of each track, by id. @param {{id: number}[]} tracks */
export const channelsOf = (tracks) => new Map(tracks.map((track, i) => [track.id, METRONOME + 1 + i]));

/** Return notes as they are played, by start. A note ends at the latest when the same pitch of its track starts again; doubled notes are merged. */
export function prepareNotes(/** @type {Iterable<Ghost>} */ notes) {
  const sorted = [...notes].sort((a, b) => a.start - b.start || a.pitch - b.pitch);
  const last = new Map();
  const result = [];
  for (const source of sorted) {
    const { start, pitch, velocity, track } = source;
    const end = source.end === null ? Infinity : Math.max(source.end, start + SHORTEST);
    const key = track * 128 + pitch;
    const before = last.get(key);
    if (before?.start === start) {
      before.end = Math.max(before.end, end);
      before.velocity = Math.max(before.velocity, velocity);
      continue;
    }
    if (before) before.end = Math.min(before.end, start);
    const note = { start, end, pitch, velocity, track, source };
    last.set(key, note);
    result.push(note);
  }
  return result;
}

/**
 * Return the events of notes that start in [from, to). Notes end at `stop` at the latest. A note without an end gets no
 * note-off, and is appended to `open`.
 * @param {ReturnType<typeof prepareNotes>} notes
 * @param {Map<number, number>} channels
 * @param {any[]} [open]
 * @returns {Event[]}
 */
export function noteEvents(notes, channels, from, to, stop = Infinity, open = []) {
  /** @type {Event[]} */
  const events = [];
  for (let i = lowerBound(notes, from, (n) => n.start); i < notes.length && notes[i].start < to; i++) {
    const { start, end, pitch, velocity, track } = notes[i];
    const channel = channels.get(track);
    if (channel === undefined) continue;
    events.push([start, channel, 0x90, pitch, velocity]);
    if (Math.min(end, stop) === Infinity) open.push({ ...notes[i], channel });
    else events.push([Math.min(end, stop), channel, 0x80, pitch, 0]);
  }
  return events;
}

/** Return events that start at `from` the notes which sound there. @returns {Event[]} */
export function heldEvents(notes, channels, from, stop = Infinity) {
  /** @type {Event[]} */
  const events = [];
  for (const { start, end, pitch, velocity, track } of notes) {
    if (start >= from) break;
    const channel = channels.get(track);
    if (channel === undefined || end === Infinity || end - from < SHORTEST) continue;
    events.push([from, channel, 0x90, pitch, velocity], [Math.min(end, stop), channel, 0x80, pitch, 0]);
  }
  return events;
}

/** Return the state of the sustain pedals at `from`, as events. @returns {Event[]} */
export function pedalStates(pedals, channels, from) {
  const values = new Map();
  for (const [time, value, track] of pedals) if (time < from) values.set(track, value);
  return [...channels].map(([track, channel]) => [from, channel, 0xb0, 64, values.get(track) ?? 0]);
}

/** Return the pedal events in [from, to). @returns {Event[]} */
export function pedalEvents(pedals, channels, from, to) {
  return pedals
    .filter(([time, , track]) => time >= from && time < to && channels.has(track))
    .map(([time, value, track]) => /** @type {Event} */ ([time, channels.get(track), 0xb0, 64, value]));
}

/** Return the metronome's events in [from, to); the first beat of a bar has a different sound. @returns {Event[]} */
export function clickEvents(/** @type {number[][]} */ beats, from, to) {
  /** @type {Event[]} */
  const events = [];
  for (let i = lowerBound(beats, from, (b) => b[0]); i < beats.length && beats[i][0] < to; i++) {
    const [time, , beat] = beats[i];
    const first = beat === 1;
    const key = first ? BAR_CLICK : BEAT_CLICK;
    events.push([time, METRONOME, 0x90, key, first ? 110 : 80], [time + CLICK_SECONDS, METRONOME, 0x80, key, 0]);
  }
  return events;
}

/**
 * The schedule of a playback, which repeats the loop if there is one. `nextWindows` returns consecutive windows of the document,
 * each with the offset from document time to audio time.
 */
export class Transport {
  /** @param {number} from  time of the document @param {number} when  audio time at which it sounds @param {[number, number] | null} loop */
  constructor(from, when, loop = null) {
    this.loop = loop && loop[1] - loop[0] > 0.05 ? loop : null;
    /** @type {{from: number, when: number}[]} in order: the start, then a stretch for each jump of the loop */
    this.stretches = [{ from, when }];
    this.scheduled = from; // end of the last window, in time of the document
  }

  /** Return the windows up to the audio time `until`, at most up to the document time `limit`. */
  nextWindows(until, limit = Infinity) {
    const windows = [];
    for (;;) {
      const { from, when } = this.stretches.at(-1);
      const end = this.loop && this.scheduled < this.loop[1] ? this.loop[1] : Infinity;
      const to = Math.min(from + until - when, end, Math.max(limit, this.scheduled));
      if (to > this.scheduled) windows.push({ from: this.scheduled, to, offset: when - from, stop: end });
      this.scheduled = Math.max(this.scheduled, to);
      if (this.scheduled < end) return windows;
      this.stretches.push({ from: this.loop[0], when: when + end - from });
      this.scheduled = this.loop[0];
      if (this.stretches.length > 64) this.stretches.shift();
    }
  }

  /** Wait at a document time, to continue at the audio time `when`. */
  hold(moment, when) {
    this.stretches = [{ from: moment, when }];
    this.scheduled = Math.max(this.scheduled, moment);
  }

  /** Return the document time that sounds at an audio time. */
  at(when) {
    const part = this.stretches.findLast((stretch) => stretch.when <= when) ?? this.stretches[0];
    const moment = part.from + Math.max(0, when - part.when);
    return this.loop && part === this.stretches.at(-1) && moment > this.loop[1] && part.from < this.loop[1]
      ? this.loop[1] : moment;
  }
}

const MAX_LATENCY = 1; // seconds; Bluetooth has some tenths

/**
 * Return the context time that the loudspeakers play now, from the output timestamp if it is plausible (in WebKitGTK its
 * clock runs twice too fast), else from the latency. `now` and `performanceTime` are milliseconds.
 * @param {{contextTime?: number, performanceTime?: number} | undefined} stamp
 */
export function outputTime(stamp, currentTime, latency, now) {
  const reported = stamp?.performanceTime ? stamp.contextTime + (now - stamp.performanceTime) / 1000 : NaN;
  return reported > currentTime - MAX_LATENCY && reported < currentTime + 0.1 ? reported : currentTime - latency;
}
