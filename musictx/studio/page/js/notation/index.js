/** The notation view, which replaces the roll: abcjs draws the text of abc.js. */

import { h, setPressed } from "../core/dom.js";
import { notesById } from "../document/notes.js";
import { toAbc } from "./abc.js";
import { mountPrint } from "./print.js";

const ABCJS = new URL("../../vendor/abcjs/abcjs.min.js", import.meta.url);
const BAR_WIDTH = 230; // approximate pixels
const MOST_BARS = 400; // more would take too long to draw

/** Load abcjs, a classic script that sets a global. */
let loading = null;
export const abcjs = () => (loading ??= new Promise((resolve, reject) => {
  document.head.append(h("script", {
    src: ABCJS.href, onload: () => resolve(window.ABCJS), onerror: () => reject(new Error("abcjs is missing")),
  }));
}));

/**
 * Run `draw` so that abcjs adds no <style> to its SVG: the content security policy would refuse it with a console error,
 * and only dragging of notes needs it.
 */
export function withoutStyles(draw) {
  const make = document.createElementNS;
  document.createElementNS = (space, name) => make.call(document, space, name === "style" ? "metadata" : name);
  try {
    return draw();
  } finally {
    document.createElementNS = make;
  }
}

/** Return what the notation of a piece does not show. @param {Piece} piece @param {number} onGrid  share of the notes on the grid */
export const remarksOf = (piece, onGrid) => [
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
    if (!view.hidden) {
      refresh();
      view.focus();
    } else {
      app.roll.focus();
    }
  }

  async function refresh() {
    stale = true;
    if (view.hidden || !app.piece) return;
    const library = await abcjs();
    await new Promise(requestAnimationFrame); // several events draw once
    if (!stale || view.hidden || !app.piece) return;
    stale = false;
    draw(library);
  }

  function draw(library) {
    const { piece } = app;
    const width = Math.max(300, view.clientWidth - 72);
    const { abc, marks: written, onGrid, bars } = toAbc(piece, { barsPerLine: Math.max(1, Math.round(width / BAR_WIDTH)), most: MOST_BARS });
    marks = written;
    const first = bars > MOST_BARS ? `The first ${MOST_BARS} bars. ` : "";
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
    app.selection.pickNotes(mark.ids);
    const notes = notesById(app.piece, mark.ids);
    if (notes.length) app.point(notes[0].start, notes[0].pitch);
    for (const { pitch, velocity, track } of notes) app.player.audition(pitch, velocity, track);
  }

  function showSelection() {
    for (const [id, elements] of heads) for (const element of elements) element.classList.toggle("picked", app.selection.notes.has(id));
  }

  /** Highlight the note heads that sound, and scroll to them. */
  function follow() {
    frameRequest = 0;
    if (view.hidden || !app.piece) return;
    const { playing, position } = app.player;
    const now = new Set();
    if (playing) for (const note of app.piece.notes.values()) if (note.start <= position && note.end > position) now.add(note.id);
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
  for (const event of ["piece", "opened"]) app.on(event, refresh);
  app.on("selection", showSelection);
  app.on("play", () => { frameRequest ||= requestAnimationFrame(follow); });
  new ResizeObserver(refresh).observe(view);
}
