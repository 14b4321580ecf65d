/** The panel "Compose": the task, its settings, and the button that starts it. */

import { post, session } from "../core/api.js";
import { selectBox, fill, h, icon, chooseOne, markChosen } from "../core/dom.js";
import { clamp } from "../core/numbers.js";
import { count, list } from "../document/words.js";
import { slider } from "./slider.js";
import { saveSetting, loadSetting } from "../core/storage.js";
import { writeChords } from "../document/harmony.js";
import { describe, defaultSettings, hasGrid, modelFor, request, TASKS, explainModel, settingsOf } from "./tasks.js";

const TONICS = ["C", "Db", "D", "Eb", "E", "F", "F#", "G", "Ab", "A", "Bb", "B"];
const KEYS = [["", "Any"], ["auto", "As the music is"], ...TONICS.map((key) => [key, `${key} major`]), ...TONICS.map((key) => [`${key}m`, `${key} minor`])];

/** @param {App} app @param {HTMLElement} panel */
export function mountCompose(app, panel) {
  const settings = defaultSettings();
  const tasks = TASKS.map((task) => h("button.task", { role: "radio" }, icon(`task-${task.name}`), h("span", null, task.label)));
  chooseOne(tasks, (index) => {
    settings.task = TASKS[index].name;
    build();
  });
  const find = (selector) => /** @type {any} */ (panel.querySelector(selector));
  const [sentence, modelRows, sizeRows, controlRows, moreRows, sampleCount] = [".sentence", ".model-settings", ".size-settings", ".control-settings", ".more .settings", ".number"].map(find);
  const [fewer, moreProposals, composeButton, seed] = [".fewer", ".plus", ".go", ".seed"].map(find);
  find(".tasks").append(...tasks);
  fewer.onclick = () => changeSamples(-1);
  moreProposals.onclick = () => changeSamples(1);
  composeButton.onclick = compose;
  seed.onchange = () => {
    settings.seed = /^\d+$/.test(seed.value.trim()) ? Number(seed.value) : null;
    if (settings.seed === null) seed.value = "";
  };

  const reason = h("p.hint");
  const scope = () => {
    // A single selected note, such as one just drawn, is not a melody: accompany the whole piece.
    const { selection } = app;
    const needsMelody = settings.task === "accompany" || settings.task === "harmonise";
    if (!needsMelody || selection.range || selection.notes.size > 1) return selection.scope(app.piece);
    return { stretch: null, tracks: selection.tracks.size ? selection.scope(app.piece).tracks : null };
  };
  const chosenModel = () => modelFor(app.models, settings, app.piece);

  function changeSamples(by) {
    settings.samples = clamp(settings.samples + by, app.options.samples.low, app.options.samples.high);
    refresh();
  }

  /** Rebuild the settings for the task and its model. */
  function build() {
    if (!app.models.length) return refresh();
    const task = TASKS.find((each) => each.name === settings.task);
    const model = chosenModel();
    fill(sizeRows,
      task.hasLength && optionSlider("bars", lengthWords, ""),
      task.name === "vary" && optionSlider("keep", (value) => `${Math.round(100 * value)} %`));
    fill(controlRows, ...(model?.controls ?? []).map((control) => slider({
      ...control, value: settings.controls[control.name] ?? null, free: "free", marks: control.words,
      words: (value) => `${Math.round(value * 100) / 100} ${control.unit}`,
      onchange(value) {
        if (value === null) delete settings.controls[control.name];
        else settings.controls[control.name] = value;
      },
    })), ignoredControls(model));
    fill(modelRows, modelSelect(model), hasGrid(settings) && optionSelect("quantise", [["", "As the file"], ...Object.entries(app.options.quantise.choices)]), chordsLine(model));
    fill(moreRows, optionSlider("temperature", (value) => value.toFixed(2)), optionSelect("key", KEYS));
    seed.value = settings.seed ?? "";
    refresh();
  }

  /** Make a line that lists the controls which the model does not follow. */
  function ignoredControls(model) {
    const names = model?.ignores ?? [];
    return names.length > 0 && h("p.hint.ignores", null, `${model.title}: ${list(names)} cannot be set: in tests, this model did not follow ${names.length > 1 ? "them" : "it"}.`);
  }

  /** Return a setting, by default that of its option. @param {"bars" | "keep" | "temperature"} name */
  const setting = (name) => settings[name] ?? app.options[name]?.default;

  /** Make a slider for a setting. @param {"bars" | "keep" | "temperature"} name @param {(value: number) => string} words */
  const optionSlider = (name, words, sentence = app.options[name].sentence) =>
    slider({ ...app.options[name], sentence, words, value: setting(name), onchange: (value) => { settings[name] = value; refresh(); } });

  /** Make a list for a setting. @param {"quantise" | "key"} name */
  const optionSelect = (name, choices) => h("label.row", null, app.options[name].label, selectBox(choices, settings[name], (value) => { settings[name] = value; }));

  function modelSelect(model) {
    const all = app.models.filter((each) => each.tasks.includes(settings.task));
    if (!all.length) return null;
    const select = selectBox(all.map((each) => [each.name, each.title]), model.name, (name) => { settings.model = name; build(); }, { disabled: all.length < 2 });
    reason.textContent = app.piece && model ? `${explainModel(model, settings, app.piece)} ${model.sentence}` : model?.sentence ?? "";
    return h("div", null, h("label.row.model", null, "Model", select), reason);
  }

  /** Make a line that tells which chords the model follows, if it follows any. */
  function chordsLine(model) {
    if (!app.piece || !model?.chords || !["replace", "vary", "accompany"].includes(settings.task)) return null;
    const { hasChords, implied } = app.roll.annotations;
    if (hasChords) return h("p.hint", null, "It follows the chords above the bars.");
    const follow = h("button.small", { onclick: () => app.change(writeChords(app.piece, implied)) }, "Follow the detected chords");
    return h("div", null, h("p.hint", null, "It chooses chords of its own. Write some above the bars (C in the roll), and it follows them."), implied.length > 0 && follow);
  }

  function lengthWords(bars) {
    if (!app.piece) return count(bars, "bar");
    const begin = settings.task === "new" ? 0 : scope().stretch?.end ?? app.piece.duration;
    const { begin: line, end } = app.beats.bar(Math.max(0, begin - 1e-3));
    return `${count(bars, "bar")}, ${(bars * (end - line)).toFixed(1)} s`;
  }

  function refresh() {
    markChosen(tasks, TASKS.findIndex((task) => task.name === settings.task), "aria-checked");
    sampleCount.textContent = count(settings.samples, "proposal");
    fewer.disabled = settings.samples === 1;
    moreProposals.disabled = settings.samples === app.options.samples?.high;
    if (!app.piece) return;
    const now = description();
    sentence.textContent = now.sentence;
    composeButton.disabled = !now.ready || isRequesting;
  }

  const description = () => describe({ ...settings, keep: setting("keep") }, app.piece, app.beats, scope(), chosenModel());
  let isRequesting = false;
  async function compose() {
    const { piece } = app;
    const model = chosenModel();
    if (!piece || !model || isRequesting) return;
    const now = description();
    if (!now.ready) return app.showError(now.sentence);
    if (!app.online) return app.notify("The studio does not answer. Compose when it is back.");
    isRequesting = true;
    refresh();
    const revision = await app.mirror.settled();
    const isOpen = () => app.piece?.id === piece.id; // the user may have left the piece
    const answer = isOpen() && await app.attempt(post(`${session(piece.id)}/takes`, { ...request(settings, app.piece, scope(), model), revision }));
    if (answer && isOpen()) {
      const take = app.takes.update(answer);
      app.show(take.id, 1);
      app.announce(`${take.label}: requested ${count(settings.samples, "proposal")}`);
    }
    isRequesting = false;
    refresh();
  }

  app.actions.compose = compose;
  app.on("restore", (take) => {
    Object.assign(settings, settingsOf(take));
    build();
    app.selection.tracks = new Set(take.tracks ?? []);
    app.selection.selectRange(app.piece, take.request.begin === undefined ? null : { begin: take.request.begin, end: take.request.end });
  });
  app.on("models", build);
  app.on("opened", (piece) => {
    if (!piece) return;
    // The browser keeps the settings of each piece.
    const saved = loadSetting(`wish.${piece.id}`, {});
    if (saved.keep > 1) saved.keep /= 100; // it was a percentage
    Object.assign(settings, defaultSettings(), { task: piece.notes.size ? "continue" : piece.chords.length ? "accompany" : "new" }, saved);
    build();
  });
  for (const event of ["change", "click"]) panel.addEventListener(event, () => app.piece && saveSetting(`wish.${app.piece.id}`, settings));
  let previous = "";
  const rebuild = () => { // the model depends on the kind of music, the line about chords on the chords
    const { hasChords, implied } = app.roll.annotations;
    const current = `${app.piece.id} ${app.piece.music} ${hasChords} ${implied.length > 0}`;
    if (current !== previous) build();
    previous = current;
  };
  for (const event of /** @type {const} */ (["piece", "chords"])) app.on(event, rebuild);
  for (const event of /** @type {const} */ (["piece", "selection"])) app.on(event, refresh);
  build();
}
