// The computer's keys as a piano. Keys are named by their place, so that every layout works.

/** Semitones above the octave's C, two rows as on a piano: A is C, W is C sharp, up to the F above. */
export const PIANO = new Map(Object.entries({
  KeyA: 0, KeyW: 1, KeyS: 2, KeyE: 3, KeyD: 4, KeyF: 5, KeyT: 6, KeyG: 7, KeyY: 8, KeyH: 9, KeyU: 10, KeyJ: 11,
  KeyK: 12, KeyO: 13, KeyL: 14, KeyP: 15, Semicolon: 16, Quote: 17,
}));
const OCTAVES = { KeyZ: -12, KeyX: 12 };
const VELOCITY = 80;

/** What keys do, without a page: pitches that go down and up, and the octave. */
export class KeyPiano {
  base = 60;
  /** Key -> the pitch that it holds. @type {Map<string, number>} */
  held = new Map();

  /** @returns {{on?: number, off?: number, changed?: boolean} | null} null: no key of the piano */
  down(/** @type {string} */ code, repeat = false) {
    if (code in OCTAVES) {
      if (!repeat) this.base = Math.min(Math.max(this.base + OCTAVES[code], 12), 96);
      return { changed: true };
    }
    if (!PIANO.has(code)) return null;
    if (repeat || this.held.has(code)) return {};
    const pitch = this.base + PIANO.get(code);
    this.held.set(code, pitch);
    return { on: pitch };
  }

  up(/** @type {string} */ code) {
    const pitch = this.held.get(code); // the one that began, whatever octave it is now
    this.held.delete(code);
    return pitch === undefined ? null : { off: pitch };
  }

  /** Lets all keys go: the window may have lost the focus. */
  letGo() {
    const pitches = [...this.held.values()];
    this.held.clear();
    return pitches;
  }
}

/**
 * @param {{onNote: (pitch: number, velocity: number, time: number) => void, onChange: () => void}} callbacks  velocity 0:
 *     the key is let go; times of `performance.now()`; onChange: another octave
 */
export function createKeys({ onNote, onChange }) {
  const piano = new KeyPiano();
  let enabled = false;

  function act(action, event) {
    if (!action) return;
    event?.preventDefault();
    event?.stopPropagation();
    const time = event?.timeStamp ?? performance.now();
    if (action.on !== undefined) onNote(action.on, VELOCITY, time);
    if (action.off !== undefined) onNote(action.off, 0, time);
    if (action.changed) onChange();
  }
  const typing = (event) => event.ctrlKey || event.metaKey || event.altKey
    || event.target?.closest?.("input, textarea, select, [contenteditable]");
  const down = (event) => { if (!typing(event)) act(piano.down(event.code, event.repeat), event); };
  const up = (event) => act(piano.up(event.code), event.target?.closest ? event : null);
  const letGo = () => {
    for (const pitch of piano.letGo()) onNote(pitch, 0, performance.now());
  };

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
