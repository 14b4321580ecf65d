import assert from "node:assert/strict";
import test from "node:test";
import { chordLabel, chordsOf, inForce, lineOf, setLyrics, setText, write } from "../../../musictx/studio/page/js/document/harmony.js";
import { apply } from "../../../musictx/studio/page/js/document/operation.js";
import { pieceOf } from "./music.mjs";

test("a chord is written, replaced and taken away; sections beside it stay", () => {
  let piece = pieceOf([], { markers: [[0, "Verse"]] });
  piece = apply(piece, setText(piece, "chord", 0, "F#m7"));
  assert.deepEqual(chordsOf(piece), [[0, "F#:min7"]]);
  piece = apply(piece, setText(piece, "chord", 2, "G"));
  piece = apply(piece, setText(piece, "chord", 0, "Bb"));
  piece = apply(piece, setText(piece, "section", 4, "A")); // a letter is a section there, not a chord
  assert.deepEqual(piece.markers, [[0, "Verse"], [0, "Bb:maj"], [2, "G:maj"], [4, "A"]]);
  assert.deepEqual(inForce(chordsOf(piece), 1.9), [0, "Bb:maj"]);
  piece = apply(piece, setText(piece, "chord", 0, ""));
  assert.deepEqual(piece.markers, [[0, "Verse"], [2, "G:maj"], [4, "A"]]);
  assert.equal(setText(piece, "chord", 0, "Hm"), null);
  assert.equal(setText(piece, "chord", 0, ""), null);
});

test("chords that were found can be written; what was named before gives way", () => {
  const piece = pieceOf([], { markers: [[0, "Verse"], [1, "C:maj"]] });
  const { markers } = apply(piece, write(piece, [[0, "A:min"], [2, "N"]]));
  assert.deepEqual(markers, [[0, "Verse"], [0, "A:min"], [2, "N"]]);
  assert.equal(write(piece, []), null);
});

test("chords are shown as musicians write them", () => {
  const shown = { "F#:min7": "F♯m7", "Bb:maj": "B♭", "C:hdim7/b3": "Cm7♭5/E♭", N: "N.C.", "Eb:9": "E♭9" };
  for (const [name, label] of Object.entries(shown)) assert.equal(chordLabel(name), label);
});

test("symbols in markers are chords; a letter is one only beside others", () => {
  const of = (...texts) => chordsOf(pieceOf([], { markers: texts.map((text, i) => [i, text]) })).map(([, name]) => name);
  assert.deepEqual(of("Am7", "F", "Verse", "G/B"), ["A:min7", "F:maj", "G:maj/3"]);
  assert.deepEqual(of("A", "B", "A"), []);
  assert.deepEqual(of("A", "A:min7"), ["A:min7"]);
});

test("words stand under the notes, a syllable each; they are changed and taken away", () => {
  const starts = [0, 0.5, 0.505, 1, 1.5, 2, 2.5];
  let piece = pieceOf([], { lyrics: [] });
  const sung = (line, place) => {
    const operation = setLyrics(piece, line, place, starts);
    if (typeof operation !== "string" && operation) piece = apply(piece, operation);
    return typeof operation === "string" ? operation : piece.lyrics;
  };
  assert.deepEqual(sung("Freu-de _ schö-ner", { begin: 0 }), [[0, "Freu-"], [0.5, "de"], [1.5, "schö-"], [2, "ner"]]);
  assert.equal(lineOf(piece.lyrics), "Freu-de schö-ner");
  assert.deepEqual(sung("la", { begin: 0.5 }), [[0, "Freu-"], [0.5, "la"], [1.5, "schö-"], [2, "ner"]]);
  assert.match(sung("a b c", { begin: 2 }), /2 notes from here on, and 3 syllables/);
  assert.deepEqual(sung("", { begin: 0.5 }), [[0, "Freu-"], [1.5, "schö-"], [2, "ner"]]);
  assert.deepEqual(sung("x", { begin: 1, end: 2.5 }), [[0, "Freu-"], [1, "x"]]); // of those bars all others go
  assert.equal(setLyrics(piece, "", { begin: 2 }, starts), null);
  assert.deepEqual(sung("", { begin: 0, end: 4 }), []);
});
