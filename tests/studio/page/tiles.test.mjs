import assert from "node:assert/strict";
import test from "node:test";
import { Tiles } from "../../../musictx/studio/page/js/roll/tiles.js";
import { View } from "../../../musictx/studio/page/js/roll/view.js";

// As much of a page as the pictures need.
Object.assign(globalThis, {
  window: { devicePixelRatio: 1 },
  document: { createElement: () => ({ getContext: () => ({ setTransform() {} }) }) },
});

function shown() {
  const tiles = new Tiles();
  const painted = [], placed = [];
  const ctx = { drawImage: (_tile, x, y, width) => placed.push([x, width]) };
  return {
    painted, placed,
    show(view, look = []) {
      placed.length = 0;
      tiles.show(ctx, view, 300, look, (_own, own) => painted.push([own.left, own.right]));
    },
  };
}

test("scrolling paints only what comes into sight", () => {
  const view = Object.assign(new View(), { width: 1280, scale: 20, left: 3, length: 600 });
  const { painted, placed, show } = shown();
  for (let i = 0; i < 100; i++) {
    view.left = 3 + (12 * i) / view.scale;
    show(view);
    const [first, last] = [placed[0], placed.at(-1)];
    assert.ok(first[0] <= 0 && last[0] + last[1] >= view.width); // all of it is covered
    placed.slice(1).forEach(([x], n) => assert.equal(x - placed[n][0], 256));
  }
  assert.ok(painted.length <= 6 + Math.ceil((100 * 12) / 256), String(painted.length));
  const before = painted.length;
  show(view);
  assert.equal(painted.length, before); // nothing has changed
});

test("another zoom, other notes and another theme paint all anew", () => {
  const view = Object.assign(new View(), { width: 1000, scale: 50, length: 600 });
  const { painted, show } = shown();
  let piece = {};
  show(view, [piece]);
  const whole = painted.length;
  for (const change of [() => { view.scale = 60; }, () => { view.top += 1; }, () => { view.row = 9; }, () => { piece = {}; }]) {
    change();
    painted.length = 0;
    show(view, [piece]);
    assert.ok(painted.length >= whole - 1);
  }
  for (const [left, right] of painted) assert.ok(Math.abs((right - left) * view.scale - 256) < 1e-6);
});
