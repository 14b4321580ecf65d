/** The server-sent events of a session; it reconnects by itself. */

import { get, session } from "../core/api.js";
import { Emitter } from "../core/emitter.js";

const KINDS = /** @type {const} */ (["takes", "take", "note", "proposal", "document", "deleted"]);
const RETRY_DELAY = 1500; // milliseconds
const HIDDEN_CHECK = 5000; // milliseconds between checks whether the page is hidden

/**
 * Emits the server's events. "state" tells whether there is a connection, "resumed" that the page may have missed
 * events while it was hidden.
 * @extends {Emitter<{state: boolean, resumed: null, takes: any, take: any, note: any, proposal: any, document: any, deleted: any}>}
 */
export class Stream extends Emitter {
  /** @type {EventSource | null} */
  #source = null;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #retry;
  /** @type {string | null} */
  #id = null;

  /** Connect to a session. @param {string} id */
  open(id) {
    this.close();
    this.#id = id;
    const source = new EventSource(`/api/${session(id)}/events`);
    this.#source = source;
    for (const kind of KINDS) {
      source.addEventListener(kind, (event) => this.emit(kind, JSON.parse(/** @type {MessageEvent} */ (event).data)));
    }
    source.addEventListener("open", () => this.emit("state", true));
    source.addEventListener("error", () => {
      this.emit("state", false);
      // The browser reconnects by itself, except after an HTTP error.
      if (source.readyState === EventSource.CLOSED) this.#retry = setTimeout(() => this.#reopen(id), RETRY_DELAY);
    });
  }

  close() {
    clearTimeout(this.#retry);
    this.#source?.close();
    this.#source = this.#id = null;
  }

  /** Disconnect while the page is hidden and `isIdle()`: all pages of a browser share six connections to a host. @param {() => boolean} isIdle */
  disconnectWhenHidden(isIdle) {
    setInterval(() => {
      if (!document.hidden || !isIdle()) return;
      this.#source?.close();
      this.#source = null;
    }, HIDDEN_CHECK);
    document.addEventListener("visibilitychange", () => {
      if (document.hidden || this.#source || this.#id === null) return;
      this.open(this.#id);
      this.emit("resumed", null);
    });
  }

  /** Reconnect if the session still exists. @param {string} id */
  async #reopen(id) {
    const isDeleted = await get(session(id)).then(() => false, (error) => error.status === 404);
    if (this.#id !== id) return; // the user has left the piece
    if (isDeleted) this.emit("deleted", {});
    else this.open(id);
  }
}
