/** What is selected: notes, a stretch of time, tracks. */

import { Emitter } from "./core/emitter.js";

/** The stretch that notes take up; null of none. @param {Note[]} notes @returns {Stretch | null} */
export function stretchOfNotes(notes) {
  if (!notes.length) return null;
  let begin = Infinity;
  let end = 0;
  for (const note of notes) {
    begin = Math.min(begin, note.start);
    end = Math.max(end, note.end);
  }
  return { begin, end };
}

const EARLY = 0.1; // seconds by which a note may begin before the bar line that it belongs to

/** Does a note belong to what comes after a line: does it begin there, or just before it and mostly sound there? @param {Note} note @param {number} line */
const after = ({ start, end }, line) =>
  start >= line - 1e-6 || (start >= line - EARLY && end - line > Math.max(line - start, (end - start) / 2));

/** Notes of a stretch, in the tracks given (empty: all), as the server takes them (document.py: within). @param {Piece} piece @param {Stretch} stretch @param {Set<number>} [tracks] */
export function notesIn(piece, { begin, end }, tracks = new Set()) {
  const inside = [];
  for (const note of piece.notes.values()) {
    if (after(note, begin) && !after(note, end) && (!tracks.size || tracks.has(note.track))) inside.push(note);
  }
  return inside;
}

/** @extends {Emitter<{change: Selection}>} */
export class Selection extends Emitter {
  /** Ids of notes. @type {Set<number>} */
  notes = new Set();
  /** Bars, or any stretch of time. @type {Stretch | null} */
  range = null;
  /** Ids of tracks; empty means all. @type {Set<number>} */
  tracks = new Set();

  /** Is anything but a track selected? */
  get empty() {
    return !this.notes.size && !this.range;
  }

  /** @param {Iterable<number>} ids @param {"set" | "add" | "toggle"} [how] */
  pickNotes(ids, how = "set") {
    const next = how === "set" ? new Set() : new Set(this.notes);
    for (const id of ids) {
      if (how === "toggle" && next.has(id)) next.delete(id);
      else next.add(id);
    }
    this.notes = next;
    if (how === "set") this.range = null;
    this.emit("change", this);
  }

  /** Selects a stretch and the notes that begin in it. @param {Piece} piece @param {Stretch | null} range */
  pickRange(piece, range) {
    this.range = range && range.end > range.begin ? range : null;
    this.notes = new Set(this.range ? notesIn(piece, this.range, this.tracks).map((note) => note.id) : []);
    this.emit("change", this);
  }

  /** @param {Piece} piece @param {Iterable<number>} ids */
  pickTracks(piece, ids) {
    this.tracks = new Set(ids);
    if (this.range) this.pickRange(piece, this.range);
    else this.emit("change", this);
  }

  /** Selects nothing; tracks stay. */
  drop() {
    this.notes = new Set();
    this.range = null;
    this.emit("change", this);
  }

  clear() {
    this.tracks = new Set();
    this.drop();
  }

  /** Forgets what is no longer in the piece. @param {Piece} piece */
  prune(piece) {
    const notes = [...this.notes].filter((id) => piece.notes.has(id));
    const ids = new Set(piece.tracks.map((track) => track.id));
    const tracks = [...this.tracks].filter((id) => ids.has(id));
    if (notes.length === this.notes.size && tracks.length === this.tracks.size) return;
    this.notes = new Set(notes);
    this.tracks = new Set(tracks);
    this.emit("change", this);
  }

  /**
   * What a task works on: the stretch (bars, else what the notes span; null: nothing is selected)
   * and the tracks (those selected, else those of the notes when no bars are; null: all).
   * @param {Piece} piece @returns {{stretch: Stretch | null, tracks: number[] | null}}
   */
  scope(piece) {
    const notes = [...this.notes].flatMap((id) => piece.notes.get(id) ?? []);
    const stretch = this.range ?? stretchOfNotes(notes);
    const chosen = this.tracks.size ? this.tracks : new Set(this.range ? [] : notes.map((note) => note.track));
    const all = !chosen.size || chosen.size >= piece.tracks.length;
    return { stretch, tracks: all ? null : [...chosen].sort((a, b) => a - b) };
  }
}
