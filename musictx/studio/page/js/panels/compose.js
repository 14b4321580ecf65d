/** The panel "Compose": the task, its settings, and the button that starts it. */

import { post, session } from "../core/api.js";
import { selectBox, fill, h, icon, chooseOne, markChosen } from "../core/dom.js";
import { clamp } from "../core/numbers.js";
import { count, list } from "../document/words.js";
import { slider } from "./slider.js";
import { saveSetting, loadSetting } from "../core/storage.js";
import { writeChords } from "../document/harmony.js";
import { describe, firstWish, hasGrid, modelFor, request, TASKS, whyModel, wishOf } from "./tasks.js";

const TONICS = ["C", "Db", "D", "Eb", "E", "F", "F#", "G", "Ab", "A", "Bb", "B"];
const KEYS = [["", "Any"], ["auto", "As the music is"], ...TONICS.map((key) => [key, `${key} major`]), ...TONICS.map((key) => [`${key}m`, `${key} minor`])];
const GRIDS = [["", "As the file"], ["16", "Sixteenths"], ["8", "Eighths"], ["8t", "Triplets"], ["none", "Free"]];

/** @param {App} app @param {HTMLElement} panel */
export function mountCompose(app, panel) {
  const wish = firstWish();
  const tasks = TASKS.map((task) => h("button.task", { role: "radio" }, icon(`task-${task.name}`), h("span", null, task.label)));
  chooseOne(tasks, (place) => choose(TASKS[place].name));
  const find = (selector) => /** @type {any} */ (panel.querySelector(selector));
  const [sentence, who, shape, character, moreBody, number] = [".sentence", ".who", ".shape", ".character", ".more .settings", ".number"].map(find);
  const [fewer, moreProposals, go, seed] = [".fewer", ".plus", ".go", ".seed"].map(find);
  find(".tasks").append(...tasks);
  fewer.onclick = () => samples(-1);
  moreProposals.onclick = () => samples(1);
  go.onclick = compose;
  seed.onchange = () => {
    wish.seed = /^\d+$/.test(seed.value.trim()) ? Number(seed.value) : null;
    if (wish.seed === null) seed.value = "";
  };

  const why = h("p.hint");
  const scope = () => {
    // A single selected note, such as one just drawn, is not a melody: accompany the whole piece.
    const { selection } = app;
    const needsMelody = wish.task === "accompany" || wish.task === "harmonise";
    if (!needsMelody || selection.range || selection.notes.size > 1) return selection.scope(app.piece);
    return { stretch: null, tracks: selection.tracks.size ? selection.scope(app.piece).tracks : null };
  };
  const model = () => modelFor(app.models, wish, app.piece);

  function choose(task) {
    wish.task = task;
    build();
  }

  function samples(by) {
    wish.samples = clamp(wish.samples + by, 1, 8);
    refresh();
  }

  /** Rebuild the settings for the task and its model. */
  function build() {
    const task = TASKS.find((each) => each.name === wish.task);
    const able = model();
    fill(shape,
      task.sized && wishSlider("bars", { label: "Length", low: 1, high: 32, step: 1, words: lengthWords }),
      task.name === "vary" && wishSlider("keep", {
        label: "Keep", sentence: "How many of the selected notes stay as they are. The seed draws which.", low: 0, high: 95, step: 5, words: (value) => `${value} %`,
      }));
    fill(character, ...(able?.controls ?? []).map((control) => slider({
      ...control, value: wish.controls[control.name] ?? null, free: "free", marks: control.words ?? {},
      words: (value) => `${Math.round(value * 100) / 100} ${control.unit ?? ""}`.trim(),
      onchange(value) {
        if (value === null) delete wish.controls[control.name];
        else wish.controls[control.name] = value;
        guidance.hidden = !Object.keys(wish.controls).length;
      },
    })), notFollowed(able));
    const guidance = wishSlider("guidance", {
      label: "Strictness", sentence: "How closely the model keeps to what is asked for above; beyond 1 at the cost of variety.", low: 1, high: 3, step: 0.25, words: String,
    });
    const temperature = wishSlider("temperature", {
      label: "Boldness", sentence: "The temperature of sampling: low is predictable, high is surprising.", low: 0.6, high: 1.4, step: 0.05, words: (value) => value.toFixed(2),
    });
    guidance.hidden = !Object.keys(wish.controls).length;
    fill(who, modelSelect(able), hasGrid(wish) && wishSelect("quantise", "Grid of new notes", GRIDS), chordsLine(able));
    fill(moreBody, guidance, temperature, wishSelect("key", "Key", KEYS));
    seed.value = wish.seed ?? "";
    refresh();
  }

  /** Make a line that lists the controls which the model ignores. */
  function notFollowed(able) {
    const names = able?.ignores ?? [];
    return names.length > 0 && h("p.hint.ignores", null, `${able.title}: ${list(names)} cannot be asked for; measured, this model does not follow ${names.length > 1 ? "them" : "it"}.`);
  }

  /** Make a slider for a setting. @param {"bars" | "keep" | "guidance" | "temperature"} name @param {any} options */
  const wishSlider = (name, options) => slider({ ...options, value: wish[name], onchange: (value) => { wish[name] = value; refresh(); } });

  /** Make a list for a setting. @param {"quantise" | "key"} name */
  const wishSelect = (name, label, options) => h("label.row", null, label, selectBox(options, wish[name], (value) => { wish[name] = value; }));

  function modelSelect(able) {
    const all = app.models.filter((each) => each.tasks.includes(wish.task));
    if (!all.length) return null;
    const select = selectBox(all.map((each) => [each.name, each.title]), able.name, (name) => { wish.model = name; build(); }, { disabled: all.length < 2 });
    why.textContent = app.piece && able ? `${whyModel(able, wish, app.piece)} ${able.sentence}` : able?.sentence ?? "";
    return h("div", null, h("label.row.model", null, "Model", select), why);
  }

  /** Make a line that tells which chords the model follows, if it follows any. */
  function chordsLine(able) {
    if (!app.piece || !able?.chords || !["replace", "vary", "accompany"].includes(wish.task)) return null;
    const { named, implied } = app.roll.above;
    if (named) return h("p.hint", null, "It follows the chords above the bars.");
    const take = h("button.small", { onclick: () => app.change(writeChords(app.piece, implied)) }, "Follow the chords found");
    return h("div", null, h("p.hint", null, "It chooses chords of its own. Write some above the bars (C in the roll), and it follows them."), implied.length > 0 && take);
  }

  function lengthWords(bars) {
    if (!app.piece) return count(bars, "bar");
    const begin = wish.task === "new" ? 0 : scope().stretch?.end ?? app.piece.duration;
    const { begin: line, end } = app.beats.bar(Math.max(0, begin - 1e-3));
    return `${count(bars, "bar")}, ${(bars * (end - line)).toFixed(1)} s`;
  }

  function refresh() {
    markChosen(tasks, TASKS.findIndex((task) => task.name === wish.task), "aria-checked");
    number.textContent = count(wish.samples, "proposal");
    fewer.disabled = wish.samples === 1;
    moreProposals.disabled = wish.samples === 8;
    if (!app.piece) return;
    const now = describe(wish, app.piece, app.beats, scope(), model());
    sentence.textContent = now.sentence;
    go.disabled = !now.ready || isAsking;
  }

  let isAsking = false;
  async function compose() {
    const { piece } = app;
    const able = model();
    if (!piece || !able || isAsking) return;
    const now = describe(wish, piece, app.beats, scope(), able);
    if (!now.ready) return app.warn(now.sentence);
    isAsking = true;
    refresh();
    const revision = await app.mirror.settled();
    const isOpen = () => app.piece?.id === piece.id; // the user may have left the piece
    const answer = isOpen() && await app.reach(post(`${session(piece.id)}/takes`, { ...request(wish, app.piece, scope(), able), revision }));
    if (answer && isOpen()) {
      const take = app.takes.update(answer);
      app.show(take.id, 1);
      app.say(`${take.label}: asked for ${count(wish.samples, "proposal")}`);
    }
    isAsking = false;
    refresh();
  }

  app.actions.compose = compose;
  app.on("ask", (take) => {
    Object.assign(wish, wishOf(take));
    build();
    app.selection.tracks = new Set(take.tracks ?? []);
    app.selection.pickRange(app.piece, take.request.begin === undefined ? null : { begin: take.request.begin, end: take.request.end });
  });
  app.on("models", build);
  app.on("opened", (piece) => {
    if (!piece) return;
    // The browser keeps the settings of each piece.
    Object.assign(wish, firstWish(), { task: piece.notes.size ? "continue" : piece.chords.length ? "accompany" : "new" }, loadSetting(`wish.${piece.id}`, {}));
    build();
  });
  for (const event of ["change", "click"]) panel.addEventListener(event, () => app.piece && saveSetting(`wish.${app.piece.id}`, wish));
  let previous = "";
  const rebuild = () => { // the model depends on the kind of music, the chords line on the chords
    const { id, music } = app.piece;
    const { named, implied } = app.roll.above;
    if (previous !== (previous = `${id} ${music} ${named} ${implied.length > 0}`)) build();
  };
  app.on("piece", rebuild);
  app.on("chords", rebuild);
  for (const event of ["piece", "selection"]) app.on(event, refresh);
  build();
}
