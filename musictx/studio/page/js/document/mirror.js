/**
 * The page's copy of the server's document.
 *
 * What the user does is shown at once and sent in order, one request at a time. What is shown is
 * what the server has confirmed and the operations that it has not yet seen. When another page was
 * faster (409), the document is fetched anew and the unseen operations are dropped, with a sentence.
 */

import { get, post, session, ServerError } from "../core/api.js";
import { Emitter } from "../core/emitter.js";
import { apply, fromWire, renumber, toWire } from "./operation.js";

/**
 * @typedef {object} Job
 * @property {Operation} [operation]  shown at once
 * @property {"can_undo" | "can_redo"} [needs]  what must be so when its turn has come, or it does nothing
 * @property {(revision: number) => Promise<any>} send
 * @property {(done: boolean) => void} settle
 */

const PATIENCE = 1000; // milliseconds between tries while the server does not answer

/** @extends {Emitter<{change: Piece, state: "saved" | "saving" | "lost", refused: ServerError}>} */
export class Mirror extends Emitter {
  /** @type {Piece | null} */
  #confirmed = null;
  /** @type {Piece | null} */
  #shown = null;
  /** @type {Job[]} */
  #jobs = [];
  #running = false;
  #newest = 0; // revision that the server has published; Infinity: news may have been missed

  /** Requests can be replaced in a test. */
  constructor(requests = { get, post }, patience = PATIENCE) {
    super();
    this.requests = requests;
    this.patience = patience;
  }

  /** What to show; null before a piece is open. */
  get piece() {
    return this.#shown;
  }

  /** Shows a document that has just come from the server. */
  show(document) {
    this.#leave();
    this.#newest = 0;
    this.#confirm(fromWire(document));
  }

  /** Leaves the piece. */
  close() {
    this.#leave();
    this.#confirmed = this.#shown = null;
  }

  /** Is there something that the server has not confirmed? */
  get pending() {
    return this.#jobs.length > 0;
  }

  #leave() {
    for (const job of this.#jobs.splice(0)) job.settle(false);
  }

  /** Does an operation; true once the server has it. @param {Operation} operation */
  change(operation) {
    const piece = this.#shown;
    if (!piece) return Promise.resolve(false);
    this.#shown = apply(piece, operation);
    this.emit("change", this.#shown);
    const job = { operation, send: (revision) => this.#post("ops", toWire(job.operation, revision)) };
    return this.#add(job);
  }

  undo() {
    return this.#add({ needs: "can_undo", send: (revision) => this.#post("undo", { revision }) });
  }

  redo() {
    return this.#add({ needs: "can_redo", send: (revision) => this.#post("redo", { revision }) });
  }

  /** Takes a proposal into the piece. */
  accept(take, proposal) {
    return this.#add({ send: (revision) => this.#post(`takes/${take}/accept`, { proposal, revision }) });
  }

  /** The server has published a revision: another page may have changed the document. */
  published(revision) {
    this.#newest = Math.max(this.#newest, revision);
    this.#catchUp();
  }

  /** News may have been missed, as after a lost connection: looks at the document again. */
  lookAgain() {
    this.published(Infinity);
  }

  /** Resolves when everything is sent; the confirmed revision. */
  async settled() {
    while (this.#running) await new Promise((resolve) => setTimeout(resolve, 10));
    return this.#confirmed?.revision;
  }

  #post(what, body) {
    return this.requests.post(`${session(this.#confirmed.id)}/${what}`, body);
  }

  #add(job) {
    return new Promise((settle) => {
      this.#jobs.push(Object.assign(job, { settle }));
      this.#run();
    });
  }

  async #run() {
    if (this.#running) return;
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
        const answer = await job.send(this.#confirmed.revision);
        if (this.#jobs[0] !== job) continue; // another piece was opened meanwhile
        this.#jobs.shift();
        this.#answered(job, answer);
        job.settle(true);
      } catch (error) {
        if (!(error instanceof ServerError)) throw error;
        if (this.#jobs[0] !== job) continue;
        if (error.lost) {
          this.emit("state", "lost");
          await new Promise((resolve) => setTimeout(resolve, this.patience));
        } else await this.#refused(job, error);
      }
    }
    this.#running = false;
    this.emit("state", "saved");
    this.#catchUp();
  }

  #answered(job, answer) {
    if (answer.notes) this.#confirm(fromWire(answer));
    else this.#confirm({ ...apply(this.#confirmed, job.operation), ...answer });
  }

  async #refused(job, error) {
    const stale = error.status === 409;
    const dropped = stale ? this.#jobs.splice(0) : [this.#jobs.shift()];
    for (const each of dropped) each.settle(false);
    this.emit("refused", error);
    if (stale) await this.#reload();
    else this.#confirm(this.#confirmed);
  }

  async #catchUp() {
    if (!this.#running && this.#confirmed && this.#newest > this.#confirmed.revision) await this.#reload();
  }

  async #reload() {
    const { id } = this.#confirmed;
    this.#newest = 0;
    try {
      const document = await this.requests.get(session(id));
      if (this.#confirmed?.id === id) this.#confirm(fromWire(document));
    } catch (error) {
      this.emit(error.lost ? "state" : "refused", error.lost ? "lost" : error);
    }
  }

  /** What the server has, and on top of it what it has not seen. @param {Piece} piece */
  #confirm(piece) {
    this.#confirmed = piece;
    this.#shown = piece;
    const names = new Map();
    for (const job of this.#jobs) {
      if (!job.operation) continue;
      job.operation = renumber(job.operation, this.#shown.next_id, names);
      this.#shown = apply(this.#shown, job.operation);
    }
    this.emit("change", this.#shown);
  }
}
