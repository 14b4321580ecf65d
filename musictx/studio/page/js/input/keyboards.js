/** Keyboards: the computer's keys as a piano, by their position (`code`), so that every layout works; MIDI keyboards, by Web MIDI. */

import { clamp } from "../core/numbers.js";

/** Semitones above C by key: two rows as on a piano, from A (C) to ' (F). */
const PIANO = new Map(Object.entries({
  KeyA: 0, KeyW: 1, KeyS: 2, KeyE: 3, KeyD: 4, KeyF: 5, KeyT: 6, KeyG: 7, KeyY: 8, KeyH: 9, KeyU: 10, KeyJ: 11,
  KeyK: 12, KeyO: 13, KeyL: 14, KeyP: 15, Semicolon: 16, Quote: 17,
}));
const OCTAVES = { KeyZ: -12, KeyX: 12 };
const VELOCITY = 80;

/** Is the user typing, or pressing a shortcut? @param {KeyboardEvent} event */
const isTyping = (event) => event.ctrlKey || event.metaKey || event.altKey
  || /** @type {Element} */ (event.target)?.closest?.("input, textarea, select, [contenteditable]");

/** Let an event do nothing else. @param {KeyboardEvent} event */
function consume(event) {
  event.preventDefault();
  event.stopPropagation();
}

/** Plays notes from the page's key events while it is `enabled`. */
export class KeyPiano {
  /** The pitch of the key A. */
  base = 60;
  /** Pressed key -> its pitch. @type {Map<string, number>} */
  pressed = new Map();
  /** Removes the listeners. @type {AbortController | null} */
  #listeners = null;

  /** @param {(pitch: number, velocity: number, time: number) => void} onNote  velocity 0: the key is released @param {() => void} onChange  the octave has changed */
  constructor(onNote, onChange) {
    this.onNote = onNote;
    this.onChange = onChange;
  }

  get enabled() {
    return this.#listeners !== null;
  }

  set enabled(/** @type {boolean} */ on) {
    this.#listeners?.abort();
    this.#listeners = on ? new AbortController() : null;
    this.releaseAll();
    if (!on) return;
    const { signal } = this.#listeners;
    const first = { capture: true, signal }; // before the shortcuts of the page
    addEventListener("keydown", (event) => !isTyping(event) && this.down(event) && consume(event), first);
    addEventListener("keyup", (event) => this.up(event) && consume(event), first);
    addEventListener("blur", () => this.releaseAll(), { signal });
  }

  /** Press a key; return whether it belongs to the piano. @param {{code: string, repeat?: boolean, timeStamp: number}} event */
  down({ code, repeat, timeStamp }) {
    if (!repeat && code in OCTAVES) {
      this.base = clamp(this.base + OCTAVES[code], 12, 96);
      this.onChange();
    } else if (!repeat && PIANO.has(code) && !this.pressed.has(code)) {
      this.pressed.set(code, this.base + PIANO.get(code));
      this.onNote(this.pressed.get(code), VELOCITY, timeStamp);
    }
    return code in OCTAVES || PIANO.has(code);
  }

  /** Release a key; return whether it was pressed. It ends the pitch that it started, even if the octave has changed. */
  up({ code, timeStamp }) {
    if (!this.pressed.has(code)) return false;
    this.onNote(this.pressed.get(code), 0, timeStamp);
    return this.pressed.delete(code);
  }

  /** Release all keys, as when the window loses the focus. */
  releaseAll() {
    for (const code of [...this.pressed.keys()]) this.up({ code, timeStamp: performance.now() });
  }
}

/**
 * Listen to all MIDI inputs, including those connected later; the browser asks the user for permission. A velocity of 0 is a note-off.
 * @param {{onNote: (pitch: number, velocity: number, time: number) => void, onSustain: (down: boolean, time: number) => void,
 *     onInputs: (names: string[]) => void}} callbacks
 * @returns {Promise<{close: () => void}>} rejects with a message for the user
 */
export async function connectMidi({ onNote, onSustain, onInputs }) {
  if (!navigator.requestMIDIAccess) throw new Error("This browser cannot use MIDI keyboards; Chrome, Edge and Firefox can.");
  const access = await navigator.requestMIDIAccess().catch(() => {
    throw new Error("The browser did not allow MIDI; allow it in the settings of this page and try again.");
  });
  const onMessage = ({ data, timeStamp }) => {
    const [status, data1, data2 = 0] = data;
    const kind = status & 0xf0;
    if (kind === 0x90) onNote(data1, data2, timeStamp);
    else if (kind === 0x80) onNote(data1, 0, timeStamp);
    else if (kind === 0xb0 && data1 === 64) onSustain(data2 >= 64, timeStamp);
  };
  const listen = () => {
    const inputs = [...access.inputs.values()].filter((input) => input.state === "connected");
    for (const input of inputs) input.onmidimessage = onMessage;
    onInputs(inputs.map((input) => input.name));
  };
  access.onstatechange = listen;
  listen();
  return {
    close() {
      access.onstatechange = null;
      for (const input of access.inputs.values()) input.onmidimessage = null;
    },
  };
}
