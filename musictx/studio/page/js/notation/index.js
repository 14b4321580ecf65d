/** The notation view, which replaces the roll, and the printed page: abcjs draws the text of abc.js. */

import { fill, h, setPressed } from "../core/dom.js";
import { timingAt } from "../document/beats.js";
import { notesById } from "../document/notes.js";
import { keyWords } from "../document/spelling.js";
import { title } from "../document/words.js";
import { toAbc } from "./abc.js";

const ABCJS = new URL("../../vendor/abcjs/abcjs.min.js", import.meta.url);
const BAR_WIDTH = 230; // approximate pixels
const MAX_BARS = 400; // more would take too long to draw
const PRINT_WIDTH = 690; // pixels between the margins of A4 and Letter
const PRINT_BARS = 4; // at most in a printed line
const DENSE = 14; // note starts in a bar; a line has two such bars, and more of others

/** Load abcjs, a classic script that sets a global. */
let loading = null;
const abcjs = () => (loading ??= new Promise((resolve, reject) => {
  document.head.append(h("script", {
    src: ABCJS.href, onload: () => resolve(/** @type {any} */ (window).ABCJS), onerror: () => reject(new Error("abcjs is missing")),
  }));
}));

/**
 * Run `draw` so that abcjs adds no <style> to its SVG: the content security policy would refuse it with a console error,
 * and only dragging of notes needs it.
 */
function withoutStyles(draw) {
  const make = document.createElementNS;
  document.createElementNS = (space, name) => make.call(document, space, name === "style" ? "metadata" : name);
  try {
    return draw();
  } finally {
    document.createElementNS = make;
  }
}

/** Return what the notation of a piece does not show. @param {Piece} piece @param {number} onGrid  share of the notes on the grid */
const remarksOf = (piece, onGrid) => [
  onGrid < 0.85 && "This was not played in time with its bars, so the notation is only approximate.",
  piece.tracks.some((track) => track.drum) && "Drums are not written.",
].filter(Boolean).join(" ");

/** @param {App} app @param {HTMLElement} view @param {HTMLElement} frame  of the roll @param {HTMLElement} button */
export function mountNotation(app, view, frame, button) {
  const [remark, sheet] = /** @type {HTMLElement[]} */ ([...view.children]);

  let stale = true;
  /** @type {{from: number, to: number, ids: number[]}[]} */
  let marks = [];
  /** Note id -> its note heads, several if the note is tied. @type {Map<number, Element[]>} */
  let heads = new Map();
  let sounding = new Set();
  let frameRequest = 0;

  function toggle() {
    view.hidden = !view.hidden;
    frame.hidden = !view.hidden;
    setPressed(button, !view.hidden);
    if (view.hidden) return app.roll.focus();
    remark.textContent = "Drawing the notation …";
    refresh();
    view.focus();
  }

  async function refresh() {
    stale = true;
    if (view.hidden || !app.piece) return;
    const library = await abcjs();
    await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve))); // after a frame: several events draw once
    if (!stale || view.hidden || !app.piece) return;
    stale = false;
    draw(library);
  }

  function draw(library) {
    const { piece } = app;
    const width = Math.max(300, view.clientWidth - 72);
    const { abc, marks: written, onGrid, bars } = toAbc(piece, { barsPerLine: Math.max(1, Math.round(width / BAR_WIDTH)), maxBars: MAX_BARS });
    marks = written;
    const first = bars > MAX_BARS ? `The first ${MAX_BARS} bars. ` : "";
    remark.textContent = abc ? first + remarksOf(piece, onGrid) : "There are no notes to write.";
    const [tune] = withoutStyles(() => library.renderAbc(sheet, abc || "X:1\nK:C\n", {
      staffwidth: width, add_classes: true, paddingleft: 8, paddingright: 8, foregroundColor: "currentColor",
      selectTypes: ["note"], clickListener: (/** @type {any} */ element) => choose(element),
    }));
    heads = new Map();
    const markByStart = new Map(marks.map((mark) => [mark.from, mark]));
    for (const { absEl, svgEl } of tune?.engraver?.selectables ?? []) {
      const mark = markByStart.get(absEl.abcelem?.startChar);
      for (const id of mark?.ids ?? []) heads.set(id, [...(heads.get(id) ?? []), svgEl]);
    }
    showSelection();
  }

  /** Select and play the notes of a clicked note head. */
  function choose(element) {
    const mark = marks.find(({ from, to }) => element.startChar >= from && element.startChar < to);
    if (!mark) return;
    app.selection.selectNotes(mark.ids);
    const notes = notesById(app.piece, mark.ids);
    if (notes.length) app.moveCursor(notes[0].start, notes[0].pitch);
    for (const { pitch, velocity, track } of notes) app.player.audition(pitch, velocity, track);
  }

  function showSelection() {
    for (const [id, elements] of heads) for (const element of elements) element.classList.toggle("selected", app.selection.notes.has(id));
  }

  /** Highlight the note heads that sound, and scroll to them. */
  function follow() {
    frameRequest = 0;
    if (view.hidden || !app.piece) return;
    const { playing, position } = app.player;
    const now = new Set(playing ? app.roll.index.between(position, position + 1e-6).map((note) => note.id) : []);
    for (const id of sounding) if (!now.has(id)) for (const element of heads.get(id) ?? []) element.classList.remove("sounding");
    for (const id of now) {
      if (sounding.has(id)) continue;
      for (const element of heads.get(id) ?? []) element.classList.add("sounding");
      reveal(heads.get(id)?.[0]);
    }
    sounding = now;
    if (playing) frameRequest = requestAnimationFrame(follow);
  }

  function reveal(element) {
    if (!element) return;
    const [box, seen] = [element.getBoundingClientRect(), view.getBoundingClientRect()];
    if (box.bottom > seen.bottom - 40 || box.top < seen.top) view.scrollBy({ top: box.top - seen.top - 80, behavior: "smooth" });
  }

  app.actions.notation = toggle;
  mountPrint(app);
  for (const event of /** @type {const} */ (["piece", "opened"])) app.on(event, refresh);
  app.on("selection", showSelection);
  app.on("play", () => { frameRequest ||= requestAnimationFrame(follow); });
  new ResizeObserver(refresh).observe(view);
}

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
function mountPrint(app) {
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
    const { abc, onGrid } = toAbc(piece, { barsPerLine: Math.max(1, Math.min(PRINT_BARS, Math.round((2 * DENSE) / Math.max(1, startsPerBar)))) });
    remark.textContent = remarksOf(piece, onGrid);
    fill(sheet);
    withoutStyles(() => library.renderAbc(sheet, abc || "X:1\nK:C\n", { staffwidth: PRINT_WIDTH, add_classes: true, paddingleft: 0, paddingright: 0, paddingtop: 6, paddingbottom: 6 }));
    splitLines(sheet);
  }

  app.actions.print = async () => {
    if (!app.piece?.notes.size) return app.showError("There are no notes to print.");
    library = await abcjs();
    window.print();
  };
  // Also runs for the browser's own print command, once abcjs is loaded.
  window.addEventListener("beforeprint", draw);
  window.addEventListener("afterprint", () => fill(sheet));
}
