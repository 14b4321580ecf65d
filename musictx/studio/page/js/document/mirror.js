/**
 * The page's copy of the server's document.
 *
 * Operations of the user are shown at once and sent in order, one request at a time. The piece shown is the document that
 * the server confirmed last, with all unconfirmed operations applied. If another page has changed the document (status
 * 409), it is fetched again, the unconfirmed operations are dropped and the user gets a message.
 */

import { get, post, session, ServerError } from "../core/api.js";
import { Emitter } from "../core/emitter.js";
import { apply, fromWire, renumber, toWire } from "./operation.js";

/**
 * @typedef {object} Job
 * @property {Operation} [operation]  applied at once
 * @property {"can_undo" | "can_redo"} [needs]  skip the job if this is false when its turn comes
 * @property {(revision: number) => Promise<any>} send  a request to the server
 * @property {(confirmed: boolean) => void} settle
 */

const RETRY_DELAY = 1000; // milliseconds, while the server does not answer

/** @extends {Emitter<{change: Piece, state: "saved" | "saving" | "lost", refused: ServerError}>} */
export class Mirror extends Emitter {
  /** @type {Piece | null} */
  #confirmed = null;
  /** @type {Piece | null} */
  #shown = null;
  /** @type {Job[]} */
  #jobs = [];
  #running = false;
  /** Resolves when no request is running. */
  #idle = Promise.resolve();
  #announced = 0; // revision that the server announced; Infinity: an announcement may have been missed

  /** Tests replace the requests and the delay. */
  constructor(requests = { get, post }, retryDelay = RETRY_DELAY) {
    super();
    this.requests = requests;
    this.retryDelay = retryDelay;
  }

  /** The piece to show; null if none is open. */
  get piece() {
    return this.#shown;
  }

  /** Show a document that the server sent. */
  show(document) {
    this.#dropJobs();
    this.#announced = 0;
    this.#confirm(fromWire(document));
  }

  /** Show no piece. */
  close() {
    this.#dropJobs();
    this.#confirmed = this.#shown = null;
  }

  /** Are there unconfirmed operations? */
  get pending() {
    return this.#jobs.length > 0;
  }

  #dropJobs() {
    for (const job of this.#jobs.splice(0)) job.settle(false);
  }

  /** Apply an operation; resolves to true once the server has confirmed it. @param {Operation} operation */
  change(operation) {
    const piece = this.#shown;
    if (!piece) return Promise.resolve(false);
    this.#shown = apply(piece, operation);
    this.emit("change", this.#shown);
    const job = { operation, send: (revision) => this.#post("ops", toWire(job.operation, revision)) }; // which may be renumbered
    return this.#add(job);
  }

  undo() {
    return this.#add({ needs: "can_undo", send: (revision) => this.#post("undo", { revision }) });
  }

  redo() {
    return this.#add({ needs: "can_redo", send: (revision) => this.#post("redo", { revision }) });
  }

  /** Accept a proposal into the piece. */
  accept(take, proposal) {
    return this.#add({ send: (revision) => this.#post(`takes/${take}/accept`, { proposal, revision }) });
  }

  /** Change the timing from its time on. @param {Timing} timing @param {boolean} keepBeats  else notes keep their seconds */
  changeTiming(timing, keepBeats) {
    return this.#add({ send: (revision) => this.#post("timing", { ...timing, keep_beats: keepBeats, revision }) });
  }

  /** The server announced a revision; if it is newer, another page made it, and the document is fetched. @param {number} revision */
  serverChanged(revision) {
    this.#announced = Math.max(this.#announced, revision);
    this.#refetchIfStale();
  }

  /** Fetch the document again, because announcements may have been missed. */
  refetch() {
    this.serverChanged(Infinity);
  }

  /** Wait until everything is sent; resolves to the confirmed revision. */
  async settled() {
    while (this.#running) await this.#idle;
    return this.#confirmed?.revision;
  }

  #post(path, body) {
    return this.requests.post(`${session(this.#confirmed.id)}/${path}`, body);
  }

  #add(job) {
    return new Promise((settle) => {
      this.#jobs.push(Object.assign(job, { settle }));
      if (!this.#running) this.#idle = this.#run();
    });
  }

  async #run() {
    this.#running = true;
    this.emit("state", "saving");
    while (this.#jobs.length && this.#confirmed) {
      const job = this.#jobs[0];
      if (job.needs && !this.#confirmed[job.needs]) {
        this.#jobs.shift();
        job.settle(false);
        continue;
      }
      try {
        const response = await job.send(this.#confirmed.revision);
        if (this.#jobs[0] !== job) continue; // the user has opened another piece
        this.#jobs.shift();
        // An operation is answered by the fields that the server computes, all else by the document.
        this.#confirm(response.notes ? fromWire(response) : { ...apply(this.#confirmed, job.operation), ...response });
        job.settle(true);
      } catch (error) {
        if (!(error instanceof ServerError)) throw error;
        if (this.#jobs[0] !== job) continue;
        if (error.lost) {
          this.emit("state", "lost");
          await new Promise((resolve) => setTimeout(resolve, this.retryDelay));
        } else await this.#refused(job, error);
      }
    }
    this.#running = false;
    this.emit("state", "saved");
    this.#refetchIfStale();
  }

  async #refused(job, error) {
    const stale = error.status === 409;
    const dropped = stale ? this.#jobs.splice(0) : [this.#jobs.shift()];
    for (const each of dropped) each.settle(false);
    this.emit("refused", error);
    if (stale) await this.#reload();
    else this.#confirm(this.#confirmed);
  }

  async #refetchIfStale() {
    if (!this.#running && this.#confirmed && this.#announced > this.#confirmed.revision) await this.#reload();
  }

  async #reload() {
    const { id } = this.#confirmed;
    this.#announced = 0;
    try {
      const document = await this.requests.get(session(id));
      if (this.#confirmed?.id === id) this.#confirm(fromWire(document));
    } catch (error) {
      this.emit(error.lost ? "state" : "refused", error.lost ? "lost" : error);
    }
  }

  /** Set the confirmed piece, and apply the unconfirmed operations to it. @param {Piece} piece */
  #confirm(piece) {
    this.#confirmed = piece;
    this.#shown = piece;
    const newIds = new Map();
    for (const job of this.#jobs) {
      if (!job.operation) continue;
      job.operation = renumber(job.operation, this.#shown.next_id, newIds);
      this.#shown = apply(this.#shown, job.operation);
    }
    this.emit("change", this.#shown);
  }
}
