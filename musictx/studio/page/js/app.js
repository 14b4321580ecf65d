/**
 * The state that all parts of the page share: the piece, the takes, the selection and the settings.
 *
 * Every part gets the App, reads its state and listens to its events.
 */

import { Emitter } from "./core/emitter.js";
import { get, ServerError } from "./core/api.js";
import { clamp } from "./core/numbers.js";
import { Beats } from "./document/beats.js";
import { DEFAULT_QUANTISE } from "./document/edits.js";
import { Mirror } from "./document/mirror.js";
import { Stream } from "./document/stream.js";
import { exchangedNotes, takeStretch, Takes } from "./document/takes.js";
import { setDynamics } from "./document/words.js";
import { Selection } from "./selection.js";
import { loadSetting } from "./core/storage.js";

/**
 * Events: `piece`, the document changed; `opened`, another document was opened, or closed (null); `selection`, of
 * notes, bars or tracks; `takes`, a take changed (null: all did); `shown`, the roll shows another proposal; `settings`, the
 * tool, grid or theme changed; `mix`, the volume, pan, reverb, mute or solo of a track changed; `cursor`, the roll's cursor
 * moved; `chords`, the implied chords changed; `play`, the player started, stopped or jumped; `announce`, a text for screen
 * readers; `restore`, the panel loads the settings of a take; `message`, a text for the user; `connection`, the connection
 * to the server was lost or restored; `models`, their list was fetched.
 * @extends {Emitter<{restore: Take, models: Model[], piece: Piece, opened: Piece | null, selection: Selection, takes: Take | null, shown: {take: Take, proposal: Proposal} | null, settings: App["settings"], mix: null, cursor: null, chords: null, play: Player, announce: string, message: {text: string, kind: "error" | "done", undo?: () => void}, connection: boolean}>}
 */
export class App extends Emitter {
  mirror = new Mirror();
  takes = new Takes();
  stream = new Stream();
  selection = new Selection();
  /** @type {Model[]} */
  models = [];
  /** The options of takes, by name. @type {Record<string, Option>} */
  options = {};
  beats = new Beats([]);
  /** Set by main.js before the user can click. @type {Player} */
  player = null;
  /** Set by main.js. @type {Roll} */
  roll = null;
  settings = { tool: "select", division: 4, scale: true, quantise: { ...DEFAULT_QUANTISE, ...loadSetting("quantise", {}) } };
  /** The take and the proposal that the roll shows as ghost notes. */
  shown = { take: /** @type {number | null} */ (null), proposal: 1 };
  /** The roll's keyboard cursor. */
  cursor = { time: 0, pitch: 60 };
  /** Length in seconds of the note drawn or resized last; 0 after the grid was changed. */
  lastLength = 0;
  /** The mixer slider that is being dragged: its track, and the value. @type {{id: number, change: object} | null} */
  mixing = null;
  online = true;
  /** What shortcuts and buttons run; each part sets its own actions when it is mounted. */
  actions = { compose() {}, listen() {}, accept() {}, switchProposal() {}, setAside() {}, record() {}, notation() {}, print() {}, help() {} };

