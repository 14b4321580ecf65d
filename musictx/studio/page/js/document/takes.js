/** The takes of a session: a take is one request to compose, with the proposals that answer it. Favourites, and the mix of two proposals. */

import { Emitter } from "../core/emitter.js";
import { noteFromWire } from "./operation.js";
import { sentence } from "./words.js";

/** Convert the server's JSON of a proposal; while it is being composed, events give its notes. @returns {Proposal} */
export function proposalFromWire(/** @type {any} */ { notes = [], events = [], ...proposal }) {
  const ghosts = notes.map(([start, end, pitch, velocity, track]) => ({ start, end, pitch, velocity, track }));
  applyNoteEvents(ghosts, events);
  return { ...proposal, notes: ghosts };
}

/** Convert the server's JSON of a take. Proposals without notes in the JSON keep the notes of `old`. @param {Take | undefined} old @returns {Take} */
function takeFromWire(take, old) {
  const proposals = take.proposals.map((update) => {
    const before = old?.proposals.find((proposal) => proposal.number === update.number);
    return update.notes || !before ? proposalFromWire(update) : { ...before, ...update };
  });
  return { ...take, proposals };
}

/**
 * Apply the events of composing to a list of notes, in place: "on" starts a note, "off" ends the earliest open note of
 * its pitch and track.
 * @param {Ghost[]} notes
 */
export function applyNoteEvents(notes, events) {
  for (const [kind, seconds, pitch, ...rest] of events) {
    const track = rest.at(-1);
    if (kind === "on") notes.push({ start: seconds, end: null, pitch, velocity: rest[0], track });
    else {
      const open = notes.find((note) => note.end === null && note.pitch === pitch && note.track === track);
      if (open) open.end = Math.max(seconds, open.start);
    }
  }
}

/**
 * Return which notes the server removes and restores when it accepts a proposal. It removes, unless locked, the notes
 * that the proposal replaces and those of an accepted proposal of the same take. It restores the notes which that accepted
 * proposal replaced, unless this proposal or another take replaces them.
 * @param {Piece} piece @param {Take} take @param {Proposal} proposal @returns {{removed: Set<number>, restored: Note[]}}
 */
export function exchangedNotes(piece, take, proposal) {
  const removed = new Set(proposal.removes);
  const replacedElsewhere = new Set(proposal.removes);
  const replaced = [];
  for (const [name, [first, count, notes]] of Object.entries(piece.brought)) {
    if (name.startsWith(`${take.id}/`)) {
      for (let i = 0; i < count; i++) removed.add(first + i);
      replaced.push(...notes);
    } else for (const [id] of notes) replacedElsewhere.add(id);
  }
  for (const id of piece.locked) removed.delete(id);
  // Only a finished proposal lists all notes that it replaces.
  const restored = proposal.state === "done" ? replaced.filter(([id]) => !replacedElsewhere.has(id)).map(noteFromWire) : [];
  return { removed, restored };
}

/** Return the time up to which a proposal that begins at `begin` has been composed. @param {Proposal} proposal @param {number} begin */
export const composedUntil = ({ notes }, begin) => notes.reduce((last, note) => Math.max(last, note.start, note.end ?? 0), begin);

const OVERLAP = 0.06; // seconds by which the last note may sound past the bar line

/** Return the first bar line at or after the end of some music; free music has none, so that is its end itself. @param {number} time @param {string} music @param {Beats} beats */
export function barLineAfter(time, music, beats) {
  if (music === "free" || !time) return time;
  const { begin, end } = beats.bar(Math.max(0, time - OVERLAP));
  return time - OVERLAP <= begin + 1e-3 ? begin : end;
}

/**
 * Return the stretch that a take composes: the selected one, or the requested bars or seconds after it.
 * @param {Take} take @param {Beats} beats @param {string} music  of the piece @returns {Stretch}
 */
export function takeStretch(take, beats, music) {
  const { begin, end, task, request } = take;
  if (task !== "continue" && task !== "new") return { begin, end };
  if (!request.bars) return { begin: end, end: end + (request.seconds ?? 8) };
  const start = barLineAfter(end, music, beats);
  let stop = start;
  for (let bar = 0; bar < request.bars; bar++) stop = beats.bar(stop + 1e-3).end;
  return { begin: start, end: stop };
}

/** Return the state of a take in a few words. @param {Take} take */
function stateWords(take) {
  if (take.aside && take.state === "done") return "set aside";
  if (take.state === "waiting") return take.place > 1 ? `waiting, ${take.place - 1} before it` : "next in the queue";
  if (take.state === "composing") return `composing, ${Math.round(take.progress * 100)} %${take.at_end ? "; notes appear at the end" : ""}`;
  if (take.state === "failed") return take.error ? sentence(take.error) : "failed";
  return take.state;
}

