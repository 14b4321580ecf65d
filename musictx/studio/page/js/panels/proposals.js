/** The tray below the roll: the proposals of a take, to listen to, accept or set aside. */

import { remove, session } from "../core/api.js";
import { contextOf, Pixels } from "../core/canvas.js";
import { h, icon, iconButton, syncRows, nextFrame, setPressed, set } from "../core/dom.js";
import { extentOf } from "../document/notes.js";
import { barsIn, composedUntil, isFavourite, isRunning, mixProposals, stateSummary, toggleFavourite } from "../document/takes.js";
import { count, sentence } from "../document/words.js";
import { withProposal } from "../sound/proposals.js";
import { exportLink } from "../shell/export.js";
import { ramp } from "../roll/colours.js";
import { fillNotes } from "../roll/notes.js";
import { View } from "../roll/view.js";
import { openForm } from "../shell/dialog.js";

const HEADER_HEIGHT = 26; // pixels at the top of a picture, for number and state

/** @param {App} app @param {HTMLElement} tray */
export function mountProposals(app, tray) {
  const find = (selector) => /** @type {HTMLElement} */ (tray.querySelector(selector));
  const [title, state, progress, mix, aside, cards] = ["h2", ".state", ".progress", ".mix", ".aside", ".cards"].map(find);
  aside.onclick = (event) => event.detail < 2 && setAside(); // ignore the second click of a double click on "Stop"
  mix.onclick = () => openMixing(app, shownTake(), lastPair());
  find(".close").onclick = () => app.show(null);
  /** The two proposals shown last. @type {{take: number, numbers: number[]}} */
  let last = { take: 0, numbers: [] };

  const shownTake = () => app.takes.get(app.shown.take);

  const refresh = nextFrame(() => {
    const take = app.piece && shownTake();
    tray.hidden = !take;
    document.body.classList.toggle("proposing", Boolean(take));
    if (!take) return;
    title.textContent = take.label[0].toUpperCase() + take.label.slice(1);
    state.textContent = stateSummary(take);
    tray.classList.toggle("failed", take.state === "failed");
    progress.style.setProperty("--filled", `${take.state === "composing" ? Math.max(2, take.progress * 100) : 0}%`);
    progress.setAttribute("aria-valuenow", String(Math.round(take.progress * 100)));
    aside.textContent = isRunning(take) ? "Stop" : "Set aside";
    aside.hidden = take.aside && !isRunning(take);
    const pair = lastPair();
    mix.hidden = !pair;
    if (pair) mix.textContent = `Mix ${pair.map((each) => each.number).join(" and ")} …`;
    syncRows(cards, take.proposals, (proposal) => `${app.piece.id}/${take.id}/${proposal.number}`, card);
  });

  /** Return the two proposals shown last, if both are finished and no proposal of the take is accepted. */
  function lastPair() {
    const take = shownTake();
    if (!take || last.take !== take.id || take.proposals.some(({ number }) => app.isAccepted(take, number))) return null;
    const proposals = take.proposals.filter(({ number, state }) => last.numbers.includes(number) && state === "done");
    return proposals.length === 2 ? proposals : null;
  }

  /** Show the other one of the two proposals shown last; playback continues at its position. */
  function switchProposal() {
    const take = shownTake();
    if (!take) return;
    const number = last.numbers.find((each) => each !== app.shown.proposal) ?? take.proposals.find((each) => each.number !== app.shown.proposal)?.number;
    if (number === undefined) return;
    const { playing, position } = app.player;
    app.show(take.id, number);
    if (playing) app.player.play(position, withProposal(app, take, number));
    app.announce(`proposal ${number}`);
  }

  /** Make the card of a proposal. @param {Proposal} proposal */
  function card({ number }) {
    const id = app.shown.take;
    const latest = () => app.takes.get(id);
    const canvas = h("canvas", { "aria-hidden": "true" });
    const state = h("span.status");
    const show = h("button.show", { onclick: () => app.show(id, number) }, canvas, h("span.number", null, String(number)), state);
    const listen = h("button.small.quiet.listen", { title: "Listen (Alt+P)", "aria-label": `Listen to proposal ${number}`, onclick: () => listenTo(latest(), number) }, icon("play"), "Listen");
    const acceptButton = h("button.small", { title: "Accept (Alt+A)", "aria-label": `Accept proposal ${number}`, onclick: () => accept(latest(), number) }, icon("check"), "Accept");
    const file = exportLink(app, "mid", { take: id, proposal: number }, icon("export"));
    set(file, { title: "The piece with this proposal as MIDI: click, or drag it into another program", "aria-label": `Save the piece with proposal ${number} as MIDI` });
    const star = iconButton("star", `Proposal ${number}: a favourite`, () => app.change(toggleFavourite(app.piece, id, number)), { "aria-pressed": false });
    star.classList.add("small", "star");
    const remark = h("p.hint.remark");
    const element = h("li.card", null, show, remark, h("div.buttons", null, listen, star, file, acceptButton));

    /** @param {Proposal} proposal */
    function update(proposal) {
      const on = number === app.shown.proposal;
      const accepted = app.isAccepted(latest(), number);
      const ready = proposal.state === "done" && !accepted;
      const words = accepted ? "accepted" : { waiting: "waiting", composing: "composing …", failed: latest().state === "stopped" ? "stopped" : "failed" }[proposal.state] ?? count(proposal.notes.length, "note");
      state.textContent = words;
      set(show, { "aria-pressed": String(on), "aria-label": `Proposal ${number}: ${words}. Show it in the roll` });
      const text = proposal.remark ? sentence(proposal.remark) : "";
      set(remark, { textContent: text, title: text, hidden: !text });
      listen.disabled = !proposal.notes.length;
      acceptButton.disabled = !ready;
      acceptButton.classList.toggle("gold", on && ready);
      file.hidden = proposal.state !== "done";
      setPressed(star, isFavourite(app.piece, id, number));
      star.hidden = proposal.state !== "done";
      element.classList.toggle("on", on);
      if (canvas.clientWidth) drawThumbnail(canvas, app, latest(), proposal);
    }
    return { element, update };
  }

  /** Play the piece with a proposal, from the bar before it; it may still be composing. */
  function listenTo(take, number) {
    app.show(take.id, number);
    const { begin: first } = app.stretchOf(take);
    const begin = first > 0 ? app.beats.bar(first - 1e-3).begin : 0;
    app.player.play(begin, withProposal(app, take, number));
  }

  let isAccepting = false; // ignores a second click before the answer

  async function accept(take, number) {
    if (isAccepting) return;
    isAccepting = true;
    const accepted = await app.mirror.accept(take.id, number);
    isAccepting = false;
    if (!accepted) return;
    app.notify(`Proposal ${number} is in the piece. Undo removes it.`);
    if (take.task !== "replace" && take.task !== "vary") app.selection.deselect();
    app.show(null);
    app.roll.lookAt(app.stretchOf(take));
    app.roll.focus();
  }

  async function setAside() {
    const take = shownTake();
    if (!take) return;
    const running = isRunning(take);
    const answer = await app.attempt(remove(session(app.piece.id, "takes", String(take.id))));
    if (answer === undefined) return;
    app.announce(running ? "stopped" : "set aside");
    if (!running) app.show(null);
  }

  const withShown = (action) => () => app.shownProposal && action(app.shownProposal.take, app.shownProposal.proposal);
  Object.assign(app.actions, {
    listen: withShown((take, { number }) => listenTo(take, number)),
    accept: withShown((take, { number, state }) => state === "done" && !app.isAccepted(take, number) && accept(take, number)),
    setAside,
    switchProposal,
  });
  app.on("shown", (shown) => {
    if (!shown) return;
    const { take, proposal } = shown;
    const before = last.take === take.id ? last.numbers.filter((number) => number !== proposal.number) : [];
    last = { take: take.id, numbers: [...before.slice(-1), proposal.number] };
  });
  app.takes.on("notes", refresh);
  app.on("opened", (piece) => {
    const running = piece && app.takes.list.find(isRunning);
    if (running) app.show(running.id);
  });
  for (const event of /** @type {const} */ (["takes", "shown", "piece", "opened", "settings"])) app.on(event, refresh);
  new ResizeObserver(refresh).observe(tray);
}

