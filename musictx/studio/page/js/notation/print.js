/** The music on paper: title, tempo, every staff, numbered bars; the browser makes a PDF of it. */

import { fill, h } from "../core/dom.js";
import { keyWords, timingAt } from "../document/timing.js";
import { title } from "../document/words.js";
import { toAbc } from "./abc.js";
import { abcjs, remarksOf, withoutStyles } from "./index.js";

const WIDTH = 690; // pixels between the margins of A4, which Letter has too
const BARS = 4; // in a line at most; fewer where there is much in them
const CROWDED = 14; // beginnings of notes in a bar, of which a line holds twice as many

/** Makes a picture of each line of staves: a page may end between two of them. @param {HTMLElement} sheet */
function inLines(sheet) {
  const whole = sheet.querySelector("svg");
  const lines = [...(whole?.querySelectorAll(".abcjs-staff-wrapper") ?? [])];
  if (!whole || !lines.length) return;
  const width = Number(whole.getAttribute("width") ?? whole.viewBox.baseVal.width);
  const boxes = lines.map((line) => /** @type {SVGGraphicsElement} */ (line).getBBox());
  const pictures = lines.map((line, i) => {
    const picture = /** @type {SVGSVGElement} */ (whole.cloneNode(false));
    const { y, height } = boxes[i];
    picture.setAttribute("viewBox", `0 ${y - 8} ${width} ${height + 16}`);
    picture.setAttribute("height", String(height + 16));
    picture.append(line);
    return picture;
  });
  fill(sheet, ...pictures);
}

/** @param {App} app */
export function mountPrint(app) {
  const sheet = h("div.sheet");
  const heading = h("h1");
  const under = h("p");
  const remark = h("p.remark");
  document.body.append(h("section#print", { "aria-hidden": "true" }, heading, under, sheet, remark));
  let library = null;

  /** Writes what is to be printed. */
  function draw() {
    const { piece } = app;
    if (!library || !piece) return;
    const { tempo, key } = timingAt(piece);
    heading.textContent = title(piece.name);
    under.textContent = [piece.composer, `♩ = ${Math.round(tempo)}`, key && keyWords(key.sharps, key.minor)].filter(Boolean).join("  ·  ");
    const bars = Math.max(1, app.beats.bar(piece.duration).number);
    const beginnings = new Set([...piece.notes.values()].map((note) => Math.round(note.start * 50))).size / bars;
    const { abc, onGrid } = toAbc(piece, { barsPerLine: Math.max(1, Math.min(BARS, Math.round((2 * CROWDED) / Math.max(1, beginnings)))) });
    remark.textContent = remarksOf(piece, onGrid);
    fill(sheet);
    withoutStyles(() => library.renderAbc(sheet, abc || "X:1\nK:C\n", { staffwidth: WIDTH, add_classes: true, paddingleft: 0, paddingright: 0, paddingtop: 6, paddingbottom: 6 }));
    inLines(sheet);
  }

  app.actions.print = async () => {
    if (!app.piece?.notes.size) return app.emit("message", { text: "There are no notes to print.", kind: "error" });
    library = await abcjs();
    window.print();
  };
  // Also by the menu of the browser, once notation was seen or printed.
  window.addEventListener("beforeprint", draw);
  window.addEventListener("afterprint", () => fill(sheet));
}
