/** The dialogs of the roll: tempo, meter and key; the options of quantising; the notes as a table. */

import { fill, h } from "../core/dom.js";
import { saveSetting } from "../core/storage.js";
import { timingAt } from "../document/beats.js";
import { keyWords, likelyKey, pitchName, pitchWords } from "../document/spelling.js";
import { count, dynamicWords, positionLabel, positionWords, trackName } from "../document/words.js";
import { slider } from "../panels/slider.js";
import { fromTemplate, openDialog, openForm } from "../shell/dialog.js";

const SHARPS = Array.from({ length: 15 }, (_, i) => i - 7);

/** @param {App} app @param {HTMLButtonElement} button */
export function mountTiming(app, button) {
  button.onclick = () => app.piece && openTiming(app);
  app.on("piece", (piece) => {
    const { tempo, beats, unit, key } = timingAt(piece);
    const rounded = Math.round(tempo * 10) / 10;
    button.textContent = `♩ ${rounded}   ${beats}/${unit}`;
    const words = `Tempo ${rounded}, ${beats}/${unit}${key ? `, ${keyWords(...key)}` : ""}`;
    button.title = `${words}. Click to change`;
    button.setAttribute("aria-label", `${words}: change`);
  });
}

/** @param {App} app */
function openTiming(app) {
  const { piece, beats: bars } = app;
  const changes = piece.timings.slice(1).map(({ time }) => time);
  const cursorBar = bars.bar(app.selection.range?.begin ?? app.cursor.time).begin;
  const [first] = piece.beats.find(([, bar]) => bar === 1); // after a pick-up bar
  const hasChange = (time) => changes.some((at) => Math.abs(at - time) < 1e-2);
  const places = [...changes, ...(cursorBar > first + 1e-2 && !hasChange(cursorBar) ? [cursorBar] : [])].sort((a, b) => a - b);
  const label = (time) => `bar ${bars.bar(time + 1e-3).number}${hasChange(time) ? ", where something changes" : ""}`;
  const keys = [false, true].flatMap((minor) => SHARPS.map((sharps) => [`${sharps} ${minor}`, keyWords(sharps, minor)]));
  const option = ([value, text]) => h("option", { value }, text);
  const content = fromTemplate("timing");
  const find = (selector) => /** @type {any} */ (content.querySelector(selector));
  const [place, tempo, beats, unit, pickup, key] = ["from", "tempo", "beats", "unit", "pickup", "key"].map((name) => find(`[name=${name}]`));
  const [removeButton, hint, sentences] = [find(".remove"), find(".hint"), content.querySelectorAll("small")];
  place.append(...[[0, "the beginning"], ...places.map((time) => [time, label(time)])].map(option));
  place.parentElement.hidden = !places.length;
  key.append(...[["", "not marked"], ...keys].map(option));
  let from = 0;
  place.onchange = () => { from = Number(place.value); show(); };
  removeButton.onclick = () => {
    change({ ...timingAt(app.piece, from - 1e-2), time: from });
    dialog.close();
  };
  let now = timingAt(piece);

  /** Show the timing that holds at the chosen place. */
  function show() {
    now = timingAt(piece, from);
    const several = piece.timings.some((timing) => timing.tempo !== piece.timings[0].tempo);
    tempo.value = String(Math.round(now.tempo * 100) / 100);
    beats.value = String(now.beats);
    unit.value = String(now.unit);
    pickup.value = String(now.pickup);
    key.value = now.key?.join(" ") ?? "";
    pickup.parentElement.hidden = from > 0;
    removeButton.hidden = !hasChange(from);
    sentences[0].textContent = from ? "What follows gets faster or slower, up to the next change." : several ? "The music gets faster or slower as a whole, with all its tempo changes." : "The music gets faster or slower.";
    sentences[1].textContent = from || !several ? "Only the grid changes: for music that was recorded without a metronome." : "Only the grid changes; tempo changes are removed.";
    hint.textContent = from ? "It holds from this bar to the next change." : changes.length ? "Later changes of meter and key stay where they are." : "To change something later, select a bar there first.";
  }

  async function change(timing, keepBeats = true) {
    if (await app.mirror.changeTiming(timing, keepBeats)) app.selection.deselect();
  }

  // The dialog starts at a selected bar.
  if (app.selection.range && cursorBar > first + 1e-2) from = places.find((time) => Math.abs(time - cursorBar) < 1e-2) ?? 0;
  place.value = String(from);
  show();
  const dialog = openForm(app, "Tempo, meter, key", "timing-form", (form) => {
    const exact = Math.abs(Number(tempo.value) - Math.round(now.tempo * 100) / 100) < 1e-9;
    const [sharps, minor] = key.value.split(" ");
    change({
      time: from, tempo: exact ? now.tempo : Number(tempo.value), beats: Number(beats.value), unit: Number(unit.value),
      key: key.value ? [Number(sharps), minor === "true"] : null, pickup: Number(pickup.value),
    }, new FormData(form).get("way") === "beats");
  }, content);
}

