import assert from "node:assert/strict";
import { createRequire } from "node:module";
import test from "node:test";
import { toAbc } from "../../../musictx/studio/page/js/notation/abc.js";
import { barsOf, quantiseForNotation, QUARTER, voicesOf } from "../../../musictx/studio/page/js/notation/score.js";
import { likelyKey, signatureAccidental, spell } from "../../../musictx/studio/page/js/document/spelling.js";
import { pieceOf, randomly } from "./music.mjs";

const abcjs = createRequire(import.meta.url)("../../../musictx/studio/page/vendor/abcjs/abcjs.min.js");

/** A document in seconds at a quarter of 0.5 s; notes [start, end, pitch, track] in quarters. */
function made(rows, { meters = [[0, 4, 4]], keys = [[0, 0, 0]], names = ["a"], quarters = 64, quarter = 0.5 } = {}) {
  const beats = [];
  let at = 0, bar = 1;
  while (at < quarters) {
    const [, count, unit] = meters.findLast((m) => m[0] <= at * quarter + 1e-9);
    for (let beat = 1; beat <= count; beat++) beats.push([(at + ((beat - 1) * 4) / unit) * quarter, bar, beat]);
    at += (count * 4) / unit;
    bar++;
  }
  const notes = rows.map(([start, end, pitch, track = 0], i) => [i, start * quarter, end * quarter, pitch, 80, track]);
  return pieceOf(notes, { tracks: names.map((name, id) => ({ id, name, program: 0, drum: false })), beats, meters, keys });
}
const onGridOf = (piece) => quantiseForNotation([...piece.notes.values()], piece);

/** What abcjs would play: [pitch, start, end] in ticks, ties joined. */
function played(abc) {
  const [tune] = abcjs.parseOnly(abc);
  assert.equal(tune.warnings, undefined, `${tune.warnings}\n${abc}`);
  const notes = [];
  for (const track of tune.setUpAudio({}).tracks) {
    for (const event of track) {
      if (event.cmd !== "note") continue;
      const start = Math.round(event.start * 4 * QUARTER);
      notes.push([event.pitch, start, start + Math.round((event.duration + (event.gap || 0)) * 4 * QUARTER)]);
    }
  }
  return notes.sort((a, b) => a[1] - b[1] || a[0] - b[0]);
}

/** The notes as written: abcjs shortens what it plays, so lengths are read off its tree. */
function written(abc) {
  const [tune] = abcjs.parseOnly(abc);
  assert.equal(tune.warnings, undefined, `${tune.warnings}\n${abc}`);
  const sums = new Map();
  for (const line of tune.lines) {
    (line.staff ?? []).forEach((staff, s) => staff.voices.forEach((voice, v) => {
      let scale = 1, left = 0;
      for (const element of voice) {
        if (element.el_type !== "note") continue;
        if (element.startTriplet) [scale, left] = [element.tripletMultiplier, element.tripletR];
        const ticks = element.duration * 4 * QUARTER * (left > 0 ? scale : 1);
        left--;
        sums.set(`${s} ${v}`, (sums.get(`${s} ${v}`) ?? 0) + ticks);
      }
    }));
  }
  return sums;
}

const expected = (document) => onGridOf(document).notes
  .map(({ pitch, start, end }) => [pitch, start, end]).sort((a, b) => a[1] - b[1] || a[0] - b[0]);

test("what is written is what was there: pitches and starts, by abcjs itself", () => {
  for (let seed = 1; seed <= 40; seed++) {
    const draw = randomly(seed);
    const meters = [[[0, 4, 4]], [[0, 3, 4]], [[0, 6, 8]], [[0, 2, 2]], [[0, 5, 4]], [[0, 4, 4], [4, 3, 4]]][seed % 6];
    const sharps = (seed % 13) - 6;
    const rows = [];
    for (const [track, low] of [[0, 62], [1, 40]]) {
      for (let at = 0; at < 20;) {
        const length = [0.25, 0.5, 0.5, 0.75, 1, 1.5, 2, 1 / 3][Math.floor(draw() * (at % 1 === 0 ? 8 : 7))];
        if (length === 1 / 3) {
          for (let k = 0; k < 3; k++) rows.push([at + k / 3, at + (k + 1) / 3, low + Math.floor(draw() * 14), track]);
          at += 1;
        } else {
          const pitch = low + Math.floor(draw() * 14);
          if (draw() > 0.2) rows.push([at, at + length, pitch, track]);
          if (draw() > 0.7) rows.push([at, at + length, pitch + 4, track]);
          at += length;
        }
      }
    }
    const document = made(rows, { meters, keys: [[0, sharps, seed % 2]], names: ["upper", "lower"], quarters: 40 });
    const { abc, onGrid } = toAbc(document);
    assert.equal(onGrid, 1);
    assert.deepEqual(played(abc).map(([p, s]) => [p, s]), expected(document).map(([p, s]) => [p, s]), `seed ${seed}\n${abc}`);
    const wanted = expected(document);
    played(abc).forEach(([, start, end], i) => assert.ok(Math.abs(end - start - (wanted[i][2] - wanted[i][1])) < 9, `seed ${seed}: ${end - start}, not ${wanted[i]}\n${abc}`));
    const bars = barsOf(document);
    const total = bars.at(-1).tick + bars.at(-1).ticks;
    for (const [voice, ticks] of written(abc)) assert.ok(Math.abs(ticks - total) < 1e-6, `seed ${seed}, voice ${voice}: ${ticks}, not ${total}\n${abc}`);
  }
});

