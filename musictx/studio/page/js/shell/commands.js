/** Commands of the page as a whole, with their keys. */

import { nextTheme } from "./theme.js";
import { leave } from "./files.js";
import { count } from "../document/words.js";

/** @typedef {{keys: string[], what: string, group: string, piece?: boolean, run: (event?: any) => void}} Command */

/** @param {import("../app.js").App} app @returns {Command[]} */
export function pageCommands(app) {
  const proposals = () => app.proposal?.take.proposals ?? [];
  /** Shows the next proposal, or one before. */
  const step = (by) => {
    const all = proposals();
    if (!all.length) return;
    const place = all.findIndex((each) => each.number === app.shown.proposal);
    const next = all[(place + by + all.length) % all.length];
    app.show(app.shown.take, next.number);
    app.say(`proposal ${next.number}, ${next.state === "done" ? count(next.notes.length, "note") : next.state}`);
  };
  /** @param {Promise<boolean>} done */
  const back = async (done, what) => {
    if (await done) app.say(`${what}, ${count(app.piece.notes.size, "note")}`);
  };
  return [
    { keys: ["Space"], group: "Playing", what: "Play or stop", run: () => app.player.toggle() },
    { keys: ["Shift+Space"], group: "Playing", what: "Play what is selected, or from the cursor", run: () => app.player.playSelection() },
    { keys: ["R"], group: "Playing", what: "Record what is played on keys, or end it", run: () => app.actions.record() },
    { keys: ["Ctrl+Enter"], group: "Composing", what: "Compose with what the panel says", run: () => app.actions.compose() },
    { keys: ["Alt+N", "Alt+Shift+N"], group: "Composing", what: "Next, previous proposal", run: (event) => step(event.shiftKey ? -1 : 1) },
    { keys: ["Alt+B"], group: "Composing", what: "From one of two proposals to the other and back, also while it plays", run: () => app.actions.other() },
    { keys: ["Alt+P"], group: "Composing", what: "Listen to the proposal", run: () => app.actions.listen() },
    { keys: ["Alt+A"], group: "Composing", what: "Accept the proposal", run: () => app.actions.accept() },
    { keys: ["Alt+X"], group: "Composing", what: "Set the take aside, or stop it", run: () => app.actions.setAside() },
    { keys: ["Ctrl+Z"], group: "Page", what: "Undo", run: () => back(app.mirror.undo(), "undone") },
    { keys: ["Ctrl+Shift+Z", "Ctrl+Y"], group: "Page", what: "Redo", run: () => back(app.mirror.redo(), "done again") },
    { keys: ["Ctrl+P"], group: "Page", what: "Print the music, or make a PDF of it", run: () => app.actions.print() },
    { keys: ["Ctrl+O"], group: "Page", what: "All pieces", run: () => leave(app) },
    { keys: ["V"], group: "Page", what: "Notation, or the piano roll", run: () => app.actions.notation() },
    { keys: ["T"], group: "Page", what: "Theme: system, light, dark", piece: false, run: () => nextTheme(app) },
    { keys: ["?"], group: "Page", what: "These keys", piece: false, run: () => app.actions.help() },
  ];
}