/**
 * Draw a proposal in gold, and the notes around it in the colours of their tracks.
 * @param {HTMLCanvasElement} canvas @param {App} app @param {Take} take @param {Proposal} proposal
 */
function drawThumbnail(canvas, app, take, proposal) {
  const { clientWidth: width, clientHeight: height } = canvas;
  const { colours, index } = app.roll;
  const stretch = app.stretchOf(take);
  const composed = composedUntil(proposal, stretch.begin);
  const end = Math.max(stretch.end, composed, stretch.begin + 1);
  const from = stretch.begin - Math.min(stretch.begin, (end - stretch.begin) * 0.2);
  const { removed, restored } = app.exchangedNotes(take, proposal);
  const around = [...index.between(from, end).filter((note) => !removed.has(note.id)), ...restored.filter((note) => note.start < end && note.end > from)];
  const extent = extentOf([...around, ...proposal.notes]);
  const low = Math.min(60, extent?.low ?? 60) - 2;
  const high = Math.max(67, extent?.high ?? 67) + 2;
  const view = Object.assign(new View(), { left: from, scale: width / (end - from), row: (height - HEADER_HEIGHT) / (high - low + 1), width, height });
  view.top = high + HEADER_HEIGHT / view.row;
  const ctx = contextOf(canvas);
  ctx.fillStyle = colours["row-white"];
  ctx.fillRect(0, 0, width, height);
  ctx.fillStyle = colours.beat;
  for (const { time, beat } of app.beats.between(from, end)) if (beat === 1) ctx.fillRect(Math.round(view.x(time)), 0, 1, height);
  const pixels = new Pixels().begin(width, height);
  app.piece.tracks.forEach((track, i) => fillNotes(ctx, pixels, view, around.filter((note) => note.track === track.id), ramp(track, i, colours.dark)[8], 0.55));
  fillNotes(ctx, pixels, view, proposal.notes.map((note) => ({ ...note, end: note.end ?? composed })), colours.gold);
  pixels.paint(ctx);
  ctx.fillStyle = colours.gold;
  if (proposal.state === "composing") ctx.fillRect(view.x(composed), 0, 1.5, height);
}

