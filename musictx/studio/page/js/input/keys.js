// The computer's keys as a piano. Keys are named by their place, so that every layout works.

/** Semitones above the octave's C, two rows as on a piano: A is C, W is C sharp, up to the F above. */
export const PIANO = new Map(Object.entries({
  KeyA: 0, KeyW: 1, KeyS: 2, KeyE: 3, KeyD: 4, KeyF: 5, KeyT: 6, KeyG: 7, KeyY: 8, KeyH: 9, KeyU: 10, KeyJ: 11,
  KeyK: 12, KeyO: 13, KeyL: 14, KeyP: 15, Semicolon: 16, Quote: 17,
}));
const OCTAVES = { KeyZ: -12, KeyX: 12 };
const SOFTER_LOUDER = { KeyC: -16, KeyV: 16 };

/** What keys do, without a page: pitches that go down and up, octave, velocity and sustain. */
export class KeyPiano {
  constructor() {
    this.base = 60;
    this.velocity = 80;
    this.sustain = false;
    /** @type {Map<string, number>} key -> the pitch that it holds */
    this.held = new Map();
  }

  /** @returns {{on?: number, off?: number, sustain?: boolean, changed?: boolean} | null} null: no key of the piano */
  down(/** @type {string} */ code, repeat = false) {
    if (code.startsWith("Shift")) return repeat || this.sustain ? {} : { sustain: (this.sustain = true) };
    if (code in OCTAVES) {
      if (!repeat) this.base = Math.min(Math.max(this.base + OCTAVES[code], 12), 96);
      return { changed: true };
    }
    if (code in SOFTER_LOUDER) {
      this.velocity = Math.min(Math.max(this.velocity + SOFTER_LOUDER[code], 16), 112);
      return { changed: true };
    }
    if (!PIANO.has(code)) return null;
    if (repeat || this.held.has(code)) return {};
    const pitch = this.base + PIANO.get(code);
    this.held.set(code, pitch);
    return { on: pitch };
  }

  up(/** @type {string} */ code) {
    if (code.startsWith("Shift")) {
      this.sustain = false;
      return { sustain: false };
    }
    const pitch = this.held.get(code); // the one that began, whatever octave it is now
    this.held.delete(code);
    return pitch === undefined ? null : { off: pitch };
  }

  /** Keys whose release nobody saw, because the window lost them. */
  letGo() {
    const pitches = [...this.held.values()];
    this.held.clear();
    this.sustain = false;
    return pitches;
  }
}

/**
 * @param {{onNote: (pitch: number, velocity: number, time: number) => void, onSustain?: (down: boolean, time: number) => void,
 *     onChange?: (piano: KeyPiano) => void}} callbacks velocity 0: the key is let go; times of `performance.now()`
 */
export function createKeys({ onNote, onSustain = () => {}, onChange = () => {} }) {
  const piano = new KeyPiano();
  let enabled = false;

  function act(action, event) {
    if (!action) return;
    event?.preventDefault();
    event?.stopPropagation();
    const time = event?.timeStamp ?? performance.now();
    if (action.on !== undefined) onNote(action.on, piano.velocity, time);
    if (action.off !== undefined) onNote(action.off, 0, time);
    if (action.sustain !== undefined) onSustain(action.sustain, time);
    if (action.changed) onChange(piano);
  }
  const typing = (event) => event.ctrlKey || event.metaKey || event.altKey
    || event.target?.closest?.("input, textarea, select, [contenteditable]");
  const down = (event) => { if (!typing(event)) act(piano.down(event.code, event.repeat), event); };
  const up = (event) => act(piano.up(event.code), event.target?.closest ? event : null);
  const lost = () => {
    for (const pitch of piano.letGo()) onNote(pitch, 0, performance.now());
    onSustain(false, performance.now());
  };

  return {
    piano,
    get enabled() { return enabled; },
    set enabled(on) {
      if (on === enabled) return;
      enabled = on;
      const change = on ? addEventListener : removeEventListener;
      change("keydown", down, true); // before the page's own shortcuts
      change("keyup", up, true);
      change("blur", lost);
      if (!on) lost();
    },
  };
}
