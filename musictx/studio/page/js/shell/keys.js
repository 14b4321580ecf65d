/** Keyboard shortcuts and their list. Shortcuts of the roll need its focus, those of the page do not. */

import { h } from "../core/dom.js";
import { count } from "../document/words.js";
import { rollCommands } from "../roll/commands.js";
import { openDialog } from "./dialog.js";
import { leave } from "./files.js";
import { nextTheme } from "./theme.js";

const MAC = /Mac|iP(hone|ad)/.test(navigator.platform ?? "");

/**
 * Return the name of a key event, such as "Ctrl+ArrowLeft". The command key counts as Control. Shift is left out for characters that need it,
 * such as "?".
 * @param {{key: string, code?: string, ctrlKey?: boolean, metaKey?: boolean, altKey?: boolean, shiftKey?: boolean}} event
 */
function shortcutName({ key, code = "", ctrlKey, metaKey, altKey, shiftKey }) {
  // With Alt some systems produce another character, so the physical key counts.
  const letter = altKey && /^Key[A-Z]$/.test(code) ? code[3] : key;
  const name = letter === " " ? "Space" : letter.length === 1 ? letter.toUpperCase() : letter;
  const shift = shiftKey && (name.length > 1 || /\p{L}/u.test(name));
  return [(ctrlKey || metaKey) && "Ctrl", altKey && "Alt", shift && "Shift", name].filter(Boolean).join("+");
}

const LABELS = { ArrowLeft: "←", ArrowRight: "→", ArrowUp: "↑", ArrowDown: "↓", Delete: "Del", Escape: "Esc", PageUp: "Page up", PageDown: "Page down" };

/** Return the labels of a shortcut: ["Ctrl", "←"] for "Ctrl+ArrowLeft", ["Alt", "+"] for "Alt++". */
const keyLabels = (name) => name.split(/(?<=[^+])\+/).map((key) => LABELS[key] ?? (MAC && key === "Ctrl" ? "⌘" : key));

/** @param {App} app */
export function mountKeys(app) {
  const roll = rollCommands(app);
  const page = pageCommands(app);
  app.actions.help = () => openHelp([...page, ...roll]);
  const byKey = (commands) => new Map(commands.flatMap((command) => command.keys.map((key) => [key, command])));
  const [rollByKey, pageByKey] = [roll, page].map(byKey);

  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.isComposing || document.querySelector("dialog[open], :popover-open")) return;
    const target = /** @type {HTMLElement} */ (event.target);
    const inTextField = target.matches?.("input:not([type=range], [type=checkbox]), select, textarea");
    const inRoll = target.id === "roll" || target === document.body;
    const name = shortcutName(event);
    const command = pageByKey.get(name) ?? (inRoll ? rollByKey.get(name) : undefined);
    if (!command || (!app.piece && command.piece !== false)) return;
    // Keys without Ctrl or Alt work only in the roll and the notation, so that speech input does not trigger them.
    const isPlain = !/^(Ctrl|Alt)\+/.test(name);
    const isHelp = name === "?"; // works everywhere except in a text field
    if (isPlain && (inTextField || (!isHelp && app.piece && !inRoll && !target.closest?.("#notation")))) return;
    if (inTextField && /^Ctrl\+(Shift\+)?[ZACVX]$/.test(name)) return; // the text field handles these
    event.preventDefault();
    command.run(event);
  });

  for (const button of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("[data-key]"))) {
    const { key } = button.dataset;
    button.onclick = () => app.piece && (pageByKey.get(key) ?? rollByKey.get(key)).run({ key });
  }

  // After a click on a button the roll keeps the focus, so that its shortcuts work.
  document.addEventListener("mousedown", (event) => {
    const button = /** @type {HTMLElement} */ (event.target).closest?.("button:not(.menu), .button");
    if (!button || !app.piece || button.closest("dialog")) return;
    if (button.getAttribute("draggable") === "true") return;
    event.preventDefault();
    app.roll.focus();
  });
}

