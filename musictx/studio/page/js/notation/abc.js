// A document as text in ABC notation, with the place of every note in it. Pure.
import { barsOf, quantiseNotes, QUARTER, quartersOf } from "./grid.js";
import { keyName, likelyKey, signatureAccidental, spell } from "./spelling.js";
import { partsOf } from "./voices.js";

const UNIT = QUARTER / 4; // ticks of L:1/16
const WRITTEN = [192, 144, 96, 72, 48, 36, 24, 18, 12, 9, 6, 3]; // lengths that one note head can have
const ACCIDENTALS = { "-2": "__", "-1": "_", 0: "=", 1: "^", 2: "^^" };

/** @typedef {{from: number, to: number, ids: number[], start: number, end: number}} Mark place in the text, notes, ticks */

/**
 * @param {Piece} piece
 * @param {{barsPerLine?: number, most?: number}} [options] most: bars that are written
 * @returns {{abc: string, marks: Mark[], onGrid: number, bars: number}} onGrid: see gridded; bars: all there are
 */
export function toAbc(piece, { barsPerLine = 4, most = Infinity } = {}) {
  const all = barsOf(piece);
  const bars = all.slice(0, most);
  const end = all[most]?.time ?? Infinity;
  const near = [...piece.notes.values()].filter((note) => note.start < end + 1);
  const { notes, onGrid } = quantiseNotes(near, piece);
  const parts = partsOf(notes, piece.tracks);
  const melodic = parts.flatMap((part) => part.staves.flatMap((staff) => staff.voices.flat().flatMap((chord) => chord.notes)));
  const guessed = [likelyKey(melodic.map((note) => note.pitch)), 0];
  if (!bars.length || !parts.length) return { abc: "", marks: [], onGrid, bars: all.length };

  const keyOf = (bar) => bar.key ?? guessed;
  const [opening] = bars;
  let abc = `X:1\n%%barnumbers 0\n%%setbarnb ${opening.number}\nM:${opening.meter.join("/")}\nL:1/16\n%%score ${score(parts)}\nK:${keyName(keyOf(opening))}\n`;
  const rows = [];
  let number = 0;
  for (const part of parts) {
    part.staves.forEach((staff, s) => staff.voices.forEach((chords, v) => {
      const name = plain(part.name);
      const label = s === 0 && v === 0 && name && parts.length > 1 ? ` name="${name}"` : "";
      const stem = staff.voices.length > 1 ? ` stem=${v % 2 ? "down" : "up"}` : "";
      abc += `V:${++number} clef=${staff.clef}${stem}${label}\n`;
      rows.push({ number, chords, quiet: v > 0 });
    }));
  }
  const quarters = quartersOf(piece);
  const placed = (texts, word) => texts.map(([time, text]) => ({ at: Math.round(quarters(time) * QUARTER), text: word(text) }));
  const chords = piece.chords.map(([time, , symbol]) => [time, symbol]);
  const above = [...placed(piece.sections, (text) => `"^${quoted(text)}"`), ...placed(chords, (text) => `"${text === "N.C." ? "^" : ""}${quoted(text)}"`)];
  const sung = placed(piece.lyrics, syllable);
  const fermatas = piece.fermatas.map((time) => Math.round(quarters(time) * QUARTER));
  /** @type {Mark[]} */
  const marks = [];
  for (let a = 0; a < bars.length; a += barsPerLine) {
    for (const row of rows) {
      abc += `V:${row.number}\n`;
      const words = [];
      for (let i = a; i < Math.min(a + barsPerLine, bars.length); i++) {
        const bar = bars[i], before = bars[i - 1];
        if (before && String(before.meter) !== String(bar.meter)) abc += `[M:${bar.meter.join("/")}]`;
        if (before && String(keyOf(before)) !== String(keyOf(bar))) abc += `[K:${keyName(keyOf(bar))}]`;
        const tokens = barText(row, bar, keyOf(bar));
        const places = tokens.flatMap(({ start }) => (start === undefined ? [] : [start]));
        for (const { text, chord, start, end } of tokens) {
          if (row.number === 1 && start !== undefined) {
            // A text at a place stands over the first sign from there on, or the last of the bar.
            const next = places[places.indexOf(start) + 1] ?? bar.at + bar.ticks;
            const before = start === places[0] ? bar.at : start;
            for (const { at, text: sign } of above) if (at >= before && at < next && at < bar.at + bar.ticks) abc += sign;
            if (chord) words.push(chord.start < start ? "_" : sung.find(({ at }) => Math.abs(at - start) < 3)?.text ?? "*");
          }
          if (chord && !row.quiet && fermatas.some((at) => at > start - 3 && at < end - 3)) abc += "!fermata!";
          if (chord) marks.push({ from: abc.length, to: abc.length + text.length, ids: chord.notes.map((n) => n.id), start, end });
          abc += text;
        }
        abc += i === bars.length - 1 ? "|]" : "|";
      }
      abc += "\n";
      if (words.some((word) => word !== "*" && word !== "_")) abc += `w:${words.join(" ")}\n`;
    }
  }
  return { abc, marks, onGrid, bars: all.length };
}

/** Which voices share a staff, which staves belong together. */
function score(parts) {
  let number = 0;
  return parts.map(({ staves, choir }) => {
    const groups = staves.map(({ voices }) => {
      const numbers = voices.map(() => ++number);
      return numbers.length > 1 ? `(${numbers.join(" ")})` : numbers[0];
    });
    const [open, close] = choir ? ["[", "]"] : ["{", "}"];
    return groups.length > 1 ? `${open}${groups.join(" | ")}${close}` : groups[0];
  }).join(" ");
}

