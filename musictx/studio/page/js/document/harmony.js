/** Chords, sections and lyrics above the bars: what markers name, and edits of them as operations. Pure. */

/** @typedef {import("./types.js").Piece} Piece */
/** @typedef {import("./types.js").Operation} Operation */
/** @typedef {[time: number, text: string]} TimedText */

/** Symbols of musicians -> qualities as markers name them (musictx/chord_sheet.py). */
const SYMBOLS = {
  maj: ["", "maj", "M", "6", "add9", "5"], min: ["m", "min", "-", "m6", "min6", "madd9"], 7: ["7", "9", "11", "13", "dom7"],
  maj7: ["maj7", "M7", "ma7", "maj9", "M9", "Δ", "Δ7"], min7: ["m7", "min7", "-7", "m9", "min9", "m11", "mi7"],
  hdim7: ["m7b5", "min7b5", "-7b5", "ø", "ø7", "hdim7"], dim: ["dim", "°", "o", "dim7", "°7", "o7"],
  aug: ["aug", "+", "+5", "aug7"], sus2: ["sus2"], sus4: ["sus4", "sus", "7sus4", "9sus4"],
};
const QUALITY = new Map(Object.entries(SYMBOLS).flatMap(([quality, all]) => all.map((symbol) => [symbol, quality])));
/** How the qualities are shown. */
const SHOWN = { maj: "", min: "m", 7: "7", maj7: "maj7", min7: "m7", sus2: "sus2", sus4: "sus4", dim: "dim", aug: "aug", hdim7: "m7♭5" };
const ROOTS = ["C", "C#", "D", "Eb", "E", "F", "F#", "G", "Ab", "A", "Bb", "B"];
const LETTERS = { C: 0, D: 2, E: 4, F: 5, G: 7, A: 9, B: 11 };

/** How a marker names a chord: a name such as "F#:min7", "N" for none; null for any other text. @param {string} text */
export const isChord = (text) => text.trim() === "N" || /^[A-G][#b]*:[a-z0-9]*(\([^)]*\))?(\/[#b0-9]+)?$/.test(text.trim());

/** The name that markers have for a symbol such as "F#m7"; null for what is none. @param {string} text */
export function chordNamed(text) {
  const plain = text.trim();
  if (["N", "NC", "N.C"].includes(plain.toUpperCase().replace(/\.$/, ""))) return "N";
  if (isChord(plain)) return plain;
  const [, letter, sign, rest] = /^([A-Ga-g])([#♯b♭]?)([^/\s]*)(?:\/[A-G][#♯b♭]?)?$/.exec(plain) ?? [];
  const quality = letter && QUALITY.get(rest.replace(/^\(|\)$/g, ""));
  if (!quality) return null;
  const root = LETTERS[letter.toUpperCase()] + Number("#♯".includes(sign || "?")) - Number("b♭".includes(sign || "?"));
  return `${ROOTS[(root + 12) % 12]}:${quality}`;
}

/** A chord as it is shown: "F♯m7". @param {string} name  of a marker */
export function chordLabel(name) {
  if (name.trim() === "N") return "N.C.";
  const [root, quality = ""] = name.trim().split(":");
  const bare = quality.replace(/\(.*\)|\/.*$/g, "");
  return root.replaceAll("#", "♯").replaceAll("b", "♭") + (SHOWN[bare] ?? bare);
}

/**
 * The markers that are chords, text -> name: names such as "C:min7", or symbols such as "Cm7" and "G/B"; a
 * letter, which may be a section's, only beside other symbols (musictx/chords.py, marked).
 * @param {Piece} piece @returns {Map<string, string>}
 */
function marked(piece) {
  const texts = [...new Set((piece.markers ?? []).map(([, text]) => text))];
  const symbols = texts.filter((text) => !isChord(text) && !/^[a-g]/.test(text.trim()) && chordNamed(text) !== null);
  const named = symbols.every((text) => /^[A-G](o|[0-9]*)$/.test(text.trim())) ? [] : symbols;
  return new Map([...texts.filter(isChord), ...named].map((text) => [text, chordNamed(text) ?? text]));
}

/** The chords that the piece names. @param {Piece} piece @returns {TimedText[]} */
export function chordsOf(piece) {
  const chords = marked(piece);
  return (piece.markers ?? []).filter(([, text]) => chords.has(text)).map(([time, text]) => [time, /** @type {string} */ (chords.get(text))]);
}

/** Its other markers. @param {Piece} piece @returns {TimedText[]} */
export function sectionsOf(piece) {
  const chords = marked(piece);
  return (piece.markers ?? []).filter(([, text]) => !chords.has(text));
}

const NEAR = 0.03; // seconds that count as the same place

/** The text that holds at a moment: its own, or the last before. @param {TimedText[]} texts */
export const inForce = (texts, time) => texts.findLast(([at]) => at <= time + NEAR);

/**
 * A chord or a section at a place, in the place of what stood there; an empty text takes that away.
 * @param {Piece} piece @param {"chord" | "section"} kind @param {number} time @param {string} text @returns {Operation | null}
 */
export function setText(piece, kind, time, text) {
  const chord = kind === "chord";
  const name = chord ? text && chordNamed(text) : text;
  if (name === null) return null;
  const chords = marked(piece);
  const others = (piece.markers ?? []).filter(([at, old]) => chords.has(old) !== chord || Math.abs(at - time) > NEAR);
  const gone = others.length < (piece.markers ?? []).length;
  if (!name && !gone) return null;
  const markers = /** @type {TimedText[]} */ ([...others, ...(name ? [[time, name]] : [])]).sort((a, b) => a[0] - b[0]);
  const shown = chord && name ? chordLabel(name) : name;
  return { label: name ? `${kind} ${shown}` : `${kind} taken away`, markers };
}

/** Chords written into the piece. @param {Piece} piece @param {TimedText[]} chords @returns {Operation | null} */
export function write(piece, chords) {
  if (!chords.length) return null;
  const markers = /** @type {TimedText[]} */ ([...sectionsOf(piece), ...chords]).sort((a, b) => a[0] - b[0]);
  return { label: "chords written above the bars", markers };
}

/** Syllables in a line of words: "Freu-de _ schön" is Freu-, de, one note more for it, schön. @param {string} line */
export const syllables = (line) => line.trim().split(/ +/).flatMap((word) => word.match(/[^-]+-?|-/g) ?? []);

/** The line that is sung in a stretch. @param {TimedText[]} lyrics */
export const lineOf = (lyrics) => lyrics.map(([, text]) => text.trim().replaceAll(" ", "\u00a0") + (text.trim().endsWith("-") ? "" : " ")).join("").trim();

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
  const others = (piece.lyrics ?? []).filter(([time]) => time < begin - NEAR || time > until - NEAR / 2);
  if (!parts.length && others.length === (piece.lyrics ?? []).length) return null;
  const sung = /** @type {TimedText[]} */ (parts.flatMap((text, i) => (text === "_" ? [] : [[places[i], text.replaceAll("\u00a0", " ")]])));
  const lyrics = [...others, ...sung].sort((a, b) => a[0] - b[0]);
  return { label: parts.length ? `words ${line.trim().slice(0, 40)}` : "words taken away", lyrics };
}
