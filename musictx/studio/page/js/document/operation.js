/** Pieces and operations: conversion from and to the server's JSON, and applying an operation. Pure functions. */

import { extentOf } from "./notes.js";

/** @param {[number, number, number, number, number, number]} row @returns {Note} */
export const noteFromWire = ([id, start, end, pitch, velocity, track]) => ({ id, start, end, pitch, velocity, track });

/** @param {Note} note */
const noteToWire = ({ id, start, end, pitch, velocity, track }) => [id, start, end, pitch, velocity, track];

/** Convert the JSON of a Document to a Piece. @returns {Piece} */
export function fromWire(document) {
  return {
    ...document,
    notes: new Map(document.notes.map((row) => [row[0], noteFromWire(row)])),
    locked: new Set(document.locked),
  };
}

/** Return the piece after an operation, without changing `piece`. @param {Piece} piece @param {Operation} operation @returns {Piece} */
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
  const duration = extentOf(notes.values())?.end ?? 0;
  const { remove, add, change, lock, unlock, label, ...lists } = operation;
  return { ...piece, ...defined(lists), notes, locked, next_id, duration };
}

/** Convert an operation to JSON. @param {Operation} operation @param {number} revision */
export function toWire(operation, revision) {
  const { add, change, chords, sections, ...rest } = operation; // the server derives chords and sections from the markers
  return {
    ...defined(rest),
    ...(add && { add: add.map(noteToWire) }),
    ...(change && { change: change.map(noteToWire) }),
    revision,
  };
}

/**
 * Renumber the new notes of an operation from `next` on, as the server requires; it may have added or refused notes since
 * the operation was made. `newIds` maps old to new ids for this operation and later ones, and grows.
 * @param {Operation} operation @param {number} next @param {Map<number, number>} newIds @returns {Operation}
 */
export function renumber(operation, next, newIds) {
  operation.add?.forEach((note, i) => note.id !== next + i && newIds.set(note.id, next + i));
  if (!newIds.size) return operation;
  const newId = (id) => newIds.get(id) ?? id;
  const notes = (list) => list?.map((note) => ({ ...note, id: newId(note.id) }));
  const { add, change, remove, lock, unlock } = operation;
  const parts = { add: notes(add), change: notes(change), remove: remove?.map(newId), lock: lock?.map(newId), unlock: unlock?.map(newId) };
  return { ...operation, ...defined(parts) };
}

const defined = (table) => Object.fromEntries(Object.entries(table).filter(([, value]) => value !== undefined));