/** @param {App} app @param {() => void} quantise */
export function openQuantise(app, quantise) {
  const options = { ...app.settings.quantise };
  /** Make a slider in per cent. @param {"strength" | "swing"} name @param {{label: string, sentence: string, low: number, high: number, step: number}} look */
  const percentSlider = (name, look) => slider({
    ...look, value: Math.round(options[name] * 100), words: (value) => `${value} %`, onchange: (value) => { options[name] = value / 100; },
  });
  const strength = percentSlider("strength", { label: "Strength", sentence: "How far notes move towards the grid line: 100 % onto it.", low: 10, high: 100, step: 5 });
  const swing = percentSlider("swing", { label: "Swing", sentence: "Where every second grid line is between its neighbours: 50 % straight, 67 % as triplets.", low: 50, high: 75, step: 1 });
  const lengths = h("input", { type: "checkbox", checked: options.lengths, onchange: () => { options.lengths = lengths.checked; } });
  openForm(app, "Quantise", "timing-form", () => {
    app.changeSettings({ quantise: options });
    saveSetting("quantise", options);
    quantise();
  }, strength, swing, h("label.choice", null, lengths, h("span", null, "Lengths too")),
  h("div.buttons", null, h("button.gold", { type: "submit" }, "Quantise")));
}

const ROWS = 100;

/** Open a table of the selected notes, or of all. @param {App} app */
export function openTable(app) {
  const { piece, beats, selection, roll } = app;
  if (!piece) return;
  const chosen = selection.notes.size > 1;
  const notes = roll.index.notes.filter((note) => !chosen || selection.notes.has(note.id));
  const tracks = new Map(piece.tracks.map((track) => [track.id, trackName(track)]));
  const key = piece.timings[0].key ?? [likelyKey(notes.map((note) => note.pitch)), false];
  let page = 0;
  const body = h("tbody");
  const where = h("span.hint", { role: "status" });
  const pages = Math.max(1, Math.ceil(notes.length / ROWS));
  const previous = h("button.small", { onclick: () => turn(-1) }, "Previous");
  const next = h("button.small", { onclick: () => turn(1) }, "Next");

  function turn(by) {
    page += by;
    previous.disabled = page === 0;
    next.disabled = page === pages - 1;
    const shown = notes.slice(page * ROWS, (page + 1) * ROWS);
    where.textContent = notes.length ? `${page * ROWS + 1} to ${page * ROWS + shown.length} of ${count(notes.length, "note")}` : "There are no notes.";
    fill(body, ...shown.map(row));
  }

  function row(note) {
    const box = h("input", {
      type: "checkbox", checked: selection.notes.has(note.id), "aria-label": `Select ${pitchWords(note.pitch)}, ${positionWords(beats, note.start)}`,
      onchange: () => selection.toggleNotes([note.id]),
    });
    return h("tr", null, h("td", null, box), h("td", null, positionLabel(beats, note.start)),
      h("td", null, pitchName(note.pitch, key)), h("td", null, count(beats.length(note.start, note.end), "beat")),
      h("td", null, `${dynamicWords(note.velocity)} (${note.velocity})`), h("td", null, tracks.get(note.track) ?? ""),
      h("td", null, piece.locked.has(note.id) ? "locked" : ""));
  }

  turn(0);
  const head = ["Selected", "Bar and beat", "Pitch", "Length", "Loudness", "Track", "Locked"];
  openDialog(chosen ? "The selected notes" : "The notes",
    h("div.table-head", null, where, previous, next),
    h("div.table", { tabIndex: 0, role: "region", "aria-label": "Notes" },
      h("table", null, h("thead", null, h("tr", null, ...head.map((label) => h("th", { scope: "col" }, label)))), body)));
}
