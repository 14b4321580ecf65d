/** A piece as text in ABC notation, with the position of every note in the text. Pure functions. */

import { abcKey, likelyKey, signatureAccidental, spell } from "../document/spelling.js";
import { barsOf, partsOf, quantiseForNotation, QUARTER, quartersOf } from "./score.js";

const NOTE_LENGTHS = [192, 144, 96, 72, 48, 36, 24, 18, 12, 9, 6, 3]; // ticks of a single note head, with or without dots
const ACCIDENTALS = { "-2": "__", "-1": "_", 0: "=", 1: "^", 2: "^^" };

/** @typedef {{from: number, to: number, ids: number[]}} Mark  first and last character, notes */

/**
 * Return a piece in ABC. `onGrid` is the share of notes that start on the grid, `bars` the number of bars of the piece.
 * @param {Piece} piece
 * @param {{barsPerLine?: number, maxBars?: number}} [options]  maxBars: leave out later bars
 * @returns {{abc: string, marks: Mark[], onGrid: number, bars: number}}
 */
export function toAbc(piece, { barsPerLine = 4, maxBars = Infinity } = {}) {
  const allBars = barsOf(piece);
  const end = allBars[maxBars]?.time ?? Infinity;
  const { notes, onGrid } = quantiseForNotation([...piece.notes.values()].filter((note) => note.start < end + 1), piece);
  const parts = partsOf(notes, piece.tracks);
  const pitches = parts.flatMap((part) => part.staves.flatMap((staff) => staff.voices.flat(2))).flatMap((chord) => chord.notes.map((note) => note.pitch));
  const bars = allBars.slice(0, maxBars).map((bar) => ({ ...bar, key: bar.key ?? [likelyKey(pitches), 0] }));
  if (!bars.length || !parts.length) return { abc: "", marks: [], onGrid, bars: allBars.length };

  const { abc: head, voices } = header(parts, bars[0]);
  let abc = head;
  const texts = textsOf(piece);
  /** @type {Mark[]} */
  const marks = [];
  for (let first = 0; first < bars.length; first += barsPerLine) {
    for (const voice of voices) {
      abc += `V:${voice.number}\n`;
      const syllables = [];
      for (let i = first; i < Math.min(first + barsPerLine, bars.length); i++) {
        const [bar, previous] = [bars[i], bars[i - 1]];
        if (previous && String(previous.meter) !== String(bar.meter)) abc += `[M:${bar.meter.join("/")}]`;
        if (previous && String(previous.key) !== String(bar.key)) abc += `[K:${abcKey(bar.key)}]`;
        const tokens = barTokens(voice, bar);
        if (voice.number === 1) addTexts(tokens, bar, texts, syllables);
        for (const { text, chord, start, end, above = "" } of tokens) {
          abc += above;
          if (chord && !voice.lower && texts.fermatas.some((time) => time > start - 3 && time < end - 3)) abc += "!fermata!";
          if (chord) marks.push({ from: abc.length, to: abc.length + text.length, ids: chord.notes.map((note) => note.id) });
          abc += text;
        }
        abc += i === bars.length - 1 ? "|]" : "|";
      }
      abc += "\n";
      if (syllables.some((syllable) => syllable !== "*" && syllable !== "_")) abc += `w:${syllables.join(" ")}\n`;
    }
  }
  return { abc, marks, onGrid, bars: allBars.length };
}

/** Return the lines before the music, and the voices in order; all but the first voice of a staff are `lower`. */
function header(parts, bar) {
  const voices = [];
  let lines = "";
  const groups = parts.map((part) => { // which voices share a staff, and which staves a bracket
    const name = parts.length > 1 ? plainName(part.name) : "";
    const staves = part.staves.map((staff, s) => {
      const numbers = staff.voices.map((chords, v) => {
        const number = voices.push({ number: voices.length + 1, chords, lower: v > 0 });
        const stem = staff.voices.length > 1 ? ` stem=${v % 2 ? "down" : "up"}` : "";
        lines += `V:${number} clef=${staff.clef}${stem}${name && s + v === 0 ? ` name="${name}"` : ""}\n`;
        return number;
      });
      return numbers.length > 1 ? `(${numbers.join(" ")})` : numbers[0];
    });
    const [open, close] = part.choir ? "[]" : "{}";
    return staves.length > 1 ? `${open}${staves.join(" | ")}${close}` : staves[0];
  });
  const abc = `X:1\n%%barnumbers 0\n%%setbarnb ${bar.number}\nM:${bar.meter.join("/")}\nL:1/${4 * QUARTER}\n%%score ${groups.join(" ")}\nK:${abcKey(bar.key)}\n${lines}`;
  return { abc, voices };
}

