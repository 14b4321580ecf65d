import assert from "node:assert/strict";
import test from "node:test";
import { Beats } from "../../../musictx/studio/page/js/document/beats.js";
import { exchangedNotes, composedUntil, takeStretch, applyNoteEvents, Takes } from "../../../musictx/studio/page/js/document/takes.js";
import { describe, defaultSettings, modelFor, request, TASKS, settingsOf } from "../../../musictx/studio/page/js/panels/tasks.js";
import { dynamicLabel } from "../../../musictx/studio/page/js/document/words.js";
import { beatsOf, pieceOf } from "./music.mjs";

const takeOf = (more = {}) => ({
  id: 7, task: "continue", label: "continue for 8 s", state: "composing", place: 0, progress: 0.5, seed: 3, model: "piano", begin: 4, end: 12,
  tracks: null, request: {}, command: "musictx generate", aside: false, at_end: false, error: null, made: "2026-01-01T00:00:00Z",
  proposals: [1, 2].map((number) => ({ number, state: "composing", notes: [], events: [], tracks: [], removes: [], remark: null })), ...more,
});

test("notes come and go as they are played; a repeated note ends the first one", () => {
  const notes = [];
  applyNoteEvents(notes, [["on", 1, 60, 80, 0], ["on", 1.5, 64, 70, 0], ["off", 2, 60, 0]]);
  assert.deepEqual(notes.map((note) => note.end), [2, null]);
  applyNoteEvents(notes, [["on", 2, 60, 80, 0], ["on", 2.5, 60, 80, 0], ["off", 3, 60, 0], ["off", 9, 60, 1]]);
  assert.deepEqual(notes.map((note) => note.end), [2, null, 3, null]);
  assert.equal(composedUntil({ notes }, 0), 3);
  assert.equal(composedUntil({ notes: [] }, 4), 4);
});

test("a take grows by its stream, and what was written at the end counts", () => {
  const takes = new Takes();
  const seen = [];
  takes.on("notes", ({ proposal }) => seen.push(proposal.notes.length));
  const [proposal] = takeOf().proposals;
  takes.reset([takeOf({ proposals: [{ ...proposal, events: [["on", 4, 60, 80, 0], ["off", 5, 60, 0]] }] })]);
  assert.deepEqual(takes.get(7).proposals[0].notes, [{ start: 4, end: 5, pitch: 60, velocity: 80, track: 0 }], "for a page that connects now");
  takes.reset([takeOf()]);
  takes.addEvents({ take: 7, proposal: 1, events: [["on", 4, 60, 80, 0]] });
  takes.addEvents({ take: 7, proposal: 2, events: [["on", 4, 62, 80, 0]] });
  takes.addEvents({ take: 99, proposal: 1, events: [["on", 4, 62, 80, 0]] });
  assert.deepEqual(seen, [1, 1]);
  // News without notes leaves those that have come.
  takes.update({ ...takeOf(), progress: 0.7, proposals: [{ number: 1, state: "composing" }, { number: 2, state: "composing" }] });
  assert.equal(takes.get(7).proposals[0].notes.length, 1);
  assert.equal(takes.get(7).progress, 0.7);
  takes.finish({ take: 7, proposal: { number: 1, state: "done", notes: [[4, 5, 60, 80, 0], [5, 6, 62, 80, 0]], removes: [1] } });
  assert.deepEqual(takes.get(7).proposals.map((proposal) => proposal.notes.length), [2, 1]);
  takes.update({ ...takeOf(), state: "done", proposals: [{ number: 1, state: "done" }, { number: 2, state: "done" }] });
  assert.deepEqual(takes.get(7).proposals[0].removes, [1]);
  assert.equal(takes.get(7).proposals[0].notes.length, 2);
});

test("a proposal takes the place of another one of its take; the notes which that replaced return, unless this one replaces them", () => {
  const notes = [[1, 8, 9, 60, 80, 0], [2, 12, 13, 62, 80, 0], [5, 0, 1, 60, 80, 0]];
  const brought = { "7/1": [10, 3, notes], "70/2": [20, 2, [[5, 0, 1, 60, 80, 0]]] };
  const early = { number: 2, state: "done", removes: [1], notes: [] };
  const returning = (proposal) => exchangedNotes({ brought, locked: [] }, takeOf(), proposal).restored;
  assert.deepEqual(returning(early), [{ id: 2, start: 12, end: 13, pitch: 62, velocity: 80, track: 0 }]);
  assert.deepEqual(returning({ ...early, state: "composing", removes: [] }), []);
  assert.deepEqual([...exchangedNotes({ brought, locked: new Set([2, 11]) }, takeOf(), { ...early, removes: [1, 2] }).removed], [1, 10, 12]);
});

test("the music of a take stands where it was asked, or after it", () => {
  const place = (task, asked, begin = 4, end = 12, music = "free") => takeStretch(takeOf({ task, begin, end, request: asked }), new Beats(beatsOf(20)), music);
  assert.deepEqual(place("replace", {}), { begin: 4, end: 12 });
  assert.deepEqual(place("continue", { bars: 4 }), { begin: 12, end: 20 });
  assert.deepEqual(place("continue", { seconds: 5 }), { begin: 12, end: 17 });
  assert.deepEqual(place("new", { bars: 2 }, 0, 0), { begin: 0, end: 4 });
  assert.deepEqual(place("continue", { bars: 2 }, 0, 11.5), { begin: 11.5, end: 14 }, "up to a line of a bar");
  assert.deepEqual(place("continue", { bars: 2 }, 0, 11.5, "beats"), { begin: 12, end: 16 }, "from a bar line on");
  assert.deepEqual(place("continue", { bars: 2 }, 0, 12.04, "beats"), { begin: 12, end: 16 }, "which the last note may reach over");
});

