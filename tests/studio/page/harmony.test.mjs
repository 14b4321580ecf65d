import assert from "node:assert/strict";
import test from "node:test";
import { chordLabel, lineOf, setLyrics, setText, textAt, write } from "../../../musictx/studio/page/js/document/harmony.js";
import { apply, toWire } from "../../../musictx/studio/page/js/document/operation.js";
import { pieceOf } from "./music.mjs";

test("a chord is written, replaced and taken away; sections beside it stay", () => {
  const markers = [[0, "Verse"], [0, "F#:min7"], [2, "G:maj"]];
  const piece = pieceOf([], { markers, chords: [[0, "F#:min7", "F#m7"], [2, "G:maj", "G"]], sections: [[0, "Verse"]] });
  const after = (...change) => setText(piece, ...change)?.markers;
  assert.deepEqual(after("chord", 0, "Bb:maj"), [[0, "Verse"], [0, "Bb:maj"], [2, "G:maj"]]);
  assert.deepEqual(after("chord", 1, "C:maj"), [[0, "Verse"], [0, "F#:min7"], [1, "C:maj"], [2, "G:maj"]]);
  assert.deepEqual(after("section", 2, "A"), [[0, "Verse"], [0, "F#:min7"], [2, "A"], [2, "G:maj"]]);
  assert.deepEqual(after("section", 0, "Chorus"), [[0, "Chorus"], [0, "F#:min7"], [2, "G:maj"]]);
  const both = ["Bb:maj", "A"].reduce((now, text, i) => apply(now, setText(now, i ? "section" : "chord", 1, text, i ? text : "Bb")), piece);
  assert.deepEqual(both.chords[1], [1, "Bb:maj", "Bb"], "one after the other, before the server has answered");
  assert.deepEqual(both.sections, [[0, "Verse"], [1, "A"]]);
  assert.ok(!("chords" in toWire(setText(piece, "chord", 1, "C:maj", "C"), 0)));
  assert.deepEqual(after("chord", 0, ""), [[0, "Verse"], [2, "G:maj"]]);
  assert.equal(setText(piece, "chord", 1, ""), null);
  assert.deepEqual(textAt(piece.chords, 2.01), [2, "G:maj", "G"]);
  const found = write(piece, [[0, "A:min", "Am"], [2, "N", "N.C."]]);
  assert.deepEqual(found.markers, [[0, "Verse"], [0, "A:min"], [2, "N"]], "what was named before gives way");
  assert.equal(chordLabel("Cm7b5/Eb"), "Cm7♭5/E♭");
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
