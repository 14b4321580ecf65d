/** Favourite proposals, and music of two proposals of a take, bar by bar. Pure. */

import { exchangedNotes } from "./takes.js";

/** Is a proposal a favourite? @param {Piece} piece @param {number} take @param {number} proposal */
export const isFavourite = (piece, take, proposal) => (piece.favourites ?? []).some(([a, b]) => a === take && b === proposal);

/** Makes it one, or none. @param {Piece} piece @param {number} take @param {number} proposal @returns {Operation} */
export function toggleFavourite(piece, take, proposal) {
  const others = (piece.favourites ?? []).filter(([a, b]) => a !== take || b !== proposal);
  const on = others.length === (piece.favourites ?? []).length;
  return { label: on ? `proposal ${proposal} a favourite` : `proposal ${proposal} no favourite`, favourites: on ? [...others, [take, proposal]] : others };
}

/** The bars that a take writes. @param {{begin: number, end: number}} place @param {Beats} beats @returns {Bar[]} */
export function barsIn({ begin, end }, beats) {
  const bars = [];
  for (let at = begin; at < end - 1e-2 && bars.length < 256;) {
    const bar = beats.bar(at + 1e-3);
    bars.push({ number: bar.number, begin: Math.max(bar.begin, begin), end: Math.min(bar.end, end) });
    at = bar.end;
  }
  return bars;
}

/**
 * One proposal in some bars and another in the others, as an edit: of each note where it begins counts;
 * what begins before the first bar, or after the last, is that bar's. Locked notes stay. None of the take is in the piece.
 * @param {Piece} piece @param {Take} take @param {Proposal[]} proposals  two @param {Bar[]} bars
 * @param {number[]} choice  of each bar the place of its proposal @returns {Operation | null}
 */
export function mixProposals(piece, take, proposals, bars, choice) {
  const of = (time) => choice[Math.max(0, bars.findLastIndex((bar) => bar.begin <= time + 0.05))];
  const removed = proposals.map((proposal) => exchangedNotes(piece, take, proposal).removed);
  const remove = [...piece.notes.values()].filter((note) => removed[of(note.start)].has(note.id)).map((note) => note.id);
  /** @type {Track[]} */
  const tracks = [...piece.tracks];
  const add = [];
  proposals.forEach((proposal, i) => {
    const places = new Map(piece.tracks.map((track) => [track.id, track.id]));
    const notes = proposal.notes.filter((note) => of(note.start) === i);
    for (const track of proposal.tracks.filter((each) => notes.some((note) => note.track === each.id))) {
      // Both bring the same instruments: these share a track.
      const same = tracks.find((each) => !piece.tracks.includes(each) && each.name === track.name && each.program === track.program && each.drum === track.drum);
      const id = same?.id ?? Math.max(track.id, ...tracks.map((each) => each.id + 1));
      if (!same) tracks.push({ ...track, id });
      places.set(track.id, id);
    }
    for (const note of notes) {
      const track = places.get(note.track);
      if (track === undefined) continue;
      const bar = bars[Math.max(0, bars.findLastIndex((each) => each.begin <= note.start + 0.05))];
      const next = bars.slice(bars.indexOf(bar) + 1).find((each) => of(each.begin) !== i);
      const end = note.end ?? note.start;
      // A note ends where the other proposal goes on.
      add.push({ id: piece.next_id + add.length, start: note.start, end: next && end > next.begin ? Math.max(next.begin, note.start + 0.01) : end, pitch: note.pitch, velocity: note.velocity, track });
    }
  });
  if (!add.length && !remove.length) return null;
  const numbers = proposals.map((proposal) => proposal.number).join(" and ");
  return { label: `proposals ${numbers} mixProposals`, remove, add, ...(tracks.length > piece.tracks.length && { tracks }) };
}
