/**
 * The state that all parts of the page share: the piece, the takes, the selection and the settings.
 *
 * Every part gets the App, reads its state and listens to its events. Parts do not import each other's state.
 */

import { Emitter } from "./core/emitter.js";
import { get, ServerError } from "./core/api.js";
import { clamp } from "./core/numbers.js";
import { Beats } from "./document/beats.js";
import { STRAIGHT } from "./document/edits.js";
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
 * moved; `chords`, the implied chords changed; `play`, the player started, stopped or jumped; `say`, a text for screen
 * readers; `ask`, the panel takes over the settings of a take; `message`, a text for the user; `connection`, the server
 * was lost or found again.
 * @extends {Emitter<{ask: Take, models: Model[], piece: Piece, opened: Piece | null, selection: Selection, takes: Take | null, shown: {take: Take, proposal: Proposal} | null, settings: App["settings"], mix: null, cursor: null, chords: null, play: Player, say: string, message: {text: string, kind: "error" | "done", back?: () => void}, connection: boolean}>}
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
  settings = { tool: "select", division: 4, scale: true, quantise: { ...STRAIGHT, ...loadSetting("quantise", {}) } };
  /** The take and the proposal that the roll shows as ghost notes. */
  shown = { take: /** @type {number | null} */ (null), proposal: 1 };
  /** The roll's keyboard cursor. */
  cursor = { time: 0, pitch: 60 };
  /** Length in seconds of the note drawn or resized last; 0 after the grid was changed. */
  lastLength = 0;
  /** The track whose mixer slider is being dragged, and its values meanwhile. @type {{id: number, change: object} | null} */
  mixing = null;
  online = true;
  /** Callbacks for keys and buttons; the part that does an action replaces its placeholder. */
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
      this.warn(`${name} was deleted by another page. It is in the folder "deleted" with the other pieces.`);
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

  /** The end of the piece in seconds: of its last note, or its last chord or section. */
  get end() {
    return Math.max(0, this.piece?.duration ?? 0, ...(this.piece?.markers ?? []).map(([time]) => time));
  }

  /** Show a document that the server sent. */
  open(document) {
    this.selection.clear();
    this.shown = { take: null, proposal: 1 };
    this.takes.reset(document.takes ?? []);
    this.mirror.show(document);
    this.stream.open(document.id);
    this.emit("opened", this.piece);
    this.emit("mix", null);
    this.emit("shown", null);
    if (document.remark) this.warn(document.remark);
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
  set(changes) {
    Object.assign(this.settings, changes);
    this.emit("settings", this.settings);
  }

  /** The take and the proposal that the roll shows, if any. */
  get proposal() {
    const take = this.takes.get(this.shown.take);
    const proposal = this.takes.proposal(this.shown.take, this.shown.proposal);
    return proposal ? { take, proposal } : null;
  }

  /** Show a proposal as ghost notes. @param {number | null} take @param {number} [proposal] */
  show(take, proposal = 1) {
    this.shown = { take, proposal };
    this.emit("shown", this.proposal);
  }

  /** Does the piece contain a proposal? @param {Take} take @param {number} number */
  accepted(take, number) {
    return `${take.id}/${number}` in (this.piece?.brought ?? {});
  }

  /** Return which notes of the piece a proposal removes and restores: none if the piece contains it already. @param {Take} [take] @param {Proposal} [proposal] */
  exchange(take, proposal) {
    if (!proposal || this.accepted(take, proposal.number)) return { removed: new Set(), restored: [] };
    return exchangedNotes(this.piece, take, proposal);
  }

  /** The proposal that is shown, unless the piece contains it already. */
  get ghost() {
    const shown = this.proposal;
    return shown && !this.accepted(shown.take, shown.proposal.number) ? shown : null;
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

  /** The tracks, with the values of a mixer slider that is being dragged. @returns {Track[]} */
  get mixed() {
    const tracks = this.piece?.tracks ?? [];
    return this.mixing ? tracks.map((track) => (track.id === this.mixing?.id ? { ...track, ...this.mixing.change } : track)) : tracks;
  }

  /** Move the roll's cursor. */
  point(time, pitch = this.cursor.pitch) {
    this.cursor = { time: Math.max(0, time), pitch: clamp(pitch, 0, 127) };
    this.emit("cursor", null);
  }

  /** Announce a text to screen readers. */
  say(text) {
    this.emit("say", text);
  }

  /** Show a text as an error. @param {string} text */
  warn(text) {
    this.emit("message", { text, kind: "error" });
  }

  /** Show an error to the user. @param {unknown} error */
  fail(error) {
    if (error instanceof ServerError && error.lost) return this.#connected(false);
    const text = error instanceof ServerError ? error.message : `Something in the page failed: ${error}`;
    if (!(error instanceof ServerError)) console.error(error);
    this.warn(text);
  }

  /** Return the answer to a request, or undefined after showing its error. @template Answer @param {Promise<Answer>} request */
  async reach(request) {
    try {
      const answer = await request;
      this.#connected(true);
      return answer;
    } catch (error) {
      this.fail(error);
    }
  }

  /** Fetch the models, and the options of takes; try again every two seconds. */
  async loadModels() {
    const answers = await this.reach(Promise.all([get("models"), get("options")]));
    if (!answers) return void setTimeout(() => this.loadModels(), 2000);
    [this.models, this.options] = answers;
    setDynamics(this.options.loudness.words);
    this.emit("models", this.models);
  }

  /** Show a message that something was done, with a button "Undo" that calls `back`. @param {string} text @param {() => void} [back] */
  done(text, back) {
    this.emit("message", { text, kind: "done", back });
  }

  #connected(online) {
    if (online === this.online) return;
    this.online = online;
    this.emit("connection", online);
  }
}
