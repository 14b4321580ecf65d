/** Chords, sections and lyrics above the bars: edits of them as operations. Pure. */

/** A chord as it is shown: "F♯m7", "C7♭9/E". @param {string} symbol */
export const chordLabel = (symbol) => symbol.replaceAll("#", "♯").replaceAll("b", "♭");

const NEAR = 0.03; // seconds that count as the same place

/** The text that stands at a moment. @template {[number, ...string[]]} Text @param {Text[]} texts @returns {Text | undefined} */
export const textAt = (texts, time) => texts.find(([at]) => Math.abs(at - time) < NEAR);

/** Chords and sections instead of those that stand above the bars. @param {string} label @param {Chord[]} chords @param {TimedText[]} sections @returns {Operation} */
function writeMarkers(label, chords, sections) {
  const markers = /** @type {TimedText[]} */ ([...sections, ...chords.map(([time, name]) => [time, name])]).sort((a, b) => a[0] - b[0]);
  return { label, markers, chords, sections };
}

/**
 * A section, or a chord by its name and its symbol, at a place, instead of what stood there; an empty text takes that away.
 * @param {Piece} piece @param {"chord" | "section"} kind @param {number} time @param {string} text @param {string} [symbol] @returns {Operation | null}
 */
export function setText(piece, kind, time, text, symbol = text) {
  const chord = kind === "chord";
  const all = /** @type {any[]} */ (chord ? piece.chords : piece.sections);
  const others = all.filter(([at]) => Math.abs(at - time) > NEAR);
  if (!text && others.length === all.length) return null;
  const texts = [...others, ...(text ? [chord ? [time, text, symbol] : [time, text]] : [])].sort((a, b) => a[0] - b[0]);
  return writeMarkers(text ? `${kind} ${symbol}` : `${kind} taken away`, chord ? texts : piece.chords, chord ? piece.sections : texts);
}

/** Chords that the notes imply, written above the bars. @param {Piece} piece @param {Chord[]} implied */
export const writeChords = (piece, implied) => writeMarkers("chords written above the bars", implied, piece.sections);

/** Syllables in a line of words: "Freu-de _ schön" is Freu-, de, one note more for it, schön. @param {string} line */
export const syllables = (line) => line.trim().split(/ +/).flatMap((word) => word.match(/[^-]+-?|-/g) ?? []);

/** The line that is sung in a stretch. @param {TimedText[]} lyrics */
export const lyricLine = (lyrics) => lyrics.map(([, text]) => text.trim().replaceAll(" ", "\u00a0") + (text.trim().endsWith("-") ? "" : " ")).join("").trim();

/**
 * A line of words under the notes from a moment on, a syllable for each beginning of them; what stood there
 * goes, and with `end` all up to there. An empty line takes words away. What is no operation is a sentence.
 * @param {Piece} piece @param {string} line @param {{begin: number, end?: number}} place @param {number[]} starts  of the notes that are sung, ascending
 * @returns {Operation | string | null}
 */
export function setLyrics(piece, line, { begin, end = begin + 2 * NEAR }, starts) {
  const parts = line.trim() ? syllables(line) : [];
  const places = starts.filter((time, i) => time > begin - NEAR && !(i && time - starts[i - 1] < NEAR));
  if (parts.length > places.length) return `There are ${places.length} notes from here on, and ${parts.length} syllables.`;
  const until = Math.max(end, parts.length ? places[parts.length - 1] + NEAR : 0);
  const others = piece.lyrics.filter(([time]) => time < begin - NEAR || time > until - NEAR / 2);
  if (!parts.length && others.length === piece.lyrics.length) return null;
  const sung = /** @type {TimedText[]} */ (parts.flatMap((text, i) => (text === "_" ? [] : [[places[i], text.replaceAll("\u00a0", " ")]])));
  const lyrics = [...others, ...sung].sort((a, b) => a[0] - b[0]);
  return { label: parts.length ? `words ${line.trim().slice(0, 40)}` : "words taken away", lyrics };
}
