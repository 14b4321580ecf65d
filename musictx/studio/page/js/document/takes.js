/** The takes of a session: what was asked, what is composed right now, what came of it. */

import { Emitter } from "../core/emitter.js";
import { noteFromWire } from "./operation.js";
import { sentence } from "./words.js";

/** A proposal of the server's, its notes as ghosts: those that are written, or those so far. @returns {Proposal} */
export function proposalFromWire({ notes = [], events = [], ...proposal }) {
  const ghosts = notes.map(([start, end, pitch, velocity, track]) => ({ start, end, pitch, velocity, track }));
  applyEvents(ghosts, events);
  return { ...proposal, notes: ghosts };
}

/**
 * A take with news from the server. News that come without notes leave those that are there.
 * @param {Take | undefined} old @returns {Take}
 */
export function takeFromWire(take, old) {
  const proposals = take.proposals.map((news) => {
    const before = old?.proposals.find((each) => each.number === news.number);
    return news.notes || !before ? proposalFromWire(news) : { ...before, ...news };
  });
  return { ...take, proposals };
}

/**
 * Notes with events as they are composed: "on" begins one, "off" ends the earliest open one of
 * that pitch and track. The list given is changed, as it grows many times a second.
 * @param {Ghost[]} notes
 */
export function applyEvents(notes, events) {
  for (const [kind, seconds, pitch, ...rest] of events) {
    if (kind === "on") {
      const [velocity, track] = rest;
      notes.push({ start: seconds, end: null, pitch, velocity, track });
    } else {
      const [track] = rest;
      const open = notes.find((note) => note.end === null && note.pitch === pitch && note.track === track);
      if (open) open.end = Math.max(seconds, open.start);
    }
  }
}

/**
 * What else a proposal changes in the piece, as the server accepts it: the ids of the notes that leave it, and
 * the notes that come back. Those that it replaces and those of another proposal of its take leave, but for
 * locked ones; what that one replaced comes back, where neither it nor another take replaces it.
 * @param {Piece} piece @param {Take} take @param {Proposal} proposal @returns {{removed: Set<number>, restored: Note[]}}
 */
export function exchangedNotes(piece, take, proposal) {
  const removed = new Set(proposal.removes);
  const away = new Set(proposal.removes);
  const replaced = [];
  for (const [name, [first, count, notes]] of Object.entries(piece.brought)) {
    if (name.startsWith(`${take.id}/`)) {
      for (let i = 0; i < count; i++) removed.add(first + i);
      replaced.push(...notes);
    } else for (const [id] of notes) away.add(id);
  }
  for (const id of piece.locked) removed.delete(id);
  const done = proposal.state === "done"; // what it replaces, the server says at its end
  return { removed, restored: done ? replaced.filter(([id]) => !away.has(id)).map(noteFromWire) : [] };
}

/** Until where a proposal has got: seconds. @param {Proposal} proposal @param {number} begin */
export function frontier(proposal, begin) {
  let last = begin;
  for (const note of proposal.notes) last = Math.max(last, note.start, note.end ?? 0);
  return last;
}

const LAPS = 0.06; // seconds by which the last note may reach over the line

/** Where bars begin that are composed after a moment: at the next bar line, where music has any. @param {number} at @param {string} music @param {Beats} beats */
export function barLineAfter(at, music, beats) {
  if (music === "free" || !at) return at;
  const { begin, end } = beats.bar(Math.max(0, at - LAPS));
  return at - LAPS <= begin + 1e-3 ? begin : end;
}

/**
 * Where the music of a take stands: what was selected, or so many bars (or seconds) after it.
 * @param {Take} take @param {Beats} beats @param {string} music  of the piece @returns {{begin: number, end: number}}
 */
export function takeStretch(take, beats, music) {
  const { begin, end, task, request } = take;
  if (task !== "continue" && task !== "new") return { begin, end };
  if (!request.bars) return { begin: end, end: end + (request.seconds ?? 8) };
  const first = barLineAfter(end, music, beats);
  let line = first;
  for (let bar = 0; bar < request.bars; bar++) line = beats.bar(line + 1e-3).end;
  return { begin: first, end: line };
}

/** What a take says of itself in a few words. @param {Take} take */
export function stateWords(take) {
  if (take.aside && take.state === "done") return "set aside";
  if (take.state === "waiting") return take.place > 1 ? `waiting, ${take.place - 1} before it` : "next in the queue";
  if (take.state === "composing") return `composing, ${Math.round(take.progress * 100)} %${take.at_end ? "; notes appear at the end" : ""}`;
  if (take.state === "failed") return take.error ? sentence(take.error) : "failed";
  return take.state;
}

/** How a take stands and how it was asked, in a line; a sentence is the last. @param {Take} take */
export function stateLine(take) {
  const facts = [stateWords(take), `seed ${take.seed}`, take.model];
  return (take.error ? [...facts.slice(1), facts[0]] : facts).join(" · ");
}

/** @param {Take | undefined} take */
export const isRunning = (take) => take?.state === "waiting" || take?.state === "composing";

/** @extends {Emitter<{change: Take | null, notes: {take: Take, proposal: Proposal, events: any[]}, finished: {take: Take, proposal: Proposal}}>} */
export class Takes extends Emitter {
  /** @type {Map<number, Take>} */
  #takes = new Map();

  /** Newest first. */
  get list() {
    return [...this.#takes.values()].sort((a, b) => b.id - a.id);
  }

  /** @param {number | null | undefined} id */
  get(id) {
    return this.#takes.get(id ?? -1);
  }

  /** The whole list, when a session is opened and after each new connection. */
  reset(list) {
    const old = this.#takes;
    this.#takes = new Map(list.map((take) => [take.id, takeFromWire(take, old.get(take.id))]));
    this.emit("change", null);
  }

  clear() {
    this.#takes = new Map();
    this.emit("change", null);
  }

  /** News of one take. */
  update(news) {
    const take = takeFromWire(news, this.#takes.get(news.id));
    this.#takes.set(take.id, take);
    this.emit("change", take);
    return take;
  }

  /** Notes while they are composed. */
  composed({ take: id, proposal: number, events }) {
    const take = this.#takes.get(id);
    if (!take) return;
    const proposal = take.proposals.find((each) => each.number === number);
    applyEvents(proposal.notes, events);
    proposal.version = (proposal.version ?? 0) + 1;
    this.emit("notes", { take, proposal, events });
  }

  /** A proposal is finished: its notes as they were written count, not those that were streamed. */
  finish({ take: id, proposal: news }) {
    const take = this.#takes.get(id);
    if (!take) return;
    const proposal = proposalFromWire(news);
    take.proposals = take.proposals.map((each) => (each.number === proposal.number ? proposal : each));
    this.emit("finished", { take, proposal });
    this.emit("change", take);
  }
}
