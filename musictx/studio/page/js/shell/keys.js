/** Key strokes go to commands: those of the roll while it has the focus, those of the page always. */

import { chord } from "./chord.js";
import { openHelp } from "./help.js";
import { pageCommands } from "./commands.js";
import { rollCommands } from "../roll/commands.js";

/** @param {import("../app.js").App} app */
export function mountKeys(app) {
  const roll = rollCommands(app);
  const page = pageCommands(app);
  app.actions.help = () => openHelp([...page, ...roll]);
  const table = (commands) => new Map(commands.flatMap((command) => command.keys.map((key) => [key, command])));
  const ofRoll = table(roll);
  const ofPage = table(page);

  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.isComposing || document.querySelector("dialog[open]")) return;
    const target = /** @type {HTMLElement} */ (event.target);
    const writing = target.matches?.("input:not([type=range], [type=checkbox]), select, textarea");
    const inRoll = target.id === "roll" || target === document.body;
    const name = chord(event);
    const command = ofPage.get(name) ?? (inRoll ? ofRoll.get(name) : undefined);
    if (!command || (!app.piece && command.piece !== false)) return;
    // A plain key is a command only where nothing else needs it; speech input cannot set it off.
    const plain = !/^(Ctrl|Alt)\+/.test(name);
    const asks = name === "?"; // at any time but in a field
    if (plain && (writing || (!asks && app.piece && !inRoll && !target.closest?.("#notation")))) return;
    if (writing && /^Ctrl\+(Shift\+)?[ZACVX]$/.test(name)) return; // those of the field
    event.preventDefault();
    command.run(event);
  });

  // A click on a button leaves the focus in the roll, so that the keys go on working there.
  document.addEventListener("mousedown", (event) => {
    const button = /** @type {HTMLElement} */ (event.target).closest?.("button, .button");
    if (!button || !app.piece || button.closest("dialog")) return;
    if (button.getAttribute("draggable") === "true") return;
    event.preventDefault();
    app.roll.focus();
  });
}