/** The tokens of one voice in one bar. */
function barText({ chords, quiet }, bar, key) {
  const end = bar.at + bar.ticks;
  const beat = beatOf(bar);
  const inside = chords.filter((chord) => chord.start < end && chord.end > bar.at);
  if (!inside.length) return [{ text: quiet ? `x${length(bar.ticks)}` : `z${length(bar.ticks)}`, start: bar.at }];
  /** @type {{start: number, end: number, chord: any}[]} */
  const spans = [];
  let at = bar.at;
  for (const chord of inside) {
    const [a, b] = [Math.max(chord.start, bar.at), Math.min(chord.end, end)];
    if (a > at) spans.push({ start: at, end: a, chord: null });
    spans.push({ start: a, end: b, chord });
    at = b;
  }
  if (at < end) spans.push({ start: at, end, chord: null });

  // Quarters in which something begins or ends on a third of them are triplets; nothing reaches over their edges.
  const triplets = new Set(spans.flatMap((span) => [span.start, span.end])
    .filter((place) => (place - bar.at) % 8 === 0 && (place - bar.at) % QUARTER !== 0)
    .map((place) => Math.floor((place - bar.at) / QUARTER)));
  const pieces = spans.flatMap((span) => cut(span, bar, beat, triplets));

  const state = new Map();
  const tokens = [];
  pieces.forEach((piece, i) => {
    const offset = piece.start - bar.at;
    const triplet = triplets.has(Math.floor(offset / QUARTER));
    if (i && (triplet ? offset % QUARTER === 0 : offset % beat === 0)) tokens.push({ text: " " });
    if (triplet && offset % QUARTER === 0) {
      const count = pieces.filter((other) => Math.floor((other.start - bar.at) / QUARTER) === offset / QUARTER).length;
      tokens.push({ text: `(3:2:${count}` });
    }
    const ticks = (piece.end - piece.start) * (triplet ? 1.5 : 1);
    if (!piece.chord) {
      // The bracket of a triplet hangs on its first and last sign, so those are never invisible.
      tokens.push({ text: `${quiet && !triplet ? "x" : "z"}${length(ticks)}`, start: piece.start });
      return;
    }
    const tied = piece.chord.start < bar.at;
    const names = piece.chord.notes.map((note) => abcPitch(note.pitch, key, state, tied));
    const body = names.length > 1 ? `[${names.join("")}]` : names[0];
    const tie = piece.end < piece.chord.end ? "-" : "";
    tokens.push({ text: `${body}${length(ticks)}${tie}`, chord: piece.chord, start: piece.start, end: piece.end });
  });
  return tokens;
}

/** Ticks of what is beamed together and counted. */
function beatOf({ meter: [count, unit] }) {
  const one = (QUARTER * 4) / unit;
  return unit >= 8 && count % 3 === 0 && count > 3 ? 3 * one : Math.max(one, unit >= 8 ? QUARTER : one);
}

/** A span as pieces that note heads can show, tied where there are several. */
function cut(span, bar, beat, triplets) {
  const pieces = [];
  let at = span.start;
  while (at < span.end) {
    const offset = at - bar.at;
    const quarter = Math.floor(offset / QUARTER);
    let to = span.end;
    for (let q = quarter + 1; bar.at + q * QUARTER < to; q++) {
      if (triplets.has(q) || triplets.has(q - 1)) to = bar.at + q * QUARTER;
    }
    if (!triplets.has(quarter)) to = at + longest(offset, to - at, beat, bar.ticks);
    pieces.push({ ...span, start: at, end: to });
    at = to;
  }
  return pieces;
}

/** The longest note that may stand at `offset` of a bar for `rest` ticks. */
function longest(offset, rest, beat, whole) {
  const into = offset % beat;
  const fits = (ticks) => {
    if (ticks > rest) return false;
    if (into === 0) return ticks === rest || ticks % beat === 0;
    const left = beat - into;
    // Off the beat a note ends with it at the latest, but for the usual syncopation.
    return ticks <= left || (ticks === rest && 2 * into === beat && ticks <= beat && 2 * (offset + left) !== whole);
  };
  return WRITTEN.find(fits) ?? Math.min(rest, 3);
}

/**
 * A pitch in ABC; accidentals only where the bar does not know them yet. That of a note tied over the bar
 * line holds for this note alone.
 */
function abcPitch(pitch, [sharps, minor], state, tied) {
  const { letter, accidental, octave } = spell(pitch, sharps, minor);
  const key = letter + octave;
  const current = state.has(key) ? state.get(key) : signatureAccidental(letter, sharps);
  state.set(key, tied && accidental !== signatureAccidental(letter, sharps) ? null : accidental);
  const sign = current === accidental ? "" : ACCIDENTALS[accidental];
  const name = octave >= 5 ? letter.toLowerCase() + "'".repeat(octave - 5) : letter + ",".repeat(4 - octave);
  return sign + name;
}

function length(ticks) {
  const [over, under] = [ticks * 2, UNIT * 2];
  const divisor = gcd(over, under);
  const [a, b] = [over / divisor, under / divisor];
  return b === 1 ? (a === 1 ? "" : String(a)) : `${a}/${b}`;
}

/** A text between quotes. */
const quoted = (text) => text.replace(/["\\%\n]/g, "");
/** A syllable under a note: what ABC reads as signs is taken out. */
const syllable = (text) => text.replace(/["\\%\n|*_]/g, "").replace(/-+$/, "").replaceAll("-", "\\-").trim().replace(/\s+/g, "~") || "*";

const gcd = (a, b) => (b ? gcd(b, a % b) : a);
const plain = (name) => String(name ?? "").replace(/[^\p{L}\p{N} .,'-]/gu, "").slice(0, 24).trim();