const MODELS = [
  { name: "piano", title: "Piano", sentence: "", tasks: ["new", "continue", "replace", "vary"], controls: [{ name: "density" }], suits: ["free"] },
  { name: "pop", title: "Pop", sentence: "", tasks: ["accompany", "continue"], controls: [], suits: ["beats"] },
];
const beats = new Beats(beatsOf(40));
const piece = pieceOf([[0, 0, 1, 60, 80, 0], [1, 4, 6, 62, 80, 1]]);
const none = { stretch: null, tracks: null };
const bars = { stretch: { begin: 2, end: 6 }, tracks: [1] };

test("the model is the one that was chosen, or that suits the music", () => {
  const of = (task, music, model = null) => modelFor(MODELS, { ...defaultSettings(), task, model }, { ...piece, music }).name;
  assert.equal(of("continue", "free"), "piano");
  assert.equal(of("continue", "beats"), "pop");
  assert.equal(of("continue", "beats", "piano"), "piano");
  assert.equal(of("replace", "beats", "pop"), "piano", "the only one that can");
  assert.equal(of("continue", "chorale"), "pop", "chorales keep to beats as well");
});

test("a task is ready where it has what it needs, and else its sentence says what is missing", () => {
  const say = (task, scope, of = piece) => {
    const settings = { ...defaultSettings(), task };
    return describe(settings, of, beats, scope, modelFor(MODELS, settings));
  };
  const chart = { ...pieceOf([]), chords: [[0, "C:maj", "C"], [2, "A:min", "Am"]] };
  const held = pieceOf([[0, 3, 4, 60, 80, 0], [1, 4, 6, 62, 80, 1]], { locked: [1] });
  const without = pieceOf([[0, 3, 4, 60, 80, 0]]); // a note in the first track, none in the second
  for (const [task, scope, of, ready] of [
    ["replace", none, piece, false], ["replace", bars, piece, true], ["replace", bars, held, false], ["replace", { ...bars, tracks: null }, held, true],
    ["vary", none, piece, false], ["vary", bars, piece, true], ["vary", bars, held, false], ["vary", bars, without, false],
    ["continue", none, piece, true], ["continue", { ...none, tracks: [1] }, without, false], ["continue", none, pieceOf([]), false], ["continue", none, chart, false],
    ["accompany", none, piece, true], ["accompany", none, pieceOf([]), false], ["accompany", none, chart, true],
    ["new", none, pieceOf([]), true], ["harmonise", none, piece, false],
  ]) assert.equal(say(task, scope, of).ready, ready, `${task}: ${say(task, scope, of).sentence}`);
  assert.match(say("replace", bars).sentence, /bars 2 to 3 anew in Bass/);
  assert.match(say("continue", { ...none, stretch: { begin: 2, end: 4 } }).sentence, /4 bars after bar 2. The music there is replaced/);
  assert.match(say("continue", bars).sentence, /^Continues in Bass for 4 bars.*where the piece ends/, "what is selected may be all of it");
  assert.match(say("accompany", { stretch: null, tracks: [1] }, without).sentence, /Composes Bass to the other notes of the whole piece/);
  for (const { name } of TASKS) assert.ok(say(name, none).sentence.endsWith("."));
});

test("what is sent holds what was set, and nothing that the task or the model does not know", () => {
  const settings = { ...defaultSettings(), controls: { density: 6, foreign: 1 }, seed: 9, bars: 2 };
  assert.deepEqual(request(settings, piece, bars, MODELS[0]), {
    task: "continue", model: "piano", begin: 2, end: 6, tracks: [1], samples: 3, seed: 9, bars: 2, controls: { density: 6 }, revision: 0,
  });
  assert.deepEqual(request({ ...settings, task: "vary", keep: 0.5, temperature: 1.2, key: "Cm" }, piece, none, MODELS[0]), {
    task: "vary", model: "piano", begin: 0, end: 6, tracks: null, samples: 3, seed: 9, keep: 0.5, controls: { density: 6 },
    sampling: { temperature: 1.2, key: "Cm" }, revision: 0,
  });
});

test("a take of the history sets the panel as it was", () => {
  for (const { name: task } of TASKS) {
    const settings = { ...defaultSettings(), task, seed: 5, controls: { density: 4 }, temperature: 0.9, keep: 0.25, bars: 8 };
    const model = modelFor(MODELS, settings) ?? MODELS[0];
    const asked = request(settings, piece, bars, model);
    const again = { ...defaultSettings(), ...settingsOf({ ...takeOf(), task, model: model.name, seed: 5, request: asked }) };
    assert.deepEqual(request(again, piece, bars, model), asked);
  }
});

test("a velocity has the mark that MusicXML has for it", () => assert.deepEqual([49, 80, 96, 112].map(dynamicLabel), ["p", "mf", "f", "ff"]));
