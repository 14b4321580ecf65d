// Notes -> staves with voices, each a row of chords that never overlap. Pure.

const MIDDLE = 60;

/** @typedef {{start: number, end: number, notes: import("./grid.js").GridNote[]}} Chord */
/** @typedef {{clef: "treble" | "bass", voices: Chord[][]}} Staff */

/**
 * @param {import("./grid.js").GridNote[]} notes
 * @param {{id: number, name: string, drum: boolean}[]} tracks
 * @returns {{name: string, staves: Staff[], choir: boolean}[]} parts, one a track; four single voices
 *     from high to low are one choir on two staves
 */
export function partsOf(notes, tracks) {
  const parts = tracks.filter((track) => !track.drum)
    .map((track) => ({ track, notes: notes.filter((note) => note.track === track.id) }))
    .filter((part) => part.notes.length);
  const lines = parts.map((part) => voicesOf(part.notes));
  const single = lines.every((voices) => voices.length === 1 && voices[0].every((chord) => chord.notes.length === 1));
  const heights = parts.map((part) => mean(part.notes));
  if (parts.length === 4 && single && heights.every((height, i) => i === 0 || height < heights[i - 1])) {
    const staves = [
      { clef: /** @type {const} */ ("treble"), voices: [lines[0][0], lines[1][0]] },
      { clef: /** @type {const} */ ("bass"), voices: [lines[2][0], lines[3][0]] },
    ];
    return [{ name: "", staves, choir: true }];
  }
  return parts.map(({ track, notes: notesOfPart }, i) => {
    const low = Math.min(...notesOfPart.map((n) => n.pitch)), high = Math.max(...notesOfPart.map((n) => n.pitch));
    const one = lines[i].length === 1 && lines[i][0].every((chord) => chord.notes.length === 1);
    if (one || low >= MIDDLE - 5 || high <= MIDDLE + 4) {
      const staff = /** @type {Staff} */ ({ clef: heights[i] >= MIDDLE - 3 ? "treble" : "bass", voices: lines[i] });
      return { name: track.name, staves: [staff], choir: false };
    }
    const hands = [notesOfPart.filter((n) => n.pitch >= MIDDLE), notesOfPart.filter((n) => n.pitch < MIDDLE)];
    const staves = hands.map((hand, k) => /** @type {Staff} */ ({ clef: k ? "bass" : "treble", voices: voicesOf(hand) }));
    return { name: track.name, staves, choir: false };
  });
}

/** As few rows of chords as hold all notes; notes of the same time are one chord. @returns {Chord[][]} */
export function voicesOf(/** @type {import("./grid.js").GridNote[]} */ notes) {
  /** @type {Map<string, Chord>} */
  const chords = new Map();
  for (const note of notes) {
    const key = `${note.start} ${note.end}`;
    if (!chords.has(key)) chords.set(key, { start: note.start, end: note.end, notes: [] });
    const chord = chords.get(key);
    if (!chord.notes.some((other) => other.pitch === note.pitch)) chord.notes.push(note);
  }
  const voices = /** @type {Chord[][]} */ ([]);
  const order = [...chords.values()].sort((a, b) => a.start - b.start || top(b) - top(a));
  for (const chord of order) {
    chord.notes.sort((a, b) => a.pitch - b.pitch);
    const free = voices.find((voice) => voice.at(-1).end <= chord.start);
    if (free) free.push(chord);
    else voices.push([chord]);
  }
  return voices.length ? voices : [[]];
}

const top = (chord) => Math.max(...chord.notes.map((note) => note.pitch));
const mean = (notes) => notes.reduce((sum, note) => sum + note.pitch, 0) / notes.length;
