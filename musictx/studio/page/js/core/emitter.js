/** Base class of objects that emit events. */

/**
 * @template {Record<string, any>} Events  event name -> type of its detail
 */
export class Emitter {
  /** @type {Map<string, Set<Function>>} */
  #listeners = new Map();

  /**
   * Call `listener` at every event of that name.
   * @template {keyof Events & string} Name
   * @param {Name} name
   * @param {(detail: Events[Name]) => void} listener
   */
  on(name, listener) {
    const set = this.#listeners.get(name) ?? new Set();
    this.#listeners.set(name, set.add(listener));
  }

  /**
   * @template {keyof Events & string} Name
   * @param {Name} name
   * @param {Events[Name]} [detail]
   */
  emit(name, detail) {
    for (const listener of [...(this.#listeners.get(name) ?? [])]) listener(detail);
  }
}
