/** The button that says tempo and meter, and the dialog that sets them. */

import { h } from "../core/dom.js";
import { keyWords, opening, retimed } from "../document/timing.js";
import { openDialog } from "../shell/dialog.js";

const UNITS = [2, 4, 8, 16];
const SHARPS = Array.from({ length: 15 }, (_, i) => i - 7);

/** @param {import("../app.js").App} app */
export function timingButton(app) {
  const button = h("button.timing", { type: "button", onclick: () => app.piece && openTiming(app) });
  app.on("piece", (piece) => {
    const { tempo, beats, unit, key } = opening(piece);
    const rounded = Math.round(tempo * 10) / 10;
    button.textContent = `♩ ${rounded}   ${beats}/${unit}`;
    const words = `Tempo ${rounded}, ${beats}/${unit}${key ? `, ${keyWords(key.sharps, key.minor)}` : ""}`;
    button.title = `${words}. Click to change`;
    button.setAttribute("aria-label", `${words}: change`);
  });
  return button;
}

/** @param {import("../app.js").App} app */
function openTiming(app) {
  const { piece } = app;
  const now = opening(piece);
  const several = piece.tempos.length > 1;
  const tempo = h("input", { type: "number", min: 10, max: 400, step: "any", value: String(Math.round(now.tempo * 100) / 100), required: true });
  const beats = h("input", { type: "number", min: 1, max: 32, step: 1, value: String(now.beats), "aria-label": "Beats of a bar", required: true });
  const unit = h("select", { "aria-label": "Unit of a beat" }, ...UNITS.map((of) => h("option", { value: String(of), selected: of === now.unit }, String(of))));
  const keys = [["", "not marked"], ...[false, true].flatMap((minor) => SHARPS.map((sharps) => [`${sharps} ${minor}`, keyWords(sharps, minor)]))];
  const key = h("select", null, ...keys.map(([value, label]) =>
    h("option", { value, selected: value === (now.key ? `${now.key.sharps} ${now.key.minor}` : "") }, label)));
  const way = (value, label, sentence, checked) => h("label.choice", null, h("input", { type: "radio", name: "way", value, checked }),
    h("span", null, h("b", null, label), h("small", null, sentence)));
  const form = h("form.timing-form", {
    onsubmit(event) {
      event.preventDefault();
      const exact = Math.abs(Number(tempo.value) - Math.round(now.tempo * 100) / 100) < 1e-9;
      const [sharps, minor] = key.value.split(" ");
      const wish = {
        tempo: exact ? now.tempo : Number(tempo.value), beats: Number(beats.value), unit: Number(unit.value),
        key: key.value ? { sharps: Number(sharps), minor: minor === "true" } : null,
      };
      const follow = new FormData(form).get("way") === "beats";
      const operation = retimed(app.piece, wish, follow);
      if (operation) app.selection.drop();
      app.change(operation);
      dialog.close();
    },
  },
    h("label.row", null, "Tempo, quarter notes a minute", tempo),
    h("fieldset", null, h("legend.unseen", null, "What notes do when the tempo changes"),
      way("beats", "Notes keep their beats", several ? "The music gets faster or slower as a whole, with all its tempo changes." : "The music gets faster or slower.", true),
      way("seconds", "Notes keep their seconds", several ? "Only the grid moves; the tempo changes go." : "Only the grid moves: for playing that was recorded without one.", false)),
    h("div.row", null, "Meter", h("span.meter", null, beats, "/", unit)),
    h("label.row", null, "Key", key),
    h("p.hint", null, piece.meters.length > 1 || piece.keys.length > 1 ? "Later changes of meter and key stay where they are." : "All holds from the beginning of the piece."),
    h("div.buttons", null, h("button.gold", { type: "submit" }, "Change")));
  const dialog = openDialog("Tempo, meter, key", form);
  dialog.classList.add("narrow");
}
