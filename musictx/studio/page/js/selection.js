/** The selection: notes, a stretch of time (usually bars), tracks. */

import { Emitter } from "./core/emitter.js";
import { extentOf, notesById, notesIn } from "./document/notes.js";

/** @extends {Emitter<{change: Selection}>} */
export class Selection extends Emitter {
  /** Ids of notes. @type {Set<number>} */
  notes = new Set();
  /** The selected time. @type {Stretch | null} */
  range = null;
  /** Ids of tracks; empty means all. @type {Set<number>} */
  tracks = new Set();

  /** Select notes instead of other notes or time. @param {Iterable<number>} ids */
  selectNotes(ids) {
    this.notes = new Set(ids);
    this.range = null;
    this.emit("change", this);
  }

  /** Select notes, or deselect those that are selected. @param {Iterable<number>} ids */
  toggleNotes(ids) {
    this.notes = new Set(this.notes);
    for (const id of ids) if (!this.notes.delete(id)) this.notes.add(id);
    this.emit("change", this);
  }

  /** Select a stretch and its notes. @param {Piece} piece @param {Stretch | null} range */
  selectRange(piece, range) {
    this.range = range && range.end > range.begin ? range : null;
    this.notes = new Set(this.range ? notesIn(piece, this.range, this.tracks).map((note) => note.id) : []);
    this.emit("change", this);
  }

  /** @param {Piece} piece @param {Iterable<number>} ids */
  selectTracks(piece, ids) {
    this.tracks = new Set(ids);
    if (this.range) this.selectRange(piece, this.range);
    else this.emit("change", this);
  }

  /** Deselect notes and time; selected tracks stay. */
  deselect() {
    this.selectNotes([]);
  }

  clear() {
    this.tracks = new Set();
    this.deselect();
  }

  /** Deselect what the piece no longer contains. @param {Piece} piece */
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
   * Return what a task works on. The stretch is the selected time, else that of the selected notes; null if nothing is
   * selected. The tracks are the selected tracks, else, without selected time, those of the notes; null means all.
   * @param {Piece} piece @returns {{stretch: Stretch | null, tracks: number[] | null}}
   */
  scope(piece) {
    const notes = notesById(piece, this.notes);
    const extent = extentOf(notes);
    const stretch = this.range ?? (extent && { begin: extent.begin, end: extent.end });
    const chosen = this.tracks.size ? this.tracks : new Set(this.range ? [] : notes.map((note) => note.track));
    const all = !chosen.size || chosen.size >= piece.tracks.length;
    return { stretch, tracks: all ? null : [...chosen].sort((a, b) => a - b) };
  }
}
