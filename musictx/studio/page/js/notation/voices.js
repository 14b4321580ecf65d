/** Notes distributed over staves and voices. A voice is a list of chords that never overlap. Pure functions. */

import { extentOf } from "../document/notes.js";

/** @typedef {import("./grid.js").GridNote} GridNote */
/** @typedef {{start: number, end: number, notes: GridNote[]}} VoiceChord */
/** @typedef {{clef: "treble" | "bass", voices: VoiceChord[][]}} Staff */

const MIDDLE_C = 60;

/**
 * Return a part with its staves for each track that has notes, except drums. Four tracks of single notes, ordered
 * from high to low, become one choir on two staves.
 * @param {GridNote[]} notes @param {Track[]} tracks @returns {{name: string, staves: Staff[], choir: boolean}[]}
 */
export function partsOf(notes, tracks) {
  const parts = tracks.filter((track) => !track.drum).map(({ id, name }) => {
    const own = notes.filter((note) => note.track === id);
    const voices = voicesOf(own);
    const isMelody = voices.length === 1 && voices[0].every((chord) => chord.notes.length === 1);
    return { name, notes: own, voices, isMelody, meanPitch: own.reduce((sum, note) => sum + note.pitch, 0) / own.length };
  }).filter((part) => part.notes.length);
  if (parts.length === 4 && parts.every((part, i) => part.isMelody && (i === 0 || part.meanPitch < parts[i - 1].meanPitch))) {
    const [soprano, alto, tenor, bass] = parts.map((part) => part.voices[0]);
    return [{ name: "", staves: [{ clef: "treble", voices: [soprano, alto] }, { clef: "bass", voices: [tenor, bass] }], choir: true }];
  }
  return parts.map((part) => ({ name: part.name, staves: stavesOf(part), choir: false }));
}

/** Return one staff if it is enough, else a staff for each hand. @returns {Staff[]} */
function stavesOf({ notes, voices, isMelody, meanPitch }) {
  const { low, high } = extentOf(notes);
  if (isMelody || low >= MIDDLE_C - 5 || high <= MIDDLE_C + 4) {
    return [{ clef: meanPitch >= MIDDLE_C - 3 ? "treble" : "bass", voices }];
  }
  return [
    { clef: "treble", voices: voicesOf(notes.filter((note) => note.pitch >= MIDDLE_C)) },
    { clef: "bass", voices: voicesOf(notes.filter((note) => note.pitch < MIDDLE_C)) },
  ];
}

/** Distribute notes over as few voices as possible; notes with the same start and end form a chord. @param {GridNote[]} notes @returns {VoiceChord[][]} */
export function voicesOf(notes) {
  /** @type {Map<string, VoiceChord>} */
  const chords = new Map();
  for (const note of notes) {
    const key = `${note.start} ${note.end}`;
    const chord = chords.get(key) ?? { start: note.start, end: note.end, notes: [] };
    chords.set(key, chord);
    if (!chord.notes.some((other) => other.pitch === note.pitch)) chord.notes.push(note);
  }
  for (const chord of chords.values()) chord.notes.sort((a, b) => a.pitch - b.pitch);
  const voices = /** @type {VoiceChord[][]} */ ([]);
  for (const chord of [...chords.values()].sort((a, b) => a.start - b.start || b.notes.at(-1).pitch - a.notes.at(-1).pitch)) {
    const free = voices.find((voice) => voice.at(-1).end <= chord.start);
    if (free) free.push(chord);
    else voices.push([chord]);
  }
  return voices.length ? voices : [[]];
}