/** Return the shortcuts of the page. @param {App} app @returns {Command[]} */
function pageCommands(app) {
  /** Show the next (1) or previous (-1) proposal. */
  const step = (by) => {
    const all = app.shownProposal?.take.proposals ?? [];
    if (!all.length) return;
    const index = all.findIndex((each) => each.number === app.shown.proposal);
    const next = all[(index + by + all.length) % all.length];
    app.show(app.shown.take, next.number);
    app.announce(`proposal ${next.number}, ${next.state === "done" ? count(next.notes.length, "note") : next.state}`);
  };
  /** Announce an undo or redo, once the server has confirmed it. @param {Promise<boolean>} confirmed @param {string} what */
  const announceDone = async (confirmed, what) => {
    if (await confirmed) app.announce(`${what}, ${count(app.piece.notes.size, "note")}`);
  };
  return [
    { keys: ["Space"], group: "Playing", description: "Play or stop", run: () => app.player.toggle() },
    { keys: ["Shift+Space"], group: "Playing", description: "Play what is selected, or from the cursor", run: () => app.player.playSelection() },
    { keys: ["R"], group: "Playing", description: "Record what is played on keys, or end it", run: () => app.actions.record() },
    { keys: ["Ctrl+Enter"], group: "Composing", description: "Compose with the settings of the panel", run: () => app.actions.compose() },
    { keys: ["Alt+N", "Alt+Shift+N"], group: "Composing", description: "Next, previous proposal", run: (event) => step(event.shiftKey ? -1 : 1) },
    { keys: ["Alt+B"], group: "Composing", description: "Switch between the last two proposals, also while they play", run: () => app.actions.switchProposal() },
    { keys: ["Alt+P"], group: "Composing", description: "Listen to the proposal", run: () => app.actions.listen() },
    { keys: ["Alt+A"], group: "Composing", description: "Accept the proposal", run: () => app.actions.accept() },
    { keys: ["Alt+X"], group: "Composing", description: "Set the take aside, or stop it", run: () => app.actions.setAside() },
    { keys: ["Ctrl+Z"], group: "Page", description: "Undo", run: () => announceDone(app.mirror.undo(), "undone") },
    { keys: ["Ctrl+Shift+Z", "Ctrl+Y"], group: "Page", description: "Redo", run: () => announceDone(app.mirror.redo(), "redone") },
    { keys: ["Ctrl+P"], group: "Page", description: "Print the music, or make a PDF of it", run: () => app.actions.print() },
    { keys: ["Ctrl+O"], group: "Page", description: "All pieces", run: () => leave(app) },
    { keys: ["V"], group: "Page", description: "Notation, or the piano roll", run: () => app.actions.notation() },
    { keys: ["T"], group: "Page", description: "Theme: system, light, dark", piece: false, run: () => nextTheme(app) },
    { keys: ["?"], group: "Page", description: "Keyboard shortcuts", piece: false, run: () => app.actions.help() },
  ];
}

const MOUSE = [
  ["Drag in the ruler", "Select bars"],
  ["Drag in the roll", "Select notes; drag a note to move it, its ends to change its length"],
  ["Double-click", "Draw a note"],
  ["Pencil, other button", "Delete a note"],
  ["Wheel, with Ctrl, with Alt", "Scroll, zoom in time, zoom in pitch"],
  ["Alt while dragging", "Ignore the grid"],
  ["Two fingers", "Scroll and zoom; hold one finger, then drag: select notes"],
];

/** Open the list of shortcuts. @param {Command[]} commands */
function openHelp(commands) {
  const section = (title, rows) => h("section", null, h("h3", null, title),
    h("dl", null, ...rows.map(([how, what]) => h("div", null, h("dt", null, ...how), h("dd", null, what)))));
  const groups = [...new Set(commands.map((command) => command.group))];
  const keys = groups.map((group) => section(group, commands.filter((command) => command.group === group).map(({ keys, description }) => [keyElements(keys), description])));
  const mouse = section("Mouse and fingers", MOUSE.map(([how, what]) => [[h("small", null, how)], what]));
  openDialog("Keyboard shortcuts", h("p.hint", null, "Single keys, and those that move the cursor or edit, work while the piano roll has the focus."), h("div.shortcuts", null, ...keys, mouse));
}

/** Return elements for shortcuts, with common modifiers once: Alt ← → for Alt+← and Alt+→. @param {string[]} keys */
function keyElements(keys) {
  const parts = keys.map(keyLabels);
  const shared = parts.every((each) => each.slice(0, -1).join() === parts[0].slice(0, -1).join());
  const kbd = (part) => h("kbd", null, part);
  if (shared) return [...parts[0].slice(0, -1), ...parts.map((each) => each.at(-1))].map(kbd);
  return parts.flatMap((each, i) => [i ? " or " : "", ...each.map(kbd)]);
}
