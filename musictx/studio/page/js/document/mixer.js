/** The mixer, and edits of the list of tracks as operations. Pure functions. */

import { toggleLock } from "./edits.js";
import { notesOf, trackById } from "./notes.js";
import { trackName } from "./words.js";

/** The default value and the MIDI controller of each mixer setting. */
export const MIXER = { volume: { initial: 100, controller: 7 }, pan: { initial: 64, controller: 10 }, reverb: { initial: 40, controller: 91 } };
/** @typedef {keyof typeof MIXER} MixerSetting */

/** @param {Partial<Track>} track @param {MixerSetting} setting */
export const mixerValue = (track, setting) => track[setting] ?? MIXER[setting].initial;

/** Does a track sound? If any track is soloed, only soloed tracks do, else all that are not muted. @param {Partial<Track>[]} tracks @param {number} id */
export function isAudible(tracks, id) {
  const track = tracks.find((each) => each.id === id);
  return tracks.some((each) => each.solo) ? Boolean(track?.solo) : !track?.mute;
}

/** Return [controller, value] pairs by track id, with volume 0 for tracks that do not sound. @param {Partial<Track>[]} tracks @returns {Map<number, [number, number][]>} */
export function controllers(tracks) {
  const pairs = (track) => Object.keys(MIXER).map((setting) => /** @type {[number, number]} */ ([MIXER[setting].controller, setting === "volume" && !isAudible(tracks, track.id) ? 0 : mixerValue(track, /** @type {MixerSetting} */ (setting))]));
  return new Map(tracks.map((track) => [/** @type {number} */ (track.id), pairs(track)]));
}

/** Describe a pan value: "middle", "50 % left". */
export const panWords = (value) => (Math.abs(value - 64) < 1 ? "middle" : `${Math.round((Math.abs(value - 64) / (value < 64 ? 64 : 63)) * 100)} % ${value < 64 ? "left" : "right"}`);

/** Change fields of a track. @param {Piece} piece @param {number} id @param {Partial<Track>} change @param {string} [label] @returns {Operation | null} */
export function changeTrack(piece, id, change, label) {
  const track = trackById(piece, id);
  if (!track || Object.entries(change).every(([name, value]) => track[name] === value)) return null;
  return { label: label ?? `change track ${trackName(track)}`, tracks: piece.tracks.map((each) => (each.id === id ? { ...each, ...change } : each)) };
}

/** Move a track up (-1) or down (1) in the list. @param {Piece} piece @param {number} id @param {number} by @returns {Operation | null} */
export function moveTrack(piece, id, by) {
  const tracks = [...piece.tracks];
  const index = tracks.findIndex((track) => track.id === id);
  const target = index + by;
  if (!tracks[index] || !tracks[target]) return null;
  [tracks[index], tracks[target]] = [tracks[target], tracks[index]];
  return { label: `move track ${trackName(tracks[target])}`, tracks };
}

/** Duplicate a track, with its notes and pedals, right after it. @param {Piece} piece @param {number} id @returns {Operation | null} */
export function duplicateTrack(piece, id) {
  const index = piece.tracks.findIndex((each) => each.id === id);
  if (index < 0) return null;
  const track = piece.tracks[index];
  const copy = { ...track, id: Math.max(...piece.tracks.map((each) => each.id)) + 1, name: `${trackName(track)} copy`, solo: false };
  const notes = notesOf(piece, id);
  const pedals = piece.pedals.filter(([, , trackId]) => trackId === id).map(([time, value]) => /** @type {[number, number, number]} */ ([time, value, copy.id]));
  return {
    label: `duplicate track ${trackName(track)}`,
    tracks: [...piece.tracks.slice(0, index + 1), copy, ...piece.tracks.slice(index + 1)],
    add: notes.map((note, i) => ({ ...note, id: piece.next_id + i, track: copy.id })),
    ...(pedals.length && { pedals: [...piece.pedals, ...pedals].sort((a, b) => a[0] - b[0]) }),
  };
}

/** Lock all notes of a track, or unlock them if all are locked. @param {Piece} piece @param {number} id */
export const toggleTrackLock = (piece, id) => toggleLock(piece, notesOf(piece, id).map((note) => note.id));