/** Return the state, seed and model of a take in one line; an error, which is a sentence, comes last. @param {Take} take */
export function stateSummary(take) {
  const facts = [stateWords(take), `seed ${take.seed}`, take.model];
  return (take.error ? [...facts.slice(1), facts[0]] : facts).join(" · ");
}

/** Is a take, or a proposal, waiting or composing? @param {Take | Proposal | undefined} take */
export const isRunning = (take) => take?.state === "waiting" || take?.state === "composing";

/** @extends {Emitter<{change: Take | null, notes: {take: Take, proposal: Proposal, events: any[]}, finished: {take: Take, proposal: Proposal}}>} */
export class Takes extends Emitter {
  /** @type {Map<number, Take>} */
  #takes = new Map();

  /** All takes, newest first. */
  get list() {
    return [...this.#takes.values()].sort((a, b) => b.id - a.id);
  }

  /** @param {number | null | undefined} id */
  get(id) {
    return this.#takes.get(id ?? -1);
  }

  /** @param {number | null} id @param {number} number */
  proposal(id, number) {
    return this.get(id)?.proposals.find((proposal) => proposal.number === number);
  }

  /** Replace all takes by those of the server's JSON. @param {any[]} list */
  reset(list) {
    this.#takes = new Map(list.map((take) => [take.id, takeFromWire(take, this.#takes.get(take.id))]));
    this.emit("change", null);
  }

  /** Replace one take by its newer JSON, and return it. */
  update(json) {
    const take = takeFromWire(json, this.#takes.get(json.id));
    this.#takes.set(take.id, take);
    this.emit("change", take);
    return take;
  }

  /** Add the events of notes that have just been composed. */
  addEvents({ take: id, proposal: number, events }) {
    const proposal = this.proposal(id, number);
    if (!proposal) return;
    applyNoteEvents(proposal.notes, events);
    proposal.version = (proposal.version ?? 0) + 1;
    this.emit("notes", { take: this.get(id), proposal, events });
  }

  /** Replace a proposal that was being composed by the finished one. */
  finish({ take: id, proposal: json }) {
    const take = this.#takes.get(id);
    if (!take) return;
    const proposal = proposalFromWire(json);
    take.proposals = take.proposals.map((each) => (each.number === proposal.number ? proposal : each));
    this.emit("finished", { take, proposal });
    this.emit("change", take);
  }
}

/** Is a proposal a favourite? @param {Piece} piece @param {number} take @param {number} proposal */
export const isFavourite = (piece, take, proposal) => (piece.favourites ?? []).some(([takeId, number]) => takeId === take && number === proposal);

/** Mark a proposal as a favourite, or remove the mark. @param {Piece} piece @param {number} take @param {number} proposal @returns {Operation} */
export function toggleFavourite(piece, take, proposal) {
  const favourites = piece.favourites ?? [];
  if (!isFavourite(piece, take, proposal)) return { label: `proposal ${proposal} a favourite`, favourites: [...favourites, [take, proposal]] };
  return { label: `proposal ${proposal} no longer a favourite`, favourites: favourites.filter(([takeId, number]) => takeId !== take || number !== proposal) };
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
  const barIndex = (time) => Math.max(0, bars.findLastIndex((bar) => bar.begin <= time + 0.05));
  const removed = proposals.map((proposal) => exchangedNotes(piece, take, proposal).removed);
  const remove = [...piece.notes.values()].filter((note) => removed[choice[barIndex(note.start)]].has(note.id)).map((note) => note.id);
  const tracks = [...piece.tracks];
  /** @type {Note[]} */
  const add = [];
  proposals.forEach((proposal, index) => {
    const notes = proposal.notes.filter((note) => choice[barIndex(note.start)] === index);
    const trackIds = new Map(piece.tracks.map(({ id }) => [id, id])); // track of the proposal -> track of the piece
    for (const track of proposal.tracks) if (notes.some((note) => note.track === track.id)) trackIds.set(track.id, newTrack(tracks, piece.tracks.length, track));
    for (const { start, end, pitch, velocity, track: source } of notes) {
      const track = trackIds.get(source);
      if (track === undefined) continue;
      // A note ends where the other proposal's bars begin.
      const cut = bars.find((bar, i) => i > barIndex(start) && choice[i] !== index)?.begin ?? Infinity;
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
