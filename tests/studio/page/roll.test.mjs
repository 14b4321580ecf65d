import assert from "node:assert/strict";
import test from "node:test";
import { NoteIndex } from "../../../musictx/studio/page/js/roll/note_index.js";
import { View } from "../../../musictx/studio/page/js/roll/view.js";
import { noteFromWire } from "../../../musictx/studio/page/js/document/operation.js";
import { randomly, randomNotes, whole } from "./music.mjs";

const near = (a, b, by = 1e-6) => assert.ok(Math.abs(a - b) <= by, `${a} is not ${b}`);
const ids = (notes) => notes.map((note) => note.id).sort((a, b) => a - b);
function viewOf(random) {
  const view = new View();
  Object.assign(view, { length: 60, scale: 20 + random() * 300, row: 6 + random() * 20, left: random() * 20, top: 70 + random() * 30 });
  return view.resize(900, 500);
}

test("pixels and music are one: x and y there and back", () => {
  const random = randomly(4);
  for (let i = 0; i < 200; i++) {
    const view = viewOf(random);
    const time = random() * 50;
    near(view.time(view.x(time)), time);
    const pitch = whole(random, 0, 127);
    assert.equal(view.pitch(view.y(pitch) + 0.01), pitch);
    assert.equal(view.pitch(view.y(pitch) + view.row - 0.01), pitch);
  }
});

test("zooming leaves what is under the pointer where it is", () => {
  const random = randomly(5);
  for (let i = 0; i < 200; i++) {
    const view = viewOf(random);
    view.left = 10;
    const x = 200 + random() * 300;
    const time = view.time(x);
    const scale = view.scale;
    view.zoomTime(1 + random() * 0.3, x);
    assert.ok(view.scale >= scale);
    near(view.time(x), time);
    const y = 250;
    const tone = view.top - y / view.row;
    view.zoomPitch(1.1, y);
    if (view.top < 127) near(view.top - y / view.row, tone, 1e-6);
  }
});

test("however one scrolls and zooms, the view stays on the piece", () => {
  const random = randomly(6);
  const view = viewOf(random);
  for (let i = 0; i < 2000; i++) {
    const kind = random();
    if (kind < 0.4) view.pan((random() - 0.5) * 4000, (random() - 0.5) * 2000);
    else if (kind < 0.6) view.zoomTime(0.3 + random() * 2, random() * 900);
    else if (kind < 0.8) view.zoomPitch(0.3 + random() * 2, random() * 500);
    else if (kind < 0.9) view.resize(200 + random() * 1500, 150 + random() * 900);
    else view.fit(0, random() * 100, 20, 100);
    assert.ok(view.left >= 0 && view.left < view.length, `left ${view.left}`);
    assert.ok(view.top <= 127 + 1e-9 && view.bottom >= -1.001, `${view.top} ${view.bottom}`);
    assert.ok([view.left, view.scale, view.row, view.top].every(Number.isFinite));
  }
});

test("what is revealed is seen", () => {
  const random = randomly(7);
  for (let i = 0; i < 300; i++) {
    const view = viewOf(random);
    const time = random() * 55;
    const pitch = whole(random, 1, 126);
    view.reveal(time, pitch);
    assert.ok(view.x(time) >= -1e-6 && view.x(time) <= view.width + 1e-6);
    assert.ok(view.y(pitch) >= -1e-6 && view.y(pitch) + view.row <= view.height + 1e-6);
    const low = whole(random, 10, 60);
    view.revealPitches(low, low + 20);
    assert.ok(view.y(low + 20) >= -1e-6 && view.y(low) + view.row <= view.height + 1e-6, `${low}`);
  }
});

test("the index finds what a search through all notes finds", () => {
  const random = randomly(8);
  for (const count of [0, 1, 63, 64, 65, 700]) {
    const notes = randomNotes(random, count).map(noteFromWire);
    const index = new NoteIndex(notes);
    for (let i = 0; i < 60; i++) {
      const begin = random() * 40 - 2;
      const end = begin + random() * 6;
      assert.deepEqual(ids(index.between(begin, end)), ids(notes.filter((note) => note.start < end && note.end > begin)));
      const pitch = whole(random, 30, 90);
      const under = notes.filter((note) => note.pitch === pitch && note.start <= begin && note.end > begin);
      assert.equal(index.under(begin, pitch)?.start, under.length ? Math.max(...under.map((note) => note.start)) : undefined);
    }
  }
});

test("a pointer hits the note that is drawn there, and its ends only where there is room", () => {
  const random = randomly(9);
  const notes = randomNotes(random, 300).map(noteFromWire);
  const index = new NoteIndex(notes);
  for (let i = 0; i < 500; i++) {
    const view = viewOf(random);
    const [x, y] = [random() * 900, random() * 500];
    const drawn = notes.filter((note) => x >= view.x(note.start) && x <= Math.max(view.x(note.end), view.x(note.start) + 3) && y >= view.y(note.pitch) && y <= view.y(note.pitch) + view.row);
    const hit = index.hit(view, x, y);
    assert.equal(Boolean(hit), drawn.length > 0);
    if (hit) assert.ok(drawn.includes(hit.note));
  }
  const view = new View();
  Object.assign(view, { left: 0, scale: 100, top: 61, row: 10 });
  const one = new NoteIndex([{ id: 7, start: 1, end: 2, pitch: 60, velocity: 80, track: 0 }, { id: 8, start: 4, end: 4.05, pitch: 60, velocity: 80, track: 0 }]);
  assert.equal(one.hit(view, 101, 15).part, "start");
  assert.equal(one.hit(view, 150, 15).part, "body");
  assert.equal(one.hit(view, 199, 15).part, "end");
  assert.equal(one.hit(view, 401, 15).part, "body");
  assert.equal(one.hit(view, 210, 15), null);
  assert.equal(one.hit(view, 206, 15, 8).note.id, 7, "a finger may miss by a little");
  const both = new NoteIndex([1, 2].map((id) => ({ id, start: 1, end: 3, pitch: 60, velocity: 80, track: 0 })));
  for (const id of [1, 2]) assert.equal(both.hit(view, 200, 15, 0, (note) => note.id === id).note.id, id, "the selected one");
});

test("going from note to note meets every note once, there and back", () => {
  const index = new NoteIndex(randomNotes(randomly(10), 80).map(noteFromWire));
  const seen = [];
  for (let note = index.next({ time: 0 }); note; note = index.next({ id: note.id })) seen.push(note.id);
  assert.deepEqual(seen, index.notes.map((note) => note.id));
  const back = [];
  for (let note = index.next({ time: 1e9 }, -1); note; note = index.next({ id: note.id }, -1)) back.push(note.id);
  assert.deepEqual(back, seen.reverse());
});
