/** Edits of the chords, sections and lyrics of a piece, as operations. Pure functions. */

/** Return a chord symbol with musical accidentals: "F♯m7", "C7♭9/E". @param {string} symbol */
export const chordLabel = (symbol) => symbol.replaceAll("#", "♯").replaceAll("b", "♭");

const TOLERANCE = 0.03; // seconds between times that count as the same

/** Return the text at a time. @template {[number, ...string[]]} Text @param {Text[]} texts @returns {Text | undefined} */
export const textAt = (texts, time) => texts.find(([start]) => Math.abs(start - time) < TOLERANCE);

/** Replace all chords and sections. @param {string} label @param {Chord[]} chords @param {TimedText[]} sections @returns {Operation} */
function writeMarkers(label, chords, sections) {
  const markers = /** @type {TimedText[]} */ ([...sections, ...chords.map(([time, name]) => [time, name])]).sort((a, b) => a[0] - b[0]);
  return { label, markers, chords, sections };
}

/**
 * Write a section or a chord at a time, in place of what is written there; an empty text deletes that. `symbol` is the
 * chord as musicians write it.
 * @param {Piece} piece @param {"chord" | "section"} kind @param {number} time @param {string} text @param {string} [symbol] @returns {Operation | null}
 */
export function setText(piece, kind, time, text, symbol = text) {
  const chord = kind === "chord";
  const all = /** @type {any[]} */ (chord ? piece.chords : piece.sections);
  const others = all.filter(([start]) => Math.abs(start - time) > TOLERANCE);
  if (!text && others.length === all.length) return null;
  if (text) others.push(chord ? [time, text, symbol] : [time, text]);
  const texts = others.sort((a, b) => a[0] - b[0]);
  return writeMarkers(text ? `${kind} ${symbol}` : `${kind} removed`, chord ? texts : piece.chords, chord ? piece.sections : texts);
}

/** Replace the chords by those that the notes imply. @param {Piece} piece @param {Chord[]} implied */
export const writeChords = (piece, implied) => writeMarkers("chords written above the bars", implied, piece.sections);

/** Return the syllables of a line: "Freu-de _ schön" has Freu-, de, _ and schön; _ extends a syllable over another note. @param {string} line */
export const syllables = (line) => line.trim().split(/ +/).flatMap((word) => word.match(/[^-]+-?|-/g) ?? []);

/** Join syllables to a line of words. @param {TimedText[]} lyrics */
export const lyricLine = (lyrics) => lyrics.map(([, text]) => text.trim().replaceAll(" ", "\u00a0") + (text.trim().endsWith("-") ? "" : " ")).join("").trim();

/**
 * Write a line of words from `begin` on, a syllable for each start of a note, in place of the words there and, if `end` is
 * given, all words up to it. An empty line deletes words. Return the operation, or an error message if notes are missing.
 * @param {Piece} piece @param {string} line @param {{begin: number, end?: number}} stretch @param {number[]} starts  of the sung notes, ascending
 * @returns {Operation | string | null}
 */
export function setLyrics(piece, line, { begin, end = begin + 2 * TOLERANCE }, starts) {
  const parts = line.trim() ? syllables(line) : [];
  const places = starts.filter((time, i) => time > begin - TOLERANCE && !(i && time - starts[i - 1] < TOLERANCE));
  if (parts.length > places.length) return `There are ${places.length} notes from here on, and ${parts.length} syllables.`;
  const until = Math.max(end, parts.length ? places[parts.length - 1] + TOLERANCE : 0);
  const others = piece.lyrics.filter(([time]) => time < begin - TOLERANCE || time > until - TOLERANCE / 2);
  if (!parts.length && others.length === piece.lyrics.length) return null;
  const sung = /** @type {TimedText[]} */ (parts.flatMap((text, i) => (text === "_" ? [] : [[places[i], text.replaceAll("\u00a0", " ")]])));
  const lyrics = [...others, ...sung].sort((a, b) => a[0] - b[0]);
  return { label: parts.length ? `words ${line.trim().slice(0, 40)}` : "words removed", lyrics };
}
