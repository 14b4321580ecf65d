/** Base class of objects that emit events with a detail. */

/** @template {Record<string, any>} Events  event name -> type of its detail */
export class Emitter extends EventTarget {
  /**
   * Call `listener` with the detail of each event.
   * @template {keyof Events & string} Name @param {Name} name @param {(detail: Events[Name]) => void} listener
   */
  on(name, listener) {
    this.addEventListener(name, (event) => listener(/** @type {CustomEvent} */ (event).detail));
  }

  /** @template {keyof Events & string} Name @param {Name} name @param {Events[Name]} [detail] */
  emit(name, detail) {
    this.dispatchEvent(new CustomEvent(name, { detail }));
  }
}
