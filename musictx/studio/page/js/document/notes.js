/** Which notes and tracks of a piece: by id, by track, in a stretch of time. Pure functions. */

/** Return the notes with some ids that the piece contains. @param {Piece} piece @param {Iterable<number>} ids @returns {Note[]} */
export const notesById = (piece, ids) => [...ids].flatMap((id) => piece.notes.get(id) ?? []);

/** Return the notes with some ids that are not locked. @param {Piece} piece @param {Iterable<number>} ids */
export const freeNotes = (piece, ids) => notesById(piece, ids).filter((note) => !piece.locked.has(note.id));

/** Are there notes, all of them locked? @param {Piece} piece @param {Note[]} notes */
export const allLocked = (piece, notes) => notes.length > 0 && notes.every((note) => piece.locked.has(note.id));

/** Return the notes of a track. @param {Piece} piece @param {number} track */
export const notesOf = (piece, track) => [...piece.notes.values()].filter((note) => note.track === track);

/** @param {Piece} piece @param {number} id */
export const trackById = (piece, id) => piece.tracks.find((track) => track.id === id);

/** Return the first start, the last end, the lowest and the highest pitch of notes; null without notes. @param {Iterable<Note | Ghost>} notes */
export function extentOf(notes) {
  let [begin, end, low, high] = [Infinity, 0, 127, 0];
  for (const note of notes) {
    begin = Math.min(begin, note.start);
    end = Math.max(end, note.end ?? note.start);
    low = Math.min(low, note.pitch);
    high = Math.max(high, note.pitch);
  }
  return begin < Infinity ? { begin, end, low, high } : null;
}

const MAX_EARLY = 0.1; // seconds that a note may start before the bar to which it belongs

/** Does a note belong to the music after a bar line? It starts there, or just before and sounds mostly there. @param {Note} note @param {number} line  seconds */
const belongsAfter = ({ start, end }, line) =>
  start >= line - 1e-6 || (start >= line - MAX_EARLY && end - line > Math.max(line - start, (end - start) / 2));

/** Return the notes of a stretch in some tracks (an empty set means all), by the server's rule (`starts_inside` in document.py). @param {Piece} piece @param {Stretch} stretch @param {Set<number>} [tracks] */
export function notesIn(piece, { begin, end }, tracks = new Set()) {
  return [...piece.notes.values()].filter((note) => belongsAfter(note, begin) && !belongsAfter(note, end) && (!tracks.size || tracks.has(note.track)));
}