/** Open the dialog that mixes two proposals bar by bar. @param {App} app @param {Take} take @param {Proposal[]} pair */
function openMixing(app, take, pair) {
  const bars = barsIn(app.stretchOf(take), app.beats);
  const choice = bars.map(() => 0);
  const cells = bars.map((bar, i) => {
    const buttons = pair.map(({ number }, index) => h("button.small", {
      "aria-pressed": index === 0, "aria-label": `Bar ${bar.number}: proposal ${number}`,
      onclick() {
        choice[i] = index;
        buttons.forEach((button, each) => setPressed(button, each === index));
      },
    }, String(number)));
    return h("li", null, h("small", null, `Bar ${bar.number}`), ...buttons);
  });
  const both = `${pair[0].number} and ${pair[1].number}`;
  openForm(app, `Mix proposals ${both}`, "mixing", () => {
    app.change(mixProposals(app.piece, take, pair, bars, choice));
    app.show(null);
    app.notify(`Proposals ${both} are in the piece, bar by bar. Undo removes them.`);
  },
  h("p.hint", null, "Choose a proposal for each bar. A note belongs to the bar in which it starts, and ends where the other proposal continues."),
  h("ol", null, ...cells),
  h("div.buttons", null, h("button.gold", { type: "submit" }, "Use this mix")));
}
