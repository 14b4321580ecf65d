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
  ["Pencil, other button", "Delete a note"],
  ["Wheel, with Ctrl, with Alt", "Scroll, zoom in time, zoom in pitch"],
  ["Alt while dragging", "Leave the grid"],
  ["Two fingers", "Scroll and zoom; hold one finger, then drag: select notes"],
];

export function openHelp() {
  const groups = Map.groupBy?.(commands, (command) => command.group) ?? grouped(commands);
  const sections = [...groups].map(([group, list]) => h("section", null, h("h3", null, group),
    h("dl", null, ...list.map(({ keys, what }) => h("div", null,
      h("dt", null, ...keyLabels(keys)),
      h("dd", null, what))))));
  const mouse = h("section", null, h("h3", null, "Mouse and fingers"),
    h("dl", null, ...MOUSE.map(([how, what]) => h("div", null, h("dt", null, h("small", null, how)), h("dd", null, what)))));
  openDialog("Keys", h("p.hint", null, "Single keys, and those that move about or edit, work while the piano roll has the focus."), h("div.shortcuts", null, ...sections, mouse));
}

/** Keys with what they share said once: Alt ← → for Alt+← and Alt+→. @param {string[]} keys */
function keyLabels(keys) {
  const parts = keys.map(chordLabels);
  const shared = parts.every((each) => each.slice(0, -1).join() === parts[0].slice(0, -1).join());
  const kbd = (part) => h("kbd", null, part);
  if (shared) return [...parts[0].slice(0, -1), ...parts.map((each) => each.at(-1))].map(kbd);
  return parts.flatMap((each, i) => [i ? " or " : "", ...each.map(kbd)]);
}

function grouped(list) {
  const groups = new Map();
  for (const command of list) groups.set(command.group, [...(groups.get(command.group) ?? []), command]);
  return groups;
}
