/** Operations on a piece: pure functions between the server's JSON and the page. */

/** @param {[number, number, number, number, number, number]} row @returns {Note} */
export function noteFromWire([id, start, end, pitch, velocity, track]) {
  return { id, start, end, pitch, velocity, track };
}

/** @param {Note} note */
export function noteToWire({ id, start, end, pitch, velocity, track }) {
  return [id, start, end, pitch, velocity, track];
}

/** The server's Document -> Piece. @returns {Piece} */
export function fromWire(document) {
  return {
    ...document,
    notes: new Map(document.notes.map((row) => [row[0], noteFromWire(row)])),
    locked: new Set(document.locked),
  };
}

/** The notes of a track. @param {Piece} piece @param {number} track */
export const notesOf = (piece, track) => [...piece.notes.values()].filter((note) => note.track === track);

/** The piece after an operation; the piece given stays as it is. @param {Piece} piece @param {Operation} operation @returns {Piece} */
export function apply(piece, operation) {
  const notes = new Map(piece.notes);
  const locked = new Set(piece.locked);
  let next_id = piece.next_id;
  for (const id of operation.remove ?? []) {
    notes.delete(id);
    locked.delete(id);
  }
  for (const note of operation.change ?? []) if (notes.has(note.id)) notes.set(note.id, note);
  for (const note of operation.add ?? []) {
    notes.set(note.id, note);
    next_id = Math.max(next_id, note.id + 1);
  }
  for (const id of operation.lock ?? []) if (notes.has(id)) locked.add(id);
  for (const id of operation.unlock ?? []) locked.delete(id);
  let duration = 0;
  for (const note of notes.values()) if (note.end > duration) duration = note.end;
  const { remove, add, change, lock, unlock, label, ...lists } = operation;
  return { ...piece, ...defined(lists), notes, locked, next_id, duration };
}

/** What is sent for an operation. @param {Operation} operation @param {number} revision */
export function toWire(operation, revision) {
  const { add, change, chords, sections, ...rest } = operation; // the server reads the markers
  return {
    ...defined(rest),
    ...(add && { add: add.map(noteToWire) }),
    ...(change && { change: change.map(noteToWire) }),
    revision,
  };
}

/**
 * An operation as it must be sent: its new notes are numbered from `next` on without gaps, which they
 * were not if the server added or refused notes since. `names` has the ids that changed so far, old
 * to new, for this operation and those after it; it grows.
 * @param {Operation} operation @param {number} next @param {Map<number, number>} names @returns {Operation}
 */
export function renumber(operation, next, names) {
  operation.add?.forEach((note, i) => note.id !== next + i && names.set(note.id, next + i));
  if (!names.size) return operation;
  const renamed = (id) => names.get(id) ?? id;
  const notes = (list) => list?.map((note) => ({ ...note, id: renamed(note.id) }));
  const { add, change, remove, lock, unlock } = operation;
  const parts = { add: notes(add), change: notes(change), remove: remove?.map(renamed), lock: lock?.map(renamed), unlock: unlock?.map(renamed) };
  return { ...operation, ...defined(parts) };
}

const defined = (table) => Object.fromEntries(Object.entries(table).filter(([, value]) => value !== undefined));
