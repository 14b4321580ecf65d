/** The list of keys. */

import { h } from "../core/dom.js";
import { openDialog } from "./dialog.js";
import { chordLabels } from "./chord.js";

/** @type {import("./commands.js").Command[]} */
let commands = [];

/** @param {import("./commands.js").Command[]} all */
export function setCommands(all) {
  commands = all;
}

const MOUSE = [
  ["Drag in the ruler", "Select bars"],
  ["Drag in the roll", "Select notes; drag a note to move it, its ends to change its length"],
  ["Double click", "Draw a note"],
  ["Wheel, with Ctrl, with Alt", "Scroll, zoom in time, zoom in pitch"],
  ["Alt while dragging", "Leave the grid"],
  ["Two fingers", "Scroll and zoom; hold one finger, then drag: select notes"],
];

export function openHelp() {
  const groups = Map.groupBy?.(commands, (command) => command.group) ?? grouped(commands);
  const sections = [...groups].map(([group, list]) => h("section", null, h("h3", null, group),
    h("dl", null, ...list.map(({ keys, what }) => h("div", null,
      h("dt", null, ...keys.flatMap((key, i) => [i ? " or " : "", ...chordLabels(key).map((part) => h("kbd", null, part))])),
      h("dd", null, what))))));
  const mouse = h("section", null, h("h3", null, "Mouse and fingers"),
    h("dl", null, ...MOUSE.map(([how, what]) => h("div", null, h("dt", null, h("small", null, how)), h("dd", null, what)))));
  openDialog("Keys", h("p.hint", null, "Keys without Ctrl work while the piano roll has the focus."), h("div.shortcuts", null, ...sections, mouse));
}

function grouped(list) {
  const groups = new Map();
  for (const command of list) groups.set(command.group, [...(groups.get(command.group) ?? []), command]);
  return groups;
}
