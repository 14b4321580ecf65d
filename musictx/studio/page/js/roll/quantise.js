/** The dialog with the options of quantising. */

import { h } from "../core/dom.js";
import { slider } from "../panels/slider.js";
import { openForm } from "../shell/dialog.js";
import { saveSetting } from "../core/storage.js";

/** @param {App} app @param {() => void} quantise */
export function openQuantise(app, quantise) {
  const how = { ...app.settings.quantise };
  const strength = slider({
    label: "Strength", sentence: "How far notes move towards the grid line: 100 % onto it.", low: 10, high: 100, step: 5, value: Math.round(how.strength * 100),
    words: (value) => `${value} %`, onchange: (value) => { how.strength = Number(value) / 100; },
  });
  const swing = slider({
    label: "Swing", sentence: "Where every second grid line is between its neighbours: 50 % straight, 67 % as triplets.", low: 50, high: 75, step: 1, value: Math.round(how.swing * 100),
    words: (value) => `${value} %`, onchange: (value) => { how.swing = Number(value) / 100; },
  });
  const lengths = h("input", { type: "checkbox", checked: how.lengths, onchange: () => { how.lengths = lengths.checked; } });
  openForm(app, "Quantise", "timing-form", () => {
    app.set({ quantise: how });
    saveSetting("quantise", how);
    quantise();
  }, strength, swing, h("label.choice", null, lengths, h("span", null, "Lengths too")),
  h("div.buttons", null, h("button.gold", { type: "submit" }, "Quantise")));
}
