/** Events of a session, from a connection that heals itself. */

import { session } from "../core/api.js";
import { Emitter } from "../core/emitter.js";

const KINDS = ["takes", "take", "note", "proposal", "document"];
const PATIENCE = 1500; // milliseconds before a closed connection is opened again

/**
 * The kinds of event are those of the server; "state" says whether it is connected.
 * @extends {Emitter<{state: boolean, takes: any, take: any, note: any, proposal: any, document: any}>}
 */
export class Stream extends Emitter {
  /** @type {EventSource | null} */
  #source = null;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #again;

  /** Listens to a session from now on. @param {string} id */
  open(id) {
    this.close();
    const source = new EventSource(`/api/${session(id)}/events`);
    this.#source = source;
    for (const kind of KINDS) {
      source.addEventListener(kind, (event) => {
        const data = JSON.parse(/** @type {MessageEvent} */ (event).data);
        this.emit(/** @type {any} */ (kind), data);
      });
    }
    source.addEventListener("open", () => this.emit("state", true));
    source.addEventListener("error", () => {
      this.emit("state", false);
      // The browser tries again by itself, except after an answer that was no stream.
      if (source.readyState === EventSource.CLOSED) this.#again = setTimeout(() => this.open(id), PATIENCE);
    });
  }

  close() {
    clearTimeout(this.#again);
    this.#source?.close();
    this.#source = null;
  }
}
