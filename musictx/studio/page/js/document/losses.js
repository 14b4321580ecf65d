/** A training in words, and the points of its losses. Pure functions. */

import { count } from "./words.js";

/** Describe a folder of music in a few sentences. */
export function describeFolder({ files, read, on_beats, density, hours, model, why }) {
  const played = read - on_beats;
  const long = hours >= 1 ? count(Math.round(hours * 10) / 10, "hour") : count(Math.max(1, Math.round(hours * 60)), "minute");
  const kinds = !played ? "all keep to the beats of their file" : !on_beats ? "all are played freely" : `${on_beats} keep to the beats of their file, ${played} ${played === 1 ? "is" : "are"} played freely`;
  const start = model ? `Training begins from the model ${model}, as ${why}.` : `Training begins from nothing, which takes hours: ${why}.`;
  return `${count(files, "piece")}, about ${long} of music. Of ${read} looked at ${kinds}; ${density} notes a second. ${start}`;
}

/** Describe the state of a training in a sentence. @param {Training} training */
export function describeTraining({ state, step = 0, rows = [], error = "" }) {
  if (state === "none") return "";
  const checked = rows.filter((row) => row[2] !== null).map((row) => /** @type {number} */ (row[2]));
  const best = checked.length ? ` Validation ${Math.min(...checked).toFixed(3)} nats a token at best.` : "";
  switch (state) {
    case "training": return step ? `Step ${step}.${best} It ends by itself when nothing gets better.` : "Reading the files. The first numbers come soon.";
    case "finished": return `Finished after ${count(step, "step")}.${best}`;
    case "stopped": return `Stopped after ${count(step, "step")}.${best} It can go on from there.`;
    default: return `It failed: ${error || "the log in the folder training says more"}`;
  }
}

/**
 * Return the points of both losses in a box of 100 by 40, with the lowest loss at the bottom.
 * @param {NonNullable<Training["rows"]>} rows
 */
export function lossLines(rows) {
  const values = rows.flatMap((row) => [row[1], row[2]]).filter((value) => value !== null);
  if (!values.length) return { train: "", val: "", low: 0, high: 0, steps: 0 };
  const [low, high, steps] = [Math.min(...values), Math.max(...values), rows.at(-1)[0]];
  const points = (place) => rows.filter((row) => row[place] !== null).map((row) =>
    `${((row[0] / steps) * 100).toFixed(2)},${(high > low ? ((high - row[place]) / (high - low)) * 38 + 1 : 20).toFixed(2)}`).join(" ");
  return { train: points(1), val: points(2), low, high, steps };
}
