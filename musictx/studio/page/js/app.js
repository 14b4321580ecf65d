/**
 * What the parts of the page share: the piece, the takes, what is selected, and how it is looked at.
 *
 * Every part gets the one App, reads from it, and listens to it; no part knows another.
 */

import { Emitter } from "./core/emitter.js";
import { get, ServerError } from "./core/api.js";
import { Beats } from "./document/beats.js";
import { STRAIGHT } from "./document/edits.js";
import { audible } from "./document/mixer.js";
import { Mirror } from "./document/mirror.js";
import { Stream } from "./document/stream.js";
import { takeStretch, Takes } from "./document/takes.js";
import { Selection } from "./selection.js";
import { loadSetting } from "./core/storage.js";

/**
 * piece: another state of the document. opened: another document (or none). selection: notes, bars
 * or tracks. takes: news of a take (null: of all). shown: another proposal is shown in the roll.
 * settings: tool, grid, theme. mix: a track sounds otherwise. cursor: the roll's cursor has moved. chords: the notes
 * imply other ones.
 * play: the player began, ended, or jumped. say: something for screen readers.
 * ask: the panel is to be set as a take was asked. message: a sentence for everybody. connection: is the server there?
 * @extends {Emitter<{ask: Take, models: Model[], piece: Piece, opened: Piece | null, selection: Selection, takes: Take | null, shown: {take: Take, proposal: Proposal} | null, settings: App["settings"], mix: null, cursor: null, chords: null, play: Player, say: string, message: {text: string, kind: "error" | "done", back?: () => void}, connection: boolean}>}
 */
export class App extends Emitter {
  mirror = new Mirror();
  takes = new Takes();
  stream = new Stream();
  selection = new Selection();
  /** @type {Model[]} */
  models = [];
  beats = new Beats([]);
  /** Set by js/sound/ before anything can be clicked. @type {Player} */
  player = null;
  /** Set by js/roll/: the part of the piece that is seen. @type {Roll} */
  roll = null;
  settings = { tool: "select", division: 4, scale: true, quantise: { ...STRAIGHT, ...loadSetting("quantise", {}) } };
  /** The take and the proposal that are shown as ghost notes. */
  shown = { take: /** @type {number | null} */ (null), proposal: 1 };
  /** The cursor of the roll, for the keys. */
  cursor = { time: 0, pitch: 60 };
  /** Seconds of the note that was drawn or stretched last; 0: none since the grid was chosen. */
  lastLength = 0;
  /** How a track sounds while a slider of the mixer moves. @type {{id: number, change: object} | null} */
  mixing = null;
  online = true;
  /** What keys and buttons of other parts can ask for; each part fills in what it does. */
  actions = { compose() {}, listen() {}, accept() {}, other() {}, setAside() {}, record() {}, notation() {}, print() {}, help() {} };