/** Return the texts and fermatas of a piece, each at its tick. @param {Piece} piece */
function textsOf(piece) {
  const quarters = quartersOf(piece);
  const ticks = (seconds) => Math.round(quarters(seconds) * QUARTER);
  const chordText = (symbol) => `"${symbol === "N.C." ? "^" : ""}${quoted(symbol)}"`;
  return {
    above: [
      ...piece.sections.map(([time, text]) => ({ tick: ticks(time), text: `"^${quoted(text)}"` })),
      ...piece.chords.map(([time, , symbol]) => ({ tick: ticks(time), text: chordText(symbol) })),
    ],
    lyrics: piece.lyrics.map(([time, text]) => ({ tick: ticks(time), text: syllable(text) })),
    fermatas: piece.fermatas.map(ticks),
  };
}

/** Set the texts `above` the tokens of a bar, and append the syllable of each chord to `syllables`. */
function addTexts(tokens, bar, { above, lyrics }, syllables) {
  const timed = tokens.filter(({ start }) => start !== undefined);
  timed.forEach((token, i) => {
    // A text stands over the last note or rest that starts before the next one does.
    const from = i ? token.start : bar.tick;
    const to = timed[i + 1]?.start ?? bar.tick + bar.ticks;
    token.above = above.filter(({ tick }) => tick >= from && tick < to).map(({ text }) => text).join("");
    if (!token.chord) return;
    const isTied = token.chord.start < token.start;
    syllables.push(isTied ? "_" : lyrics.find(({ tick }) => Math.abs(tick - token.start) < 3)?.text ?? "*");
  });
}

/** Return the tokens of one voice in one bar: notes and rests with their ticks, beam breaks and triplet signs without. */
function barTokens({ chords, lower }, bar) {
  const end = bar.tick + bar.ticks;
  const beat = beatOf(bar);
  const inside = chords.filter((chord) => chord.start < end && chord.end > bar.tick);
  if (!inside.length) return [{ text: `${lower ? "x" : "z"}${bar.ticks}`, start: bar.tick }];
  /** @type {{start: number, end: number, chord: any}[]} */
  const spans = [];
  let filled = bar.tick;
  for (const chord of inside) {
    const [start, stop] = [Math.max(chord.start, bar.tick), Math.min(chord.end, end)];
    if (start > filled) spans.push({ start: filled, end: start, chord: null });
    spans.push({ start, end: stop, chord });
    filled = stop;
  }
  if (filled < end) spans.push({ start: filled, end, chord: null });

  // A quarter is a triplet if a span starts or ends on a third of it. No note crosses the edge of a triplet.
  const triplets = new Set(spans.flatMap((span) => [span.start, span.end])
    .map((tick) => tick - bar.tick).filter((offset) => offset % 8 === 0 && offset % QUARTER !== 0)
    .map((offset) => Math.floor(offset / QUARTER)));
  const pieces = spans.flatMap((span) => splitSpan(span, bar, beat, triplets));

  const accidentals = new Map(); // letter and octave -> accidental so far in this bar
  const tokens = [];
  pieces.forEach((piece, i) => {
    const offset = piece.start - bar.tick;
    const triplet = triplets.has(Math.floor(offset / QUARTER));
    if (i && (triplet ? offset % QUARTER === 0 : offset % beat === 0)) tokens.push({ text: " " });
    if (triplet && offset % QUARTER === 0) {
      const count = pieces.filter((other) => Math.floor((other.start - bar.tick) / QUARTER) === offset / QUARTER).length;
      tokens.push({ text: `(3:2:${count}` });
    }
    const ticks = (piece.end - piece.start) * (triplet ? 1.5 : 1);
    if (!piece.chord) {
      // The bracket of a triplet needs a visible first and last sign.
      tokens.push({ text: `${lower && !triplet ? "x" : "z"}${ticks}`, start: piece.start });
      return;
    }
    const isTied = piece.chord.start < bar.tick;
    const names = piece.chord.notes.map((note) => abcPitch(note.pitch, bar.key, accidentals, isTied));
    const body = names.length > 1 ? `[${names.join("")}]` : names[0];
    const tie = piece.end < piece.chord.end ? "-" : "";
    tokens.push({ text: `${body}${ticks}${tie}`, chord: piece.chord, start: piece.start, end: piece.end });
  });
  return tokens;
}

