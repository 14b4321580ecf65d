/** Notes, pedals and metronome clicks as MIDI events. Pure functions. */

import { lowerBound } from "../core/numbers.js";

/** @typedef {[time: number, channel: number, status: number, data1: number, data2: number]} Event  time of the document */

const SHORTEST = 0.03; // seconds that a note sounds at least
export const METRONOME = 0; // the channel of the clicks; tracks follow
const [BAR_CLICK, BEAT_CLICK] = [76, 77]; // woodblocks
const CLICK_SECONDS = 0.05;

/** Return a map from track id to channel. */
export function channelsOf(/** @type {{id: number}[]} */ tracks) {
  return new Map(tracks.map((track, i) => [track.id, i + 1]));
}

/** Sort notes by start. A note ends at the latest when the same pitch of its track starts again; doubled notes are merged. */
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
