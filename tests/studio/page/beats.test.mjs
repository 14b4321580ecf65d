import assert from "node:assert/strict";
import test from "node:test";
import { Beats } from "../../../musictx/studio/page/js/document/beats.js";
import { gridLines } from "../../../musictx/studio/page/js/roll/grid.js";
import { View } from "../../../musictx/studio/page/js/roll/view.js";
import { beatsOf, randomly } from "./music.mjs";

const near = (a, b, by = 1e-6) => assert.ok(Math.abs(a - b) <= by, `${a} is not ${b}`);
/** Four bars of 3/4 at 0.5 s a beat, then of 4/4 at 0.25 s, as a piece with changes has them. */
const MIXED = [
  ...beatsOf(4, { beats: 3 }),
  ...beatsOf(6, { length: 0.25 }).map(([time, bar, beat]) => [time + 6, bar + 4, beat]),
];
const MUSIC = [new Beats(beatsOf(8)), new Beats(MIXED)];

test("a moment is in the last beat that is not after it", () => {
  const random = randomly(2);
  for (const beats of MUSIC) {
    for (let i = 0; i < 400; i++) {
      const time = random() * 11;
      const found = beats.list.findLast(([begin]) => begin <= time + 1e-4);
      assert.deepEqual(beats.barAndBeat(beats.index(time)), found.slice(1));
    }
  }
});

test("bars cover time without gap, each moment lies in its bar", () => {
  for (const beats of MUSIC) {
    let at = 0;
    for (let number = 1; number < 14; number++) {
      const bar = beats.bar(at + 1e-3);
      assert.equal(bar.number, number);
      near(bar.begin, at);
      assert.deepEqual(beats.bar((bar.begin + bar.end) / 2), bar);
      at = bar.end;
    }
  }
});

test("the grid: the nearest line, the line before, the next line", () => {
  const random = randomly(3);
  for (const beats of MUSIC) {
    for (const division of [1, 2, 3, 4, 6, 8]) {
      const lines = [];
      for (let i = 0; i < 40; i++) {
        const [from, to] = [beats.time(i), beats.time(i + 1)];
        for (let k = 0; k < division; k++) lines.push(from + ((to - from) * k) / division);
      }
      for (let i = 0; i < 60; i++) {
        const time = random() * 8;
        const nearest = lines.reduce((a, b) => (Math.abs(b - time) < Math.abs(a - time) ? b : a));
        if (Math.abs(nearest - time) < 2e-3) continue; // as good as on the line
        near(Math.abs(beats.snap(time, division) - time), Math.abs(nearest - time), 1e-6);
        near(beats.floor(time, division), lines.findLast((line) => line <= time + 1e-4));
        near(beats.step(time, division, 1), lines.find((line) => line > time + 1e-3));
        near(beats.step(beats.step(nearest, division, 5), division, -5), nearest);
      }
      for (const line of lines.slice(0, 30)) near(beats.snap(line, division), line);
    }
  }
  assert.equal(MUSIC[0].snap(1.234, 0), 1.234);
  assert.equal(MUSIC[0].step(0, 4, -3), 0);
});

test("lines are where beats are, and never closer than can be seen", () => {
  const view = new View();
  for (const scale of [5, 20, 90, 400]) {
    Object.assign(view, { scale, left: 0.3, width: 900 });
    for (const beats of MUSIC) {
      const { bars, lines } = gridLines(view, beats, 4);
      for (const { x, bar } of bars) assert.equal(beats.bar(view.time(x) + 1e-6).number, bar);
      const xs = lines.grid.sort((a, b) => a - b);
      for (let i = 1; i < xs.length; i++) assert.ok(xs[i] - xs[i - 1] >= 8.9);
      const numbered = bars.filter((each) => each.numbered);
      for (let i = 1; i < numbered.length; i++) assert.ok(numbered[i].x - numbered[i - 1].x >= 41.9);
    }
  }
});
