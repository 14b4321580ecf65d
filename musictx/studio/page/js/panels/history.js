/** The history: every take with its seed and the command that makes it again. */

import { fill, h, icon } from "../core/dom.js";
import { stateWords } from "../document/takes.js";
import { count, when } from "../document/words.js";

/** @param {import("../app.js").App} app @param {HTMLElement} panel */
export function mountHistory(app, panel) {
  const list = h("ol.takes", { "aria-label": "Takes, newest first" });
  const none = h("p.hint.empty", null, "What you ask for is listed here, with its seed and the command that makes the same notes on the command line.");
  fill(panel, none, list);

  /** @param {import("../document/types.js").Take} take */
  function entry(take) {
    const accepted = take.proposals.filter((proposal) => app.accepted(take, proposal)).map((proposal) => proposal.number);
    const finished = take.proposals.filter((proposal) => proposal.notes.length).length;
    const remarks = [stateWords(take), `seed ${take.seed}`, take.model].filter(Boolean).join(" · ");
    const copy = h("button.icon.small", {
      type: "button", title: "Copy the command", "aria-label": `Copy the command of take ${take.id}`,
      onclick: () => copyText(app, take.command),
    }, icon("copy"));
    const item = h("li.take", null,
      h("div.take-head", null, h("b", null, take.label), h("small", null, when(take.made))),
      h("small", null, remarks),
      accepted.length > 0 && h("small.accepted", null, icon("check"), `proposal ${accepted.join(", ")} accepted`),
      take.command && h("div.command", null, h("code", { tabIndex: 0 }, take.command), copy),
      h("div.buttons", null,
        h("button.small", { type: "button", disabled: !finished, onclick: () => app.show(take.id, accepted[0] ?? 1) }, `Show ${count(take.proposals.length, "proposal")}`),
        h("button.small.quiet", { type: "button", title: "Sets the panel as it was, with this seed", onclick: () => app.emit("ask", take) }, icon("again"), "As asked")));
    item.classList.toggle("on", take.id === app.shown.take);
    item.classList.toggle("aside", take.aside);
    return item;
  }

  function refresh() {
    const takes = app.takes.list;
    none.hidden = takes.length > 0;
    fill(list, ...takes.map(entry));
  }

  let waiting = 0;
  const soon = () => {
    waiting ||= requestAnimationFrame(() => {
      waiting = 0;
      refresh();
    });
  };
  for (const event of ["takes", "shown", "piece"]) app.on(/** @type {any} */ (event), soon);
}

async function copyText(app, text) {
  try {
    await navigator.clipboard.writeText(text);
    app.done("The command is in the clipboard.");
  } catch {
    app.emit("message", { text: "The browser does not let the page copy; select the command and copy it with Ctrl+C.", kind: "error" });
  }
}