  constructor() {
    super();
    this.mirror.on("change", (piece) => {
      this.beats = new Beats(piece.beats);
      this.selection.prune(piece);
      this.emit("piece", piece);
      this.emit("mix", null);
    });
    this.mirror.on("refused", (error) => this.reportError(error));
    this.mirror.on("state", (state) => state !== "saving" && this.#connected(state === "saved"));
    this.selection.on("change", () => this.emit("selection", this.selection));
    this.stream.on("takes", (list) => this.takes.reset(list));
    this.stream.on("take", (take) => this.takes.update(take));
    this.stream.on("note", (message) => this.takes.addEvents(message));
    this.stream.on("proposal", (message) => this.takes.finish(message));
    this.stream.on("document", ({ revision }) => this.mirror.serverChanged(revision));
    this.stream.on("deleted", () => {
      const name = this.piece?.name;
      this.close();
      this.showError(`${name} was deleted by another page. It is in the folder "deleted" with the other pieces.`);
    });
    this.stream.on("resumed", () => this.mirror.refetch());
    this.stream.on("state", (online) => {
      if (online && !this.online) this.mirror.refetch();
      this.#connected(online);
    });
    this.takes.on("change", (take) => this.emit("takes", take));
  }

  /** @returns {Piece | null} */
  get piece() {
    return this.mirror.piece;
  }

  /** The end of the piece in seconds: of its last note, or its last chord or section. */
  get end() {
    return Math.max(0, this.piece?.duration ?? 0, ...(this.piece?.markers ?? []).map(([time]) => time));
  }

  /** Open a document that the server sent. */
  open(document) {
    this.selection.clear();
    this.shown = { take: null, proposal: 1 };
    this.takes.reset(document.takes ?? []);
    this.mirror.show(document);
    this.stream.open(document.id);
    this.emit("opened", this.piece);
    this.emit("mix", null);
    this.emit("shown", null);
    if (document.remark) this.showError(document.remark);
  }

  close() {
    this.stream.close();
    this.mirror.close();
    this.takes.reset([]);
    this.emit("opened", null);
  }

  /** Apply an operation, and send it; null does nothing. @param {Operation | null} operation */
  change(operation) {
    return operation ? this.mirror.change(operation) : Promise.resolve(false);
  }

  /** @param {Partial<App["settings"]>} changes */
  changeSettings(changes) {
    Object.assign(this.settings, changes);
    this.emit("settings", this.settings);
  }

  /** The take and the proposal that the roll shows, if any. */
  get shownProposal() {
    const take = this.takes.get(this.shown.take);
    const proposal = this.takes.proposal(this.shown.take, this.shown.proposal);
    return proposal ? { take, proposal } : null;
  }

  /** Show a proposal as ghost notes. @param {number | null} take @param {number} [proposal] */
  show(take, proposal = 1) {
    this.shown = { take, proposal };
    this.emit("shown", this.shownProposal);
  }

  /** Has a proposal been accepted into the piece? @param {Take} take @param {number} number */
  isAccepted(take, number) {
    return `${take.id}/${number}` in (this.piece?.brought ?? {});
  }

  /** Return which notes of the piece a proposal removes and restores: none if it is accepted. @param {Take} [take] @param {Proposal} [proposal] */
  exchangedNotes(take, proposal) {
    if (!proposal || this.isAccepted(take, proposal.number)) return { removed: new Set(), restored: [] };
    return exchangedNotes(this.piece, take, proposal);
  }

  /** The proposal that is shown as ghost notes: none if it is accepted. */
  get ghost() {
    const shown = this.shownProposal;
    return shown && !this.isAccepted(shown.take, shown.proposal.number) ? shown : null;
  }

  /** Return the stretch of time that a take composes. @param {Take} take */
  stretchOf(take) {
    return takeStretch(take, this.beats, this.piece?.music ?? "free");
  }

  /** The track that gets new notes: the first selected track, else the first track. */
  get inputTrack() {
    const tracks = this.piece?.tracks ?? [];
    return tracks.find((track) => this.selection.tracks.has(track.id)) ?? tracks[0];
  }

  /** The tracks, with the value of a mixer slider that is being dragged. @returns {Track[]} */
  get mixedTracks() {
    const { id, change } = this.mixing ?? {};
    return (this.piece?.tracks ?? []).map((track) => (track.id === id ? { ...track, ...change } : track));
  }

  /** Move the roll's cursor. */
  moveCursor(time, pitch = this.cursor.pitch) {
    this.cursor = { time: Math.max(0, time), pitch: clamp(pitch, 0, 127) };
    this.emit("cursor", null);
  }

  /** Announce a text to screen readers. */
  announce(text) {
    this.emit("announce", text);
  }

  /** Show a text as an error. @param {string} text */
  showError(text) {
    this.emit("message", { text, kind: "error" });
  }

  /** Show what was thrown as an error; a lost connection has a message of its own. @param {unknown} error */
  reportError(error) {
    if (error instanceof ServerError) return error.lost ? this.#connected(false) : this.showError(error.message);
    console.error(error);
    this.showError(`Something in the page failed: ${error}`);
  }

  /** Return the response to a request, or undefined after showing its error. @template Response @param {Promise<Response>} request */
  async attempt(request) {
    try {
      const response = await request;
      this.#connected(true);
      return response;
    } catch (error) {
      this.reportError(error);
    }
  }

  /** Fetch the models, and the options of takes; try again every two seconds. */
  async loadModels() {
    const responses = await this.attempt(Promise.all([get("models"), get("options")]));
    if (!responses) return void setTimeout(() => this.loadModels(), 2000);
    [this.models, this.options] = responses;
    setDynamics(this.options.loudness.words);
    this.emit("models", this.models);
  }

  /** Show a message that something was done, with a button "Undo" if `undo` is given. @param {string} text @param {() => void} [undo] */
  notify(text, undo) {
    this.emit("message", { text, kind: "done", undo });
  }

  #connected(online) {
    if (online === this.online) return;
    this.online = online;
    this.emit("connection", online);
  }
}
