/** The panel "Compose": the task, its settings, and the button that starts it. */

import { post, session } from "../core/api.js";
import { selectBox, fill, h, icon, iconButton, arrowKeys, markChosen, svg } from "../core/dom.js";
import { clamp } from "../core/numbers.js";
import { count, list } from "../document/words.js";
import { slider } from "./slider.js";
import { saveSetting, loadSetting } from "../core/storage.js";
import { writeChords } from "../document/harmony.js";
import { describe, firstSettings, hasGrid, modelFor, request, TASKS, whyModel, settingsOf } from "./tasks.js";

const TONICS = ["C", "Db", "D", "Eb", "E", "F", "F#", "G", "Ab", "A", "Bb", "B"];
const KEYS = [["", "Any"], ["auto", "As the music is"], ...TONICS.map((key) => [key, `${key} major`]), ...TONICS.map((key) => [`${key}m`, `${key} minor`])];

/** @param {App} app @param {HTMLElement} panel */
export function mountCompose(app, panel) {
  const settings = firstSettings();
  const tasks = TASKS.map((task) => h("button.task", {
    role: "radio", onclick: () => choose(task.name),
  }, taskPicture(task.name), h("span", null, task.label)));
  arrowKeys(tasks, (place) => choose(TASKS[place].name));
  const sentence = h("p.sentence#task-sentence");
  const modelRows = h("div.settings");
  const sizeRows = h("div.settings");
  const controlRows = h("div.settings");
  const more = h("details.more", null, h("summary", null, "More"), h("div.settings"));
  const moreRows = more.lastElementChild;
  const number = h("output.number", { "aria-label": "Number of proposals" });
  const fewer = iconButton("minus", "Fewer proposals", () => samples(-1));
  const moreProposals = iconButton("plus", "More proposals", () => samples(1));
  const go = h("button.gold.go", { "aria-describedby": "task-sentence", title: "Compose (Ctrl+Enter)", onclick: compose },
    icon("spark"), h("span", null, "Compose"));
  fill(panel,
    h("div.tasks", { role: "radiogroup", "aria-label": "Task" }, ...tasks),
    sentence, modelRows, sizeRows, controlRows, more,
    h("div.ask", null, h("div.samples", { role: "group", "aria-label": "Proposals" }, fewer, number, moreProposals), go));

  const why = h("p.hint");
  const scope = () => {
    // A single selected note, such as one just drawn, is not a melody: accompany the whole piece.
    const { selection } = app;
    const needsMelody = settings.task === "accompany" || settings.task === "harmonise";
    if (!needsMelody || selection.range || selection.notes.size > 1) return selection.scope(app.piece);
    return { stretch: null, tracks: selection.tracks.size ? selection.scope(app.piece).tracks : null };
  };
  const chosenModel = () => modelFor(app.models, settings, app.piece);

  function choose(task) {
    settings.task = task;
    build();
  }

  function samples(by) {
    settings.samples = clamp(settings.samples + by, app.options.samples.low, app.options.samples.high);
    refresh();
  }

  /** Rebuild the settings for the task and its model. */
  function build() {
    if (!app.models.length) return refresh();
    const task = TASKS.find((each) => each.name === settings.task);
    const model = chosenModel();
    fill(sizeRows,
      task.sized && optionSlider("bars", lengthWords, ""),
      task.name === "vary" && optionSlider("keep", (value) => `${Math.round(100 * value)} %`));
    fill(controlRows, ...(model?.controls ?? []).map((control) => slider({
      ...control, value: settings.controls[control.name] ?? null, free: "free", marks: control.words,
      words: (value) => `${Math.round(value * 100) / 100} ${control.unit}`,
      onchange(value) {
        if (value === null) delete settings.controls[control.name];
        else settings.controls[control.name] = value;
        guidance.hidden = !Object.keys(settings.controls).length;
      },
    })), notFollowed(model));
    const guidance = optionSlider("guidance", String);
    const temperature = optionSlider("temperature", (value) => value.toFixed(2));
    guidance.hidden = !Object.keys(settings.controls).length;
    fill(modelRows, modelSelect(model), hasGrid(settings) && optionSelect("quantise", [["", "As the file"], ...Object.entries(app.options.quantise.choices)]), chordsLine(model));
    fill(moreRows, guidance, temperature, optionSelect("key", KEYS), seedField());
    refresh();
  }

  /** Make a line that lists the controls which the model ignores. */
  function notFollowed(model) {
    const names = model?.ignores ?? [];
    return names.length > 0 && h("p.hint.ignores", null, `${model.title}: ${list(names)} cannot be asked for; measured, this model does not follow ${names.length > 1 ? "them" : "it"}.`);
  }

  /** Return a setting, by default that of its option. @param {"bars" | "keep" | "guidance" | "temperature"} name */
  const setting = (name) => settings[name] ?? app.options[name]?.default;

  /** Make a slider for a setting. @param {"bars" | "keep" | "guidance" | "temperature"} name @param {(value: number) => string} words */
  const optionSlider = (name, words, sentence = app.options[name].sentence) =>
    slider({ ...app.options[name], sentence, words, value: setting(name), onchange: (value) => { settings[name] = value; refresh(); } });

  /** Make a list for a setting. @param {"quantise" | "key"} name */
  const optionSelect = (name, choices) => h("label.row", null, app.options[name].label, selectBox(choices, settings[name], (value) => { settings[name] = value; }));

  function modelSelect(model) {
    const all = app.models.filter((each) => each.tasks.includes(settings.task));
    if (!all.length) return null;
    const select = selectBox(all.map((each) => [each.name, each.title]), model.name, (name) => { settings.model = name; build(); }, { disabled: all.length < 2 });
    why.textContent = app.piece && model ? `${whyModel(model, settings, app.piece)} ${model.sentence}` : model?.sentence ?? "";
    return h("div", null, h("label.row.model", null, "Model", select), why);
  }

  /** Make a line that tells which chords the model follows, if it follows any. */
  function chordsLine(model) {
    if (!app.piece || !model?.chords || !["replace", "vary", "accompany"].includes(settings.task)) return null;
    const { named, implied } = app.roll.above;
    if (named) return h("p.hint", null, "It follows the chords above the bars.");
    const take = h("button.small", { onclick: () => app.change(writeChords(app.piece, implied)) }, "Follow the chords found");
    return h("div", null, h("p.hint", null, "It chooses chords of its own. Write some above the bars (C in the roll), and it follows them."), implied.length > 0 && take);
  }

  function seedField() {
    const field = h("input", {
      type: "text", inputMode: "numeric", placeholder: "a new one each time", value: settings.seed ?? "", "aria-describedby": "seed-hint",
      onchange() {
        settings.seed = /^\d+$/.test(field.value.trim()) ? Number(field.value) : null;
        if (settings.seed === null) field.value = "";
      },
    });
    return h("div", null, h("label.row", null, "Seed", field),
      h("p.hint#seed-hint", null, "The same seed with the same settings makes the same music."));
  }

  function lengthWords(bars) {
    if (!app.piece) return count(bars, "bar");
    const begin = settings.task === "new" ? 0 : scope().stretch?.end ?? app.piece.duration;
    const { begin: line, end } = app.beats.bar(Math.max(0, begin - 1e-3));
    return `${count(bars, "bar")}, ${(bars * (end - line)).toFixed(1)} s`;
  }

  function refresh() {
    markChosen(tasks, TASKS.findIndex((task) => task.name === settings.task), "aria-checked");
    number.textContent = count(settings.samples, "proposal");
    fewer.disabled = settings.samples === 1;
    moreProposals.disabled = settings.samples === app.options.samples?.high;
    if (!app.piece) return;
    const now = state();
    sentence.textContent = now.sentence;
    go.disabled = !now.ready || isAsking;
  }

  const state = () => describe({ ...settings, keep: setting("keep") }, app.piece, app.beats, scope(), chosenModel());
  let isAsking = false;
  async function compose() {
    const { piece } = app;
    const model = chosenModel();
    if (!piece || !model || isAsking) return;
    const now = state();
    if (!now.ready) return app.emit("message", { text: now.sentence, kind: "error" });
    isAsking = true;
    refresh();
    const revision = await app.mirror.settled();
    const isOpen = () => app.piece?.id === piece.id; // the user may have left the piece
    const answer = isOpen() && await app.reach(post(`${session(piece.id)}/takes`, { ...request(settings, app.piece, scope(), model), revision }));
    if (answer && isOpen()) {
      const take = app.takes.update(answer);
      app.show(take.id, 1);
      app.say(`${take.label}: asked for ${count(settings.samples, "proposal")}`);
    }
    isAsking = false;
    refresh();
  }

  app.actions.compose = compose;
  app.on("ask", (take) => {
    Object.assign(settings, settingsOf(take));
    build();
    app.selection.tracks = new Set(take.tracks ?? []);
    app.selection.pickRange(app.piece, take.request.begin === undefined ? null : { begin: take.request.begin, end: take.request.end });
  });
  app.on("models", build);
  app.on("opened", (piece) => {
    if (!piece) return;
    // The browser keeps the settings of each piece.
    const saved = loadSetting(`wish.${piece.id}`, {});
    if (saved.keep > 1) saved.keep /= 100; // it was a percentage
    Object.assign(settings, firstSettings(), { task: piece.notes.size ? "continue" : piece.chords.length ? "accompany" : "new" }, saved);
    build();
  });
  for (const event of ["change", "click"]) panel.addEventListener(event, () => app.piece && saveSetting(`wish.${app.piece.id}`, settings));
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

/** Pictures of the tasks: notes as [x, y, width, kind] on a field of 48 by 26; kind is i (ink: given) or g (gold: composed). */
const PICTURES = {
  continue: [[2, 16, 8, "i"], [9, 10, 7, "i"], [16, 14, 6, "i"], [25, 8, 8, "g"], [32, 12, 6, "g"], [38, 5, 8, "g"]],
  replace: [[2, 14, 8, "i"], [10, 8, 5, "i"], [17, 5, 7, "g"], [24, 12, 7, "g"], [34, 9, 6, "i"], [40, 15, 6, "i"]],
  vary: [[2, 14, 8, "i"], [10, 8, 7, "i"], [18, 5, 6, "g"], [25, 12, 7, "i"], [33, 17, 6, "g"], [40, 10, 6, "i"]],
  accompany: [[2, 5, 10, "i"], [13, 3, 8, "i"], [22, 7, 12, "i"], [35, 5, 11, "i"], [2, 15, 20, "g"], [2, 20, 20, "g"], [24, 14, 22, "g"], [24, 20, 22, "g"]],
  harmonise: [[2, 3, 13, "i"], [17, 5, 13, "i"], [32, 3, 14, "i"], [2, 9, 13, "g"], [17, 10, 13, "g"], [32, 9, 14, "g"], [2, 14, 13, "g"], [17, 15, 13, "g"], [32, 15, 14, "g"], [2, 20, 13, "g"], [17, 21, 13, "g"], [32, 20, 14, "g"]],
  new: [[3, 17, 9, "g"], [12, 11, 8, "g"], [20, 14, 6, "g"], [27, 6, 9, "g"], [36, 10, 9, "g"]],
};

/** @param {string} task */
function taskPicture(task) {
  const box = (x, y, width, height, kind) => svg("rect", { x, y, width, height, rx: 1.2, class: kind });
  const field = task === "replace" || task === "vary" ? [box(16, 1, 17 + (task === "vary" ? 8 : 0), 24, "field")] : [];
  const notes = PICTURES[task].map(([x, y, width, kind]) => box(x, y, width - 1, 3.4, kind));
  return svg("svg", { viewBox: "0 0 48 26", class: "task-picture", "aria-hidden": "true" }, ...field, ...notes);
}
