import assert from "node:assert/strict";
import test from "node:test";
import { Beats } from "../../../musictx/studio/page/js/document/beats.js";
import { chordLabel, lineOf, setLyrics, setText, textAt, write } from "../../../musictx/studio/page/js/document/harmony.js";
import { lines } from "../../../musictx/studio/page/js/document/losses.js";
import { barsOf, mixed } from "../../../musictx/studio/page/js/document/mix.js";
import { audible, controllers, duplicated, isLocked, level, locked, panWords, reordered, tracked } from "../../../musictx/studio/page/js/document/mixer.js";
import { apply, toWire } from "../../../musictx/studio/page/js/document/operation.js";
import { proposalFromWire } from "../../../musictx/studio/page/js/document/takes.js";
import { beatsOf, pieceOf, rows } from "./music.mjs";

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

const piece = pieceOf([[0, 0, 1, 60, 80, 0], [1, 1, 2, 40, 70, 1]], { pedals: [[0, 127, 0], [1, 0, 0]] });

test("mute silences, solo silences all others, and a mute track alone is heard", () => {
  const of = (...flags) => flags.map((flag, id) => ({ id, [flag]: true }));
  const heard = (tracks) => tracks.filter((track) => audible(tracks, track.id)).map((track) => track.id);
  assert.deepEqual(heard(of("x", "x")), [0, 1]);
  assert.deepEqual(heard(of("mute", "x")), [1]);
  assert.deepEqual(heard(of("x", "solo", "solo")), [1, 2]);
  assert.deepEqual(heard([{ id: 0, mute: true, solo: true }, { id: 1 }]), [0]);
  const sent = controllers([{ id: 3, volume: 90, pan: 0, reverb: 20 }, { id: 5, mute: true }]);
  assert.deepEqual([...sent], [[3, [[7, 90], [10, 0], [91, 20]]], [5, [[7, 0], [10, 64], [91, 40]]]]);
  assert.deepEqual([level({}, "volume"), panWords(64), panWords(0), panWords(127)], [100, "middle", "100 % left", "100 % right"]);
});

test("a track is duplicated with its notes and pedals, moved, and locked as a whole", () => {
  const twice = apply(piece, duplicated(piece, 0));
  assert.deepEqual(twice.tracks.map((track) => [track.id, track.name]), [[0, "Piano"], [2, "Piano copy"], [1, "Bass"]]);
  assert.deepEqual(rows(twice).at(-1), [2, 0, 1, 60, 80, 2]);
  assert.deepEqual(twice.pedals.filter(([, , of]) => of === 2), [[0, 127, 2], [1, 0, 2]]);
  assert.deepEqual(apply(piece, reordered(piece, 1, -1)).tracks.map((track) => track.id), [1, 0]);
  assert.equal(reordered(piece, 1, 1), null);
  const held = apply(piece, locked(piece, 1));
  assert.deepEqual([[...held.locked], isLocked(held, 1), isLocked(held, 0)], [[1], true, false]);
  assert.deepEqual([...apply(held, locked(held, 1)).locked], []);
  assert.equal(tracked(piece, 0, { name: "Piano" }), null);
  assert.equal(apply(piece, tracked(piece, 0, { volume: 3 })).tracks[0].volume, 3);
});

const beats = new Beats(beatsOf(20)); // bars of two seconds
const brought = { id: 7, name: "Bass", program: 33, drum: false };
const proposal = (number, notes, removes, tracks = []) => proposalFromWire({ number, state: "done", notes, removes, tracks });

test("a mix has each bar of one of the two, and only what that one replaces goes", () => {
  const piece = pieceOf([[0, 0, 1, 60, 80, 0], [1, 2, 3, 61, 80, 0], [2, 4, 5, 62, 80, 0], [3, 6, 7, 63, 80, 0]], { locked: [2] });
  const take = { id: 1 };
  const one = proposal(1, [[0, 2.5, 70, 80, 0], [2, 3, 71, 80, 0], [4, 5, 72, 80, 0]], [0, 1, 2]);
  const two = proposal(2, [[0, 1, 40, 80, 7], [2.1, 4.2, 41, 80, 7], [4, 5, 42, 80, 0]], [1, 2], [brought]);
  const bars = barsOf({ begin: 0, end: 6 }, beats);
  assert.deepEqual(bars.map((bar) => [bar.number, bar.begin, bar.end]), [[1, 0, 2], [2, 2, 4], [3, 4, 6]]);
  const after = apply(piece, mixed(piece, take, [one, two], bars, [0, 1, 0]));
  assert.deepEqual(rows(after), [
    [2, 4, 5, 62, 80, 0], [3, 6, 7, 63, 80, 0], // locked, and after it
    [4, 0, 2, 70, 80, 0], [5, 4, 5, 72, 80, 0], // the first one's, cut where the other goes on
    [6, 2.1, 4, 41, 80, 7],
  ]);
  assert.deepEqual(after.tracks.map((track) => track.id), [0, 1, 7]);
  const both = [1, 2].map((number) => proposal(number, [[0, 1, 40 + number, 80, 7], [2, 3, 50 + number, 80, 7]], [], [brought]));
  const shared = apply(piece, mixed(piece, take, both, bars, [0, 1, 0]));
  assert.deepEqual(rows(shared).slice(-2).map((row) => [row[3], row[5]]), [[41, 7], [52, 7]], "what both bring shares a track");
});

test("losses become lines from the highest to the lowest", () => {
  const { train, val, low, high, steps } = lines([[0, 3, null], [50, 2, 2.5], [100, 1, null]]);
  assert.deepEqual([low, high, steps], [1, 3, 100]);
  assert.equal(train, "0.00,1.00 50.00,20.00 100.00,39.00");
  assert.equal(val, "50.00,10.50");
  assert.equal(lines([]).steps, 0);
  assert.equal(lines([[5, 2, null]]).train, "100.00,20.00", "a single value is a point in the middle");
});