test("a chorale is a choir of two staves with two voices each", () => {
  const rows = [72, 67, 60, 48].flatMap((pitch, track) => [0, 1, 2, 3].map((at) => [at, at + 1, pitch, track]));
  const { abc } = toAbc(made(rows, { names: ["Soprano", "Alto", "Tenor", "Bass"], keys: [[0, -3, 1]] }));
  assert.match(abc, /%%score \[\(1 2\) \| \(3 4\)\]/);
  assert.match(abc, /K:Cm/);
  assert.equal(abc.match(/clef=treble stem=/g).length, 2);
  assert.equal(abc.match(/clef=bass stem=/g).length, 2);
  assert.deepEqual(played(abc).length, 16);
});

test("names of tracks cannot break the text", () => {
  const rows = [[0, 1, 60, 0], [0, 1, 40, 1]];
  const { abc } = toAbc(made(rows, { names: ['x" clef=alto\nK:C', "%%begin<script>"] }));
  assert.equal(abc.match(/^K:/gm).length, 1);
  assert.ok(!abc.includes("<script>") && !abc.includes('x"'));
  assert.equal(played(abc).length, 2);
});

test("a fermata stands over the upper voice of each staff, where it is", () => {
  // Two voices on a staff, two staves; the last chord is held, and the bass is tied into it.
  const rows = [[0, 2, 72, 0], [0, 2, 67, 1], [0, 2, 60, 2], [0, 4, 48, 3], [2, 4, 71, 0], [2, 4, 67, 1], [2, 4, 62, 2]];
  const document = { ...made(rows, { names: ["Soprano", "Alto", "Tenor", "Bass"] }), fermatas: [1] };
  const { abc } = toAbc(document);
  assert.equal(abcjs.parseOnly(abc)[0].warnings, undefined, abc);
  const lines = abc.split("\n").filter((line) => line.includes("|"));
  assert.deepEqual(lines.filter((line) => line.includes("!fermata!")).map((line) => line.match(/!fermata!(\S+?)48/)[1]), ["B", "D"], abc);
  assert.ok(!toAbc({ ...document, fermatas: [] }).abc.includes("fermata"));
});

test("only the first bars of a long piece are written", () => {
  const piece = made(Array.from({ length: 32 }, (_, i) => [i, i + 1, 60 + (i >> 2), i % 2]), { names: ["a", "b"] });
  const { abc, bars } = toAbc(piece, { maxBars: 3 });
  assert.equal(bars, 8);
  assert.deepEqual(played(abc).map(([pitch]) => pitch), [0, 1, 2].flatMap((bar) => Array(4).fill(60 + bar)));
  assert.equal(toAbc(made([])).abc, "");
});

test("chords and sections stand over the notes, syllables under them", () => {
  const above = { chords: [[0, "A:min", "Am"], [1, "N", "N.C."]], sections: [[0, "Verse"]], lyrics: [[0, "Freu-"], [0.5, "de"]] };
  const { abc } = toAbc({ ...made([[0, 1, 60], [1, 2, 62], [2, 4, 64]]), ...above });
  assert.match(abc, /"\^Verse""Am"C24 D24 "\^N.C."E48\|\]\nw:Freu de \*/);
});

test("music off the grid is told, music played a little early is not", () => {
  const draw = randomly(5);
  const loose = Array.from({ length: 60 }, (_, i) => [i * 0.713 + draw() * 0.1, i * 0.713 + 0.5, 60 + (i % 12)]);
  assert.ok(onGridOf(made(loose)).onGrid < 0.7);
  const human = Array.from({ length: 30 }, (_, i) => [i / 2 - 0.02 * (i > 0), i / 2 + 0.42, 60 + (i % 12)]);
  const { notes, onGrid } = onGridOf(made(human));
  assert.equal(onGrid, 1);
  notes.forEach((note, i) => assert.equal(note.start, i * 12));
  notes.slice(0, -1).forEach((note) => assert.equal(note.end - note.start, 12));
});

test("names of pitches go with the key, and sound as they should", () => {
  const semitones = { C: 0, D: 2, E: 4, F: 5, G: 7, A: 9, B: 11 };
  for (let sharps = -7; sharps <= 7; sharps++) {
    for (const minor of [0, 1]) {
      const scale = [0, 2, 4, 5, 7, 9, 11].map((step) => (((sharps * 7 + step) % 12) + 12) % 12);
      for (let pitch = 21; pitch < 109; pitch++) {
        const { letter, accidental, octave } = spell(pitch, sharps, minor);
        assert.equal((octave + 1) * 12 + semitones[letter] + accidental, pitch);
        if (scale.includes(pitch % 12)) assert.equal(accidental, signatureAccidental(letter, sharps), `${pitch} in ${sharps}`);
      }
    }
  }
  assert.deepEqual(spell(68, 0, 1), { letter: "G", accidental: 1, octave: 4 });
  assert.deepEqual(spell(63, 0), { letter: "E", accidental: -1, octave: 4 });
  assert.equal(likelyKey([62, 64, 66, 67, 69, 71, 73, 74]), 2);
});

test("voices never overlap, and as many are used as sound at once", () => {
  const draw = randomly(9);
  const notes = Array.from({ length: 80 }, (_, id) => {
    const start = Math.floor(draw() * 90) * 6;
    return { id, start, end: start + 6 + 6 * Math.floor(draw() * 6), pitch: 60 + Math.floor(draw() * 20), track: 0 };
  });
  const voices = voicesOf(notes);
  for (const voice of voices) for (let i = 1; i < voice.length; i++) assert.ok(voice[i - 1].end <= voice[i].start);
  const chords = voices.flat();
  const most = Math.max(...chords.map((c) => chords.filter((d) => d.start <= c.start && d.end > c.start).length));
  assert.equal(voices.length, most);
});
