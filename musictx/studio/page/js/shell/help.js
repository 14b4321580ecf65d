/** The list of keys. */

import { h } from "../core/dom.js";
import { openDialog } from "./dialog.js";
import { chordLabels } from "./chord.js";

const MOUSE = [
  ["Drag in the ruler", "Select bars"],
  ["Drag in the roll", "Select notes; drag a note to move it, its ends to change its length"],
  ["Double click", "Draw a note"],
  ["Pencil, other button", "Delete a note"],
  ["Wheel, with Ctrl, with Alt", "Scroll, zoom in time, zoom in pitch"],
  ["Alt while dragging", "Leave the grid"],
  ["Two fingers", "Scroll and zoom; hold one finger, then drag: select notes"],
];

/** @param {import("./commands.js").Command[]} commands */
export function openHelp(commands) {
  const section = (title, rows) => h("section", null, h("h3", null, title),
    h("dl", null, ...rows.map(([how, what]) => h("div", null, h("dt", null, ...how), h("dd", null, what)))));
  const groups = [...new Set(commands.map((command) => command.group))];
  const keys = groups.map((group) => section(group, commands.filter((command) => command.group === group).map(({ keys, what }) => [keyLabels(keys), what])));
  const mouse = section("Mouse and fingers", MOUSE.map(([how, what]) => [[h("small", null, how)], what]));
  openDialog("Keys", h("p.hint", null, "Single keys, and those that move about or edit, work while the piano roll has the focus."), h("div.shortcuts", null, ...keys, mouse));
}

/** Keys, with what they share once: Alt ← → for Alt+← and Alt+→. @param {string[]} keys */
function keyLabels(keys) {
  const parts = keys.map(chordLabels);
  const shared = parts.every((each) => each.slice(0, -1).join() === parts[0].slice(0, -1).join());
  const kbd = (part) => h("kbd", null, part);
  if (shared) return [...parts[0].slice(0, -1), ...parts.map((each) => each.at(-1))].map(kbd);
  return parts.flatMap((each, i) => [i ? " or " : "", ...each.map(kbd)]);
}
