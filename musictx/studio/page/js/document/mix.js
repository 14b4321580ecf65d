/** Favourite proposals, and a mix of two proposals of a take, chosen bar by bar. Pure functions. */

import { exchangedNotes } from "./takes.js";

/** Is a proposal a favourite? @param {Piece} piece @param {number} take @param {number} proposal */
export const isFavourite = (piece, take, proposal) => (piece.favourites ?? []).some(([takeId, number]) => takeId === take && number === proposal);

/** Mark a proposal as a favourite, or remove the mark. @param {Piece} piece @param {number} take @param {number} proposal @returns {Operation} */
export function toggleFavourite(piece, take, proposal) {
  const favourites = piece.favourites ?? [];
  if (!isFavourite(piece, take, proposal)) return { label: `proposal ${proposal} a favourite`, favourites: [...favourites, [take, proposal]] };
  return { label: `proposal ${proposal} no favourite`, favourites: favourites.filter(([takeId, number]) => takeId !== take || number !== proposal) };
}

/** Return the bars of a stretch, cut at its ends. @param {Stretch} stretch @param {Beats} beats @returns {Bar[]} */
export function barsIn({ begin, end }, beats) {
  const bars = [];
  for (let time = begin; time < end - 1e-2 && bars.length < 256;) {
    const bar = beats.bar(time + 1e-3);
    bars.push({ number: bar.number, begin: Math.max(bar.begin, begin), end: Math.min(bar.end, end) });
    time = bar.end;
  }
  return bars;
}

/**
 * Return the edit that takes each bar from one of two proposals. A note belongs to the bar in which it starts;
 * notes before the first bar, or after the last, belong to that bar. Locked notes stay. Neither proposal is in the piece.
 * @param {Piece} piece @param {Take} take @param {Proposal[]} proposals  two @param {Bar[]} bars
 * @param {number[]} choice  for each bar 0 or 1, the index of its proposal @returns {Operation | null}
 */
export function mixProposals(piece, take, proposals, bars, choice) {
  const barAt = (time) => Math.max(0, bars.findLastIndex((bar) => bar.begin <= time + 0.05));
  const removed = proposals.map((proposal) => exchangedNotes(piece, take, proposal).removed);
  const remove = [...piece.notes.values()].filter((note) => removed[choice[barAt(note.start)]].has(note.id)).map((note) => note.id);
  const tracks = [...piece.tracks];
  /** @type {Note[]} */
  const add = [];
  proposals.forEach((proposal, index) => {
    const notes = proposal.notes.filter((note) => choice[barAt(note.start)] === index);
    const trackIds = new Map(piece.tracks.map(({ id }) => [id, id])); // track of the proposal -> track of the piece
    for (const track of proposal.tracks) if (notes.some((note) => note.track === track.id)) trackIds.set(track.id, newTrack(tracks, piece.tracks.length, track));
    for (const { start, end, pitch, velocity, track: source } of notes) {
      const track = trackIds.get(source);
      if (track === undefined) continue;
      // A note ends where the other proposal's bars begin.
      const cut = bars.find((bar, i) => i > barAt(start) && choice[i] !== index)?.begin ?? Infinity;
      add.push({ id: piece.next_id + add.length, start, end: (end ?? start) > cut ? Math.max(cut, start + 0.01) : end ?? start, pitch, velocity, track });
    }
  });
  if (!add.length && !remove.length) return null;
  const numbers = proposals.map((proposal) => proposal.number).join(" and ");
  return { label: `proposals ${numbers} mixed`, remove, add, ...(tracks.length > piece.tracks.length && { tracks }) };
}

/** Append a proposal's track to `tracks`, unless the other proposal appended the same instrument after the first `count`; return its id. @param {Track[]} tracks @param {number} count @param {Track} track */
function newTrack(tracks, count, track) {
  const same = tracks.slice(count).find(({ name, program, drum }) => name === track.name && program === track.program && drum === track.drum);
  const id = same?.id ?? Math.max(track.id, ...tracks.map((other) => other.id + 1));
  if (!same) tracks.push({ ...track, id });
  return id;
}
