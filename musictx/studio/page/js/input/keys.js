// The computer's keys as a piano. Keys are named by their place, so that every layout works.

/** Semitones above the octave's C, two rows as on a piano: A is C, W is C sharp, up to the F above. */
export const PIANO = new Map(Object.entries({
  KeyA: 0, KeyW: 1, KeyS: 2, KeyE: 3, KeyD: 4, KeyF: 5, KeyT: 6, KeyG: 7, KeyY: 8, KeyH: 9, KeyU: 10, KeyJ: 11,
  KeyK: 12, KeyO: 13, KeyL: 14, KeyP: 15, Semicolon: 16, Quote: 17,
}));
const OCTAVES = { KeyZ: -12, KeyX: 12 };
const VELOCITY = 80;

/** The keys that are held, and the octave. */
export class KeyPiano {
  base = 60;
  /** Key -> the pitch that it holds. @type {Map<string, number>} */
  held = new Map();

  /** @param {(pitch: number, velocity: number, time: number) => void} onNote  velocity 0: the key is let go @param {() => void} onChange  another octave */
  constructor(onNote, onChange) {
    this.onNote = onNote;
    this.onChange = onChange;
  }

  /** Is it a key of the piano? @param {{code: string, repeat?: boolean, timeStamp: number}} event */
  down({ code, repeat, timeStamp }) {
    if (!repeat && code in OCTAVES) {
      this.base = Math.min(Math.max(this.base + OCTAVES[code], 12), 96);
      this.onChange();
    } else if (!repeat && PIANO.has(code) && !this.held.has(code)) {
      this.held.set(code, this.base + PIANO.get(code));
      this.onNote(this.held.get(code), VELOCITY, timeStamp);
    }
    return code in OCTAVES || PIANO.has(code);
  }

  /** Lets a key go that is held: the pitch that it began, whatever octave it is now. */
  up({ code, timeStamp }) {
    if (!this.held.has(code)) return false;
    this.onNote(this.held.get(code), 0, timeStamp);
    return this.held.delete(code);
  }

  /** Lets all keys go: the window may have lost the focus. */
  letGo() {
    for (const code of [...this.held.keys()]) this.up({ code, timeStamp: performance.now() });
  }
}

/** Keys of the page as a piano, while it is `enabled`. @param {ConstructorParameters<typeof KeyPiano>} callbacks */
export function createKeys(...callbacks) {
  const piano = new KeyPiano(...callbacks);
  let enabled = false;
  const typing = (event) => event.ctrlKey || event.metaKey || event.altKey
    || event.target?.closest?.("input, textarea, select, [contenteditable]");
  const taken = (event) => {
    event.preventDefault();
    event.stopPropagation();
  };
  const down = (event) => !typing(event) && piano.down(event) && taken(event);
  const up = (event) => piano.up(event) && taken(event);
  const letGo = () => piano.letGo();

  return {
    piano,
    get enabled() { return enabled; },
    set enabled(on) {
      if (on === enabled) return;
      enabled = on;
      const change = on ? addEventListener : removeEventListener;
      change("keydown", down, true); // before the shortcuts of the page
      change("keyup", up, true);
      change("blur", letGo);
      if (!on) letGo();
    },
  };
}
