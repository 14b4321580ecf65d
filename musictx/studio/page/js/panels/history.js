/** The panel "History": every take, with its seed and command. It builds its rows only while it is visible. */

import { remove, session } from "../core/api.js";
import { fill, h, icon, syncRows, nextFrame } from "../core/dom.js";
import { isRunning, stateSummary } from "../document/takes.js";
import { count, when } from "../document/words.js";

/** @param {App} app @param {HTMLElement} panel */
export function mountHistory(app, panel) {
  const [hint, list] = /** @type {HTMLElement[]} */ ([...panel.children]);

  /** Make the row of a take. @param {Take} take */
  function entry({ id, label, made, command }) {
    const remarks = h("small");
    const acceptedLine = h("small.accepted");
    const stop = h("button.small", { onclick: () => app.attempt(remove(session(app.piece.id, "takes", String(id)))) }, "Stop");
    const show = h("button.small", { onclick: () => app.show(id, accepted(app.takes.get(id))[0] ?? 1) });
    const again = h("button.small.quiet", { title: "Restores these settings, with this seed, in the panel", onclick: () => app.emit("restore", app.takes.get(id)) }, icon("again"), "Restore settings");
    const copy = h("button.icon.small", {
      title: "Copy the command", "aria-label": `Copy the command of take ${id}`, onclick: () => copyText(app, command),
    }, icon("copy"));
    const element = h("li.take", null, h("div.take-head", null, h("b", null, label), h("small", null, when(made))), remarks, acceptedLine,
      command && h("div.command", null, h("code", { tabIndex: 0 }, command), copy),
      h("div.buttons", null, show, again, stop));

    /** @param {Take} take */
    function update(take) {
      const numbers = accepted(take);
      const favourites = (app.piece?.favourites ?? []).filter(([takeId]) => takeId === id).map(([, number]) => number);
      remarks.textContent = stateSummary(take) + (favourites.length ? ` · favourite ${favourites.join(", ")}` : "");
      fill(acceptedLine, icon("check"), `proposal ${numbers.join(", ")} accepted`);
      acceptedLine.hidden = !numbers.length;
      show.textContent = `Show ${count(take.proposals.length, "proposal")}`;
      show.disabled = !take.proposals.some((proposal) => proposal.notes.length);
      stop.hidden = !isRunning(take);
      element.classList.toggle("on", id === app.shown.take);
      element.classList.toggle("aside", take.aside);
    }
    return { element, update };
  }

  /** Return the numbers of the accepted proposals. @param {Take} take */
  const accepted = (take) => take.proposals.map((proposal) => proposal.number).filter((number) => app.isAccepted(take, number));

  function refresh() {
    if (!panel.clientWidth) return;
    const takes = app.takes.list;
    hint.hidden = takes.length > 0;
    syncRows(list, takes, (take) => `${app.piece?.id} ${take.id}`, entry);
  }

  const soon = nextFrame(refresh);
  for (const event of /** @type {const} */ (["takes", "shown", "piece"])) app.on(event, soon);
  new ResizeObserver(soon).observe(panel);
}

async function copyText(app, text) {
  try {
    await navigator.clipboard.writeText(text);
    app.notify("The command is in the clipboard.");
  } catch {
    app.showError("The browser does not let the page copy; select the command and copy it with Ctrl+C.");
  }
}
