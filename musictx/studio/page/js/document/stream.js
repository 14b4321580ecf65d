/** Events of a session, from a connection that heals itself. */

import { get, session } from "../core/api.js";
import { Emitter } from "../core/emitter.js";

const KINDS = ["takes", "take", "note", "proposal", "document", "deleted"];
const PATIENCE = 1500; // milliseconds before a closed connection is opened again
const HIDDEN = 5000; // milliseconds after which a page that is not seen lets its connection go

/**
 * The kinds of event are those of the server; "state" says whether it is connected, "resumed" that
 * news were missed while the page was hidden.
 * @extends {Emitter<{state: boolean, resumed: null, takes: any, take: any, note: any, proposal: any, document: any, deleted: any}>}
 */
export class Stream extends Emitter {
  /** @type {EventSource | null} */
  #source = null;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #again;
  /** @type {string | null} */
  #id = null;

  /** Listens to a session from now on. @param {string} id */
  open(id) {
    this.close();
    this.#id = id;
    const source = new EventSource(`/api/${session(id)}/events`);
    this.#source = source;
    for (const kind of KINDS) {
      source.addEventListener(kind, (event) => {
        const data = JSON.parse(/** @type {MessageEvent} */ (event).data);
        this.emit(kind, data);
      });
    }
    source.addEventListener("open", () => this.emit("state", true));
    source.addEventListener("error", () => {
      this.emit("state", false);
      // The browser tries again by itself, except after an answer that was no stream.
      if (source.readyState === EventSource.CLOSED) this.#again = setTimeout(() => this.#look(id), PATIENCE);
    });
  }

  close() {
    clearTimeout(this.#again);
    this.#source?.close();
    this.#source = this.#id = null;
  }

  /**
   * Lets the connection go while the page is hidden and `idle`: a browser has six to a host, and all
   * its pages share them.
   * @param {Pick<Document, "hidden" | "addEventListener">} page @param {() => boolean} idle
   */
  rest(page, idle, patience = HIDDEN) {
    setInterval(() => {
      if (!page.hidden || !idle()) return;
      this.#source?.close();
      this.#source = null;
    }, patience);
    page.addEventListener("visibilitychange", () => {
      if (page.hidden || this.#source || this.#id === null) return;
      this.open(this.#id);
      this.emit("resumed", null);
    });
  }

  /** Opens a session again if it is still there. @param {string} id */
  async #look(id) {
    const gone = await get(session(id)).then(() => false, (error) => error.status === 404);
    if (this.#id !== id) return; // another session was opened meanwhile, or none
    if (gone) this.emit("deleted", {});
    else this.open(id);
  }
}