/** Return the ticks of a beat, whose notes share a beam: a dotted quarter in 6/8, a quarter at least in other meters. */
function beatOf({ meter: [count, unit] }) {
  const ticks = (QUARTER * 4) / unit;
  return unit >= 8 && count % 3 === 0 && count > 3 ? 3 * ticks : Math.max(ticks, QUARTER);
}

/** Split a span into lengths that note heads can have; the pieces are tied. */
function splitSpan(span, bar, beat, triplets) {
  const pieces = [];
  let start = span.start;
  while (start < span.end) {
    const offset = start - bar.tick;
    const quarter = Math.floor(offset / QUARTER);
    let end = span.end;
    for (let q = quarter + 1; bar.tick + q * QUARTER < end; q++) {
      if (triplets.has(q) || triplets.has(q - 1)) end = bar.tick + q * QUARTER;
    }
    if (!triplets.has(quarter)) end = start + longestLength(offset, end - start, beat, bar.ticks);
    pieces.push({ ...span, start, end });
    start = end;
  }
  return pieces;
}

/** Return the length of the longest note that may start `offset` ticks after the bar line, at maxBars `rest`. */
function longestLength(offset, rest, beat, barTicks) {
  const into = offset % beat;
  const fits = (ticks) => {
    if (ticks > rest) return false;
    if (into === 0) return ticks === rest || ticks % beat === 0;
    const left = beat - into;
    // A note that starts within a beat ends with that beat, except for a syncopation of a whole beat.
    return ticks <= left || (ticks === rest && 2 * into === beat && ticks <= beat && 2 * (offset + left) !== barTicks);
  };
  return NOTE_LENGTHS.find(fits) ?? Math.min(rest, 3);
}

/**
 * Return a pitch in ABC, with an accidental only where the key and the bar so far do not give it. The accidental of a
 * note that is tied over the bar line does not count for later notes.
 */
function abcPitch(pitch, [sharps, minor], accidentals, isTied) {
  const { letter, accidental, octave } = spell(pitch, sharps, minor);
  const key = letter + octave;
  const signature = signatureAccidental(letter, sharps);
  const current = accidentals.has(key) ? accidentals.get(key) : signature;
  accidentals.set(key, isTied && accidental !== signature ? null : accidental);
  const sign = current === accidental ? "" : ACCIDENTALS[accidental];
  const name = octave >= 5 ? letter.toLowerCase() + "'".repeat(octave - 5) : letter + ",".repeat(4 - octave);
  return sign + name;
}

/** Remove what would end a text in quotes. */
const quoted = (text) => text.replace(/["\\%\n]/g, "");
/** Return a syllable for a `w:` line, without the characters that have a meaning there. */
const syllable = (text) => text.replace(/["\\%\n|*_]/g, "").replace(/-+$/, "").replaceAll("-", "\\-").trim().replace(/\s+/g, "~") || "*";

/** Return the name of a track without the characters that have a meaning in ABC, and shortened. */
const plainName = (name) => String(name ?? "").replace(/[^\p{L}\p{N} .,'-]/gu, "").slice(0, 24).trim();
