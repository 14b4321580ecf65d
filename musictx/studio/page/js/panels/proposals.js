/** The tray below the roll: the proposals of a take side by side, to listen to, accept or set aside. */

import { remove, session } from "../core/api.js";
import { fill, h, icon, iconButton } from "../core/dom.js";
import { isRunning, stateWords } from "../document/takes.js";
import { count } from "../document/words.js";
import { hearing } from "../sound/along.js";
import { drawSmall } from "./smallroll.js";

/** @typedef {import("../document/types.js").Take} Take */
/** @typedef {import("../document/types.js").Proposal} Proposal */

/** @param {import("../app.js").App} app @param {HTMLElement} tray */
export function mountProposals(app, tray) {
  const title = h("h2");
  const state = h("span.state", { role: "status" });
  const progress = h("div.progress", { role: "progressbar", "aria-label": "Progress", "aria-valuemin": 0, "aria-valuemax": 100 });
  const aside = h("button.small", { type: "button", onclick: setAside });
  const cards = h("ul.cards");
  let canvases = /** @type {Map<number, HTMLCanvasElement>} */ (new Map());
  let frame = 0;
  fill(tray, progress,
    h("header", null, title, state, h("span.gap"), aside, iconButton("close", "Close the proposals; the history keeps them", () => app.show(null))), cards);

  const shownTake = () => app.takes.get(app.shown.take);

  function refresh() {
    const take = app.piece && shownTake();
    tray.hidden = !take;
    document.body.classList.toggle("proposing", Boolean(take));
    if (!take) return;
    title.textContent = take.label[0].toUpperCase() + take.label.slice(1);
    state.textContent = [stateWords(take), `seed ${take.seed}`].join(" · ");
    tray.classList.toggle("failed", take.state === "failed");
    progress.style.setProperty("--part", `${take.state === "composing" ? Math.max(2, take.progress * 100) : 0}%`);
    progress.setAttribute("aria-valuenow", String(Math.round(take.progress * 100)));
    aside.textContent = isRunning(take) ? "Stop" : "Set aside";
    aside.title = "Alt+X";
    aside.hidden = take.aside && !isRunning(take);
    const focus = document.activeElement?.closest?.("#proposals [data-focus]")?.dataset.focus;
    canvases = new Map();
    fill(cards, ...take.proposals.map((proposal) => card(take, proposal)));
    if (focus) /** @type {HTMLElement} */ (cards.querySelector(`[data-focus="${focus}"]`))?.focus();
    paint();
  }

  /** @param {Take} take @param {Proposal} proposal */
  function card(take, proposal) {
    const { number } = proposal;
    const on = number === app.shown.proposal;
    const canvas = h("canvas", { "aria-hidden": "true" });
    canvases.set(number, canvas);
    const ready = proposal.state === "done";
    const accepted = app.accepted(take, proposal);
    const words = accepted ? "accepted" : { waiting: "waiting", composing: "composing …", failed: "failed" }[proposal.state] ?? count(proposal.notes.length, "note");
    const show = h("button.show", {
      type: "button", "aria-pressed": on, "aria-label": `Proposal ${number}: ${words}. Show it in the roll`, onclick: () => app.show(take.id, number),
    }, canvas, h("span.number", null, String(number)), h("span.words", null, words));
    const listen = h("button.small.quiet", { type: "button", disabled: !proposal.notes.length, title: "Listen (Alt+P)", onclick: () => hear(take, proposal) }, icon("play"), "Listen");
    const accept = h("button.small", { type: "button", disabled: !ready || accepted, title: "Accept (Alt+A)", onclick: () => keep(take, proposal) }, icon("check"), "Accept");
    listen.setAttribute("aria-label", `Listen to proposal ${number}`);
    accept.setAttribute("aria-label", `Accept proposal ${number}`);
    if (on && ready) accept.classList.add("gold");
    [show, listen, accept].forEach((button, i) => { button.dataset.focus = `${number}-${i}`; });
    return h(`li.card${on ? ".on" : ""}`, null, show,
      proposal.remark && h("p.hint.remark", { title: proposal.remark }, proposal.remark), h("div.buttons", null, listen, accept));
  }

  /** Draws the small rolls with the next frame. */
  function paint() {
    frame ||= requestAnimationFrame(() => {
      frame = 0;
      const take = shownTake();
      if (!take) return;
      for (const proposal of take.proposals) {
        const canvas = canvases.get(proposal.number);
        if (canvas?.clientWidth) drawSmall(canvas, app, take, proposal);
      }
    });
  }

  /** Plays a proposal with all that it leaves as it is, from the bar before it; it may still be composed. */
  function hear(take, { number }) {
    app.show(take.id, number);
    const begin = take.begin > 0 ? app.beats.bar(take.begin - 1e-3).begin : 0;
    app.player.play(begin, hearing(app, take, number));
  }

  async function keep(take, proposal) {
    if (!(await app.mirror.accept(take.id, proposal.number))) return;
    app.done(`Proposal ${proposal.number} is in the piece. Undo takes it out.`);
    if (take.task !== "replace" && take.task !== "vary") app.selection.drop();
    app.show(null);
    app.roll.lookAt(take.begin, take.end);
    app.roll.focus();
  }

  async function setAside() {
    const take = shownTake();
    if (!take) return;
    const running = isRunning(take);
    try {
      await remove(session(app.piece.id, "takes", String(take.id)));
      app.say(running ? "stopped" : "set aside");
      if (!running) app.show(null);
    } catch (error) {
      app.fail(error);
    }
  }

  const withShown = (act) => () => app.proposal && act(app.proposal.take, app.proposal.proposal);
  Object.assign(app.actions, {
    listen: withShown(hear),
    accept: withShown((take, proposal) => proposal.state === "done" && !app.accepted(take, proposal) && keep(take, proposal)),
    setAside,
  });
  app.takes.on("notes", ({ take }) => take.id === app.shown.take && paint());
  for (const event of ["takes", "shown", "piece", "opened", "settings"]) app.on(/** @type {any} */ (event), refresh);
  new ResizeObserver(paint).observe(tray);
}
