/** Chords, sections and lyrics above the bars: what markers name, and edits of them as operations. Pure. */

/** @typedef {import("./types.js").Piece} Piece */
/** @typedef {import("./types.js").Operation} Operation */
/** @typedef {[time: number, text: string]} TimedText */

/** Symbols of musicians -> qualities as markers name them, with degrees that are added (musictx/chords.py). */
const SYMBOLS = {
  maj: ["", "maj", "M"], maj6: ["6"], "maj(9)": ["add9"], 5: ["5"], min: ["m", "min", "-"], min6: ["m6"], "min(9)": ["madd9"],
  7: ["7", "dom7"], 9: ["9"], 11: ["11"], 13: ["13"], maj7: ["maj7", "M7", "ma7", "Δ", "Δ7"], maj9: ["maj9", "M9"],
  min7: ["m7", "min7", "-7", "mi7"], min9: ["m9", "min9"], min11: ["m11"], hdim7: ["m7b5", "min7b5", "-7b5", "ø", "ø7", "hdim7"],
  dim: ["dim", "°", "o"], dim7: ["dim7", "°7", "o7"], aug: ["aug", "+", "+5"], aug7: ["aug7"], sus2: ["sus2"], sus4: ["sus4", "sus"],
  "sus4(b7)": ["7sus4"], "sus4(b7,9)": ["9sus4"],
};
const QUALITY = new Map(Object.entries(SYMBOLS).flatMap(([quality, all]) => all.map((symbol) => [symbol, quality])));
/** How the qualities are shown. */
const SHOWN = { maj: "", min: "m", min7: "m7", hdim7: "m7♭5", maj6: "6", min6: "m6", min9: "m9", min11: "m11", min13: "m13", minmaj7: "mMaj7" };
const STEPS = "CDEFGAB";
const SEMITONES = [0, 2, 4, 5, 7, 9, 11];
/** Semitones of the sharps and flats in a text. @param {string} signs */
const altered = (signs = "") => [...signs].reduce((sum, sign) => sum + Number("#♯".includes(sign)) - Number("b♭".includes(sign)), 0);
/** @param {number} alter */
const signs = (alter) => "#".repeat(Math.max(alter, 0)) + "b".repeat(Math.max(-alter, 0));
/** -6 to 5 semitones. @param {number} up */
const nearest = (up) => ((up + 18) % 12) - 6;

/** The quality of a symbol with the degrees that are added, by what follows its root; null for none. @param {string} text */
function qualityOf(text) {
  const rest = text.replaceAll("♭", "b").replaceAll("♯", "#").replace(/[(),]/g, "");
  for (let end = rest.length; end >= 0; end--) {
    const quality = QUALITY.get(rest.slice(0, end));
    const added = rest.slice(end);
    if (quality === undefined || !/^(add\d{1,2}|no\d|[#b]\d{1,2})*$/.test(added)) continue;
    const [name, inside] = quality.split(/[()]/);
    const words = (added.match(/(add|no|[#b])\d{1,2}/g) ?? []).map((word) => word.replace("add", "").replace("no", "*"));
    const more = [...(inside ? [inside] : []), ...words].join(",");
    return more ? `${name}(${more})` : name;
  }
  return null;
}

/** How a marker names a chord: a name such as "F#:min7", "N" for none; null for any other text. @param {string} text */
export const isChord = (text) => text.trim() === "N" || /^[A-G][#b]*:[a-z0-9]*(\([^)]*\))?(\/[#b0-9]+)?$/.test(text.trim());

/** The name that markers have for a symbol such as "F#m7"; null for what is none. @param {string} text */
export function chordNamed(text) {
  const plain = text.trim();
  if (["N", "NC", "N.C"].includes(plain.toUpperCase().replace(/\.$/, ""))) return "N";
  if (isChord(plain)) return plain;
  const [, letter, sign, rest, low, lowSign] = /^([A-Ga-g])([#♯b♭]?)([^/\s]*)(?:\/([A-G])([#♯b♭]?))?$/.exec(plain) ?? [];
  const quality = letter && qualityOf(rest);
  if (quality === null || quality === undefined) return null;
  const [root, bass] = [STEPS.indexOf(letter.toUpperCase()), STEPS.indexOf(low ?? letter.toUpperCase())];
  const steps = (bass - root + 7) % 7;
  const up = SEMITONES[bass] - SEMITONES[root] - SEMITONES[steps] + (low ? altered(lowSign) - altered(sign) : 0);
  const degree = steps || nearest(up) ? `/${signs(nearest(up))}${steps + 1}` : "";
  return `${STEPS[root]}${signs(altered(sign))}:${quality}${degree}`;
}

/** A chord as it is shown: "F♯m7", "C7♭9/E". @param {string} name  of a marker */
export function chordLabel(name) {
  const [, root, sign, quality, more = "", raised = "", degree] = /^([A-G])([#b]*):([a-z0-9]*)(?:\(([^)]*)\))?(?:\/([#b]*)(\d+))?$/.exec(name.trim()) ?? [];
  if (!root) return "N.C.";
  const seventh = quality.startsWith("sus") && /^b7(,9)?$/.exec(more);
  const kind = (seventh ? (seventh[1] ? "9" : "7") : "") + (SHOWN[quality] ?? quality);
  const added = seventh ? "" : more.split(",").map((word) => word.replace(/^(?=\d)/, "add").replace(/^\*/, "no")).join("");
  const steps = degree ? (Number(degree) - 1) % 7 : 0;
  const step = (STEPS.indexOf(root) + steps) % 7;
  const up = SEMITONES[STEPS.indexOf(root)] + altered(sign) + SEMITONES[steps] + altered(raised) - SEMITONES[step];
  const bass = degree ? `/${STEPS[step]}${signs(nearest(up))}` : "";
  return `${root}${sign}${kind}${added}${bass}`.replaceAll("#", "♯").replaceAll("b", "♭");
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
