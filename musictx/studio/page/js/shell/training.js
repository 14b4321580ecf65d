/** The dialog that trains a model on a folder of music. */

import { get, post, remove } from "../core/api.js";
import { fill, h, svg } from "../core/dom.js";
import { count, sentence } from "../document/words.js";
import { fromTemplate, openDialog } from "./dialog.js";

const POLL_INTERVAL = 2000; // milliseconds

/** @param {App} app */
export function openTraining(app) {
  const dialog = openDialog("Train a model on your music", fromTemplate("training"));
  const find = (selector) => /** @type {any} */ (dialog.querySelector(`.training ${selector}`));
  const [folder, look, summary, shown, command, begin] = ["input", "[type=submit]", ".findings", ".command", "code", ".begin"].map(find);
  const [state, chart, samples, stop, use] = [".sentence", ".losses", ".samples", ".stop", ".use"].map(find);
  find("form").onsubmit = (event) => { event.preventDefault(); inspectFolder(); };
  begin.onclick = () => {
    begin.disabled = true;
    act(post("training", { folder: folder.value }));
  };
  stop.onclick = () => act(remove("training"));
  use.onclick = useModel;
  let last = /** @type {Training} */ ({ state: "none" });

  folder.addEventListener("input", () => { begin.disabled = true; });

  async function inspectFolder() {
    look.disabled = true;
    fill(summary, "Looking …");
    const contents = await attempt(post("training/look", { folder: folder.value }));
    look.disabled = false;
    if (contents) fill(summary, describeFolder(contents));
    begin.disabled = !contents || last.state === "training";
    showCommand(contents?.command ?? "");
  }

  /** Return the response to a request, or null after showing its error in the dialog. */
  const attempt = (request) => request.catch((error) => {
    fill(summary, sentence(error.message));
    return null;
  });

  function showCommand(text) {
    command.textContent = text;
    shown.hidden = !text;
  }

  async function act(request) {
    const response = await attempt(request);
    await refresh();
    return response;
  }

  async function useModel() {
    const response = await act(post("training/use"));
    if (!response) return;
    await app.loadModels();
    app.notify(`You can now choose the model ${response.model} in the panel.`);
    dialog.close();
  }

  async function refresh() {
    const now = /** @type {Training | null} */ (await app.attempt(get("training")));
    if (!now || !dialog.isConnected) return;
    const runs = now.state === "training";
    if (now.state !== "none" && last.state === "none" && !folder.value) folder.value = now.folder;
    if (now.state !== "none" && (runs || folder.value === now.folder)) showCommand(now.command);
    state.textContent = describeTraining(now);
    begin.lastElementChild.textContent = now.state === "stopped" && folder.value === now.folder ? "Resume" : "Train";
    if (runs) begin.disabled = true;
    else if (folder.value && folder.value === now.folder) begin.disabled = false;
    folder.disabled = look.disabled = runs;
    stop.hidden = !runs;
    use.hidden = !now.model;
    if (String(now.rows) !== String(last.rows)) fill(chart, drawLosses(now.rows ?? []));
    if (String(now.samples) !== String(last.samples)) fill(samples, ...(now.samples ?? []).toReversed().map(sample));
    last = now;
  }

  /** Make a sample with an audio player; the server renders it when it is played. */
  function sample(step) {
    const label = `After step ${step}`;
    return h("li", null, h("span", null, label), h("audio", { controls: true, preload: "none", src: `/api/training/samples/${step}.wav`, "aria-label": label }));
  }

  const timer = setInterval(refresh, POLL_INTERVAL);
  dialog.addEventListener("close", () => clearInterval(timer));
  refresh();
}

/** Describe a folder of music in a few sentences. */
function describeFolder({ files, read, on_beats, density, hours, model, why }) {
  const played = read - on_beats;
  const long = hours >= 1 ? count(Math.round(hours * 10) / 10, "hour") : count(Math.max(1, Math.round(hours * 60)), "minute");
  const kinds = !played ? "all keep to the beats of their file" : !on_beats ? "all are played freely" : `${on_beats} keep to the beats of their file, ${played} ${played === 1 ? "is" : "are"} played freely`;
  const start = model ? `Training begins from the model ${model}, as ${why}.` : `Training begins from random weights, which takes hours: ${why}.`;
  return `${count(files, "piece")}, about ${long} of music. Of ${read} looked at ${kinds}; ${density} notes a second. ${start}`;
}

/** Describe the state of a training in a sentence. @param {Training} training */
function describeTraining({ state, step = 0, rows = [], error = "" }) {
  const validated = rows.filter((row) => row[2] !== null).map((row) => /** @type {number} */ (row[2]));
  const best = validated.length ? ` Validation ${Math.min(...validated).toFixed(3)} nats a token at best.` : "";
  switch (state) {
    case "none": return "";
    case "training": return step ? `Step ${step}.${best} It ends by itself when the loss no longer improves.` : "Reading the files. The first numbers come soon.";
    case "finished": return `Finished after ${count(step, "step")}.${best}`;
    case "stopped": return `Stopped after ${count(step, "step")}.${best} It can be resumed from there.`;
    default: return `It failed: ${error || "see the log in the folder training"}`;
  }
}

/** Draw both losses over the steps; the browser scales them. @param {NonNullable<Training["rows"]>} rows */
function drawLosses(rows) {
  const losses = rows.flatMap((row) => row.slice(1)).filter((loss) => loss !== null);
  if (!losses.length) return null;
  const [low, high, steps] = [Math.min(...losses), Math.max(...losses), rows.at(-1)[0]];
  const line = (kind, place) => svg("polyline", { class: kind, points: rows.filter((row) => row[place] !== null).map((row) => `${row[0]},${-row[place]}`).join(" ") });
  const margin = (high - low) / 40 || 1;
  const label = `Losses from ${high.toFixed(2)} to ${low.toFixed(2)} nats a token, over ${steps} steps`;
  const viewBox = `0 ${-high - margin} ${steps} ${high - low + 2 * margin}`;
  const chart = svg("svg", { viewBox, preserveAspectRatio: "none", role: "img", "aria-label": label }, line("train", 1), line("val", 2));
  return h("figure", null, chart, h("figcaption", null, h("span.train", null, "training"), h("span.val", null, "validation"), ` nats a token: ${low.toFixed(2)} to ${high.toFixed(2)}`));
}
