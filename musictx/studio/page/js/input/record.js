// Recording: counts in, plays what is there, gathers what is played, and makes one operation of it.
import { countIn, quantised, Recording } from "./take.js";

/**
 * @param {{player: any, getDocument: () => any, onNote?: (note: {pitch: number, velocity: number, start: number}) => void,
 *     onState?: (state: "off" | "counting" | "recording") => void}} page
 */
export function createRecorder({ player, getDocument, onNote = () => {}, onState = () => {} }) {
  /** @type {Recording | null} */
  let recording = null;
  let settings = { steps: 0, from: 0 };

  return {
    get active() { return recording !== null; },

    /**
     * @param {{track: number, from?: number, bars?: number, steps?: number}} options bars of count-in;
     *     steps: parts of a beat to which notes are moved, 0 for as played
     */
    async start({ track, from = player.position, bars = 1, steps = 0 }) {
      settings = { steps, from };
      recording = new Recording(track, from);
      onState("counting");
      const clicks = bars ? countIn(getDocument().beats ?? [], from, bars) : [];
      await player.play(from, { end: Infinity, countIn: clicks });
      if (recording) setTimeout(() => recording && onState("recording"), (clicks[0] ?? 0) * 1000);
    },

    /** A key goes down or, with velocity 0, up; it sounds whether it is recorded or not. */
    note(/** @type {number} */ track, /** @type {number} */ pitch, /** @type {number} */ velocity, time = performance.now()) {
      player.key(track, pitch, velocity);
      if (!recording) return;
      const moment = player.at(time);
      if (velocity) {
        recording.on(moment, pitch, velocity);
        onNote({ pitch, velocity, start: moment });
      } else {
        recording.off(moment, pitch);
      }
    },

    sustain(/** @type {number} */ track, /** @type {boolean} */ down, time = performance.now()) {
      player.pedal(track, down);
      recording?.sustain(player.at(time), down);
    },

    /**
     * Ends it; returns the operation for POST /ops, or null where nothing was played.
     * @returns {{label: string, add: any[]} | null}
     */
    stop() {
      if (!recording) return null;
      const moment = player.position;
      const played = recording.end(moment);
      recording = null;
      player.stop();
      onState("off");
      return operation(getDocument(), played, settings.steps);
    },
  };
}

/** Notes [start, end, pitch, velocity, track] as an operation on a document. */
export function operation(document, played, steps = 0) {
  if (!played.length) return null;
  const notes = steps ? quantised(played, document.beats ?? [], steps) : played;
  return {
    label: `record ${notes.length} ${notes.length === 1 ? "note" : "notes"}`,
    add: notes.map((note, i) => [document.next_id + i, ...note]),
  };
}

/** The notes with these ids on the grid, as an operation. */
export function quantise(document, /** @type {Iterable<number>} */ ids, steps = 4, strength = 1) {
  const wanted = new Set(ids);
  const notes = document.notes.filter((note) => wanted.has(note[0]));
  return {
    label: `quantise ${notes.length} ${notes.length === 1 ? "note" : "notes"}`,
    change: quantised(notes, document.beats ?? [], steps, strength, 1),
  };
}