  constructor() {
    super();
    this.mirror.on("change", (piece) => {
      this.beats = new Beats(piece.beats);
      this.selection.prune(piece);
      this.emit("piece", piece);
      this.emit("mix", null);
    });
    this.mirror.on("refused", (error) => this.fail(error));
    this.mirror.on("state", (state) => state !== "saving" && this.#connected(state === "saved"));
    this.selection.on("change", () => this.emit("selection", this.selection));
    this.stream.on("takes", (list) => this.takes.reset(list));
    this.stream.on("take", (take) => this.takes.update(take));
    this.stream.on("note", (news) => this.takes.composed(news));
    this.stream.on("proposal", (news) => this.takes.finish(news));
    this.stream.on("document", ({ revision }) => this.mirror.published(revision));
    this.stream.on("deleted", () => {
      const name = this.piece?.name;
      this.close();
      this.emit("message", { text: `${name} was deleted by another page. It is in the folder "deleted" with the other pieces.`, kind: "error" });
    });
    this.stream.on("resumed", () => this.mirror.lookAgain());
    this.stream.on("state", (online) => {
      if (online && !this.online) this.mirror.lookAgain();
      this.#connected(online);
    });
    this.takes.on("change", (take) => this.emit("takes", take));
  }

  /** @returns {Piece | null} */
  get piece() {
    return this.mirror.piece;
  }

  /** Where the piece ends: its last note, or the last chord or section above it. */
  get end() {
    return Math.max(0, this.piece?.duration ?? 0, ...(this.piece?.markers ?? []).map(([time]) => time));
  }

  /** Shows a document of the server's. */
  open(document) {
    this.selection.clear();
    this.shown = { take: null, proposal: 1 };
    this.takes.reset(document.takes ?? []);
    this.mirror.show(document);
    this.stream.open(document.id);
    this.emit("opened", this.piece);
    this.emit("mix", null);
    this.emit("shown", null);
    if (document.remark) this.emit("message", { text: document.remark, kind: "error" });
  }

  close() {
    this.stream.close();
    this.mirror.close();
    this.takes.clear();
    this.emit("opened", null);
  }

  /** Does an edit of js/document/edits.js; null (nothing to do) is fine. */
  change(operation) {
    return operation ? this.mirror.change(operation) : Promise.resolve(false);
  }

  /** @param {Partial<App["settings"]>} some */
  set(some) {
    Object.assign(this.settings, some);
    this.emit("settings", this.settings);
  }

  /** The take and the proposal that the roll shows, if any. */
  get proposal() {
    const take = this.takes.get(this.shown.take);
    const proposal = take?.proposals.find((each) => each.number === this.shown.proposal);
    return take && proposal ? { take, proposal } : null;
  }

  /** Shows a proposal as ghost notes. @param {number | null} take @param {number} [proposal] */
  show(take, proposal = 1) {
    this.shown = { take, proposal };
    this.emit("shown", this.proposal);
  }

  /** Are a proposal's notes in the piece? @param {Take} take @param {Proposal} proposal */
  accepted(take, proposal) {
    return `${take.id}/${proposal.number}` in (this.piece?.brought ?? {});
  }

  /** The proposal that is shown and not yet in the piece. */
  get ghost() {
    const shown = this.proposal;
    return shown && !this.accepted(shown.take, shown.proposal) ? shown : null;
  }

  /** Where the music of a take stands. @param {Take} take */
  stretchOf(take) {
    return takeStretch(take, this.beats, this.piece?.music ?? "free");
  }

  /** The track that new notes go to: the first that is selected, else the first of the piece. */
  get inputTrack() {
    const tracks = this.piece?.tracks ?? [];
    return tracks.find((track) => this.selection.tracks.has(track.id)) ?? tracks[0];
  }

  /** Does a track sound: is it not mute, nor another one solo? */
  audible(track) {
    return audible(this.piece?.tracks ?? [], track);
  }

  /** The tracks as they sound now. @returns {Track[]} */
  get mixed() {
    const tracks = this.piece?.tracks ?? [];
    return this.mixing ? tracks.map((track) => (track.id === this.mixing?.id ? { ...track, ...this.mixing.change } : track)) : tracks;
  }

  /** Moves the cursor of the roll. */
  point(time, pitch = this.cursor.pitch) {
    this.cursor = { time: Math.max(0, time), pitch: Math.min(127, Math.max(0, pitch)) };
    this.emit("cursor", null);
  }

  /** Says something to screen readers. */
  say(text) {
    this.emit("say", text);
  }

  /** Shows what went wrong, in the page. @param {unknown} error */
  fail(error) {
    if (error instanceof ServerError && error.lost) return this.#connected(false);
    const text = error instanceof ServerError ? error.message : `Something in the page failed: ${error}`;
    if (!(error instanceof ServerError)) console.error(error);
    this.emit("message", { text, kind: "error" });
  }

  /** The answer to a request, undefined with a sentence where there is none. @template Answer @param {Promise<Answer>} request */
  async reach(request) {
    try {
      const answer = await request;
      this.#connected(true);
      return answer;
    } catch (error) {
      this.fail(error);
    }
  }

  /** Asks what there is to compose with, until there is an answer. */
  async loadModels() {
    const models = await this.reach(get("models"));
    if (!models) return void setTimeout(() => this.loadModels(), 2000);
    this.models = models;
    this.emit("models", models);
  }

  /** Says what was done, with a button that takes it `back`. @param {string} text @param {() => void} [back] */
  done(text, back) {
    this.emit("message", { text, kind: "done", back });
  }

  #connected(online) {
    if (online === this.online) return;
    this.online = online;
    this.emit("connection", online);
  }
}
