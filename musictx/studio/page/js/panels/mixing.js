/** The dialog that makes one take out of two proposals, bar by bar. */

import { h } from "../core/dom.js";
import { barsOf, mixed } from "../document/mix.js";
import { openForm } from "../shell/dialog.js";

/** @param {import("../app.js").App} app @param {import("../document/types.js").Take} take @param {import("../document/types.js").Proposal[]} pair */
export function openMixing(app, take, pair) {
  const bars = barsOf(app.place(take), app.beats);
  const choice = bars.map(() => 0);
  const cells = bars.map((bar, i) => {
    const of = (place) => h("button.small", {
      type: "button", "aria-pressed": place === 0, "aria-label": `Bar ${bar.number}: proposal ${pair[place].number}`, onclick: () => choose(i, place),
    }, String(pair[place].number));
    const buttons = [of(0), of(1)];
    return { buttons, element: h("li", null, h("small", null, `Bar ${bar.number}`), ...buttons) };
  });
  function choose(i, place) {
    choice[i] = place;
    cells[i].buttons.forEach((button, at) => button.setAttribute("aria-pressed", String(at === place)));
  }
  const both = `${pair[0].number} and ${pair[1].number}`;
  openForm(app, `Mix proposals ${both}`, "mixing", () => {
    app.change(mixed(app.piece, take, pair, bars, choice));
    app.show(null);
    app.done(`Proposals ${both} are in the piece, bar by bar. Undo takes them out.`);
  },
  h("p.hint", null, "Which proposal each bar is taken from. Notes count where they begin, and end where the other one goes on."),
  h("ol", null, ...cells.map((cell) => cell.element)),
  h("div.buttons", null, h("button.gold", { type: "submit" }, "Take this mix")));
}
