/** The printed page: title, tempo, key and notation. */

import { fill } from "../core/dom.js";
import { keyWords } from "../document/spelling.js";
import { timingAt } from "../document/beats.js";
import { title } from "../document/words.js";
import { toAbc } from "./abc.js";
import { abcjs, remarksOf, withoutStyles } from "./index.js";

const WIDTH = 690; // pixels between the margins of A4 and Letter
const BARS = 4; // at most in a line
const CROWDED = 14; // note starts in a bar of which a line has only two

/** Split the SVG into one for each line of staves, so that a page can break between them. @param {HTMLElement} sheet */
function splitLines(sheet) {
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
  const [heading, under, sheet, remark] = /** @type {HTMLElement[]} */ ([...document.getElementById("print").children]);
  let library = null;

  /** Fill the printed page. */
  function draw() {
    const { piece } = app;
    if (!library || !piece) return;
    const { tempo, key } = timingAt(piece);
    heading.textContent = title(piece.name);
    under.textContent = [piece.composer, `♩ = ${Math.round(tempo)}`, key && keyWords(...key)].filter(Boolean).join("  ·  ");
    const bars = Math.max(1, app.beats.bar(piece.duration).number);
    const startsPerBar = new Set([...piece.notes.values()].map((note) => Math.round(note.start * 50))).size / bars;
    const { abc, onGrid } = toAbc(piece, { barsPerLine: Math.max(1, Math.min(BARS, Math.round((2 * CROWDED) / Math.max(1, startsPerBar)))) });
    remark.textContent = remarksOf(piece, onGrid);
    fill(sheet);
    withoutStyles(() => library.renderAbc(sheet, abc || "X:1\nK:C\n", { staffwidth: WIDTH, add_classes: true, paddingleft: 0, paddingright: 0, paddingtop: 6, paddingbottom: 6 }));
    splitLines(sheet);
  }

  app.actions.print = async () => {
    if (!app.piece?.notes.size) return app.warn("There are no notes to print.");
    library = await abcjs();
    window.print();
  };
  // Also runs for the browser's own print command, once abcjs is loaded.
  window.addEventListener("beforeprint", draw);
  window.addEventListener("afterprint", () => fill(sheet));
}
