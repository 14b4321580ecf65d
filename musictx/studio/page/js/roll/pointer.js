/** Mouse, pen and touch on the roll, its ruler and its keyboard. */

import { onDrag } from "../core/dom.js";
import { deleteNotes } from "../document/edits.js";
import { freeNotes } from "../document/notes.js";
import { stretchWords, count } from "../document/words.js";
import { dragNotes, drawGesture, rubberBand } from "./gestures.js";

const CLICK_SLOP = 4; // pixels by which the pointer may move during a click
const TOUCH_SLOP = 8; // pixels by which a finger may miss a note
const LONG_PRESS = 420; // milliseconds; it starts a rubber band

/** @param {App} app @param {Roll} roll */
export function mountPointer(app, roll) {
  mountCanvas(app, roll);
  mountRuler(app, roll);
  mountKeyboard(app, roll);
  for (const element of [roll.element, roll.canvases.keys, roll.canvases.ruler]) {
    element.addEventListener("wheel", (event) => wheel(roll, event), { passive: false });
  }
}

/** Scroll; with Ctrl (or a pinch on a touchpad) zoom in time, with Alt in pitch. */
function wheel(roll, event) {
  event.preventDefault();
  const { view } = roll;
  const unit = event.deltaMode === 1 ? 24 : 1;
  const factor = Math.exp(-event.deltaY * unit * (event.ctrlKey && Math.abs(event.deltaY) < 40 ? 0.012 : 0.0022));
  if (event.ctrlKey || event.metaKey) view.zoomTime(factor, event.offsetX);
  else if (event.altKey) view.zoomPitch(factor, event.offsetY);
  else if (event.shiftKey) view.pan((event.deltaY || event.deltaX) * unit, 0);
  else view.pan(event.deltaX * unit, event.deltaY * unit);
  roll.stopFollowing();
}

function mountCanvas(app, roll) {
  const { element } = roll;
  /** Touches by pointer id. @type {Map<number, {x: number, y: number}>} */
  const fingers = new Map();
  let gesture = /** @type {any} */ (null);
  let hold;
  const point = (event) => ({ x: event.offsetX, y: event.offsetY });
  /** End the gesture; it finishes by `last`, else it is cancelled. @param {"click" | "end"} [last] */
  const stop = (last) => {
    clearTimeout(hold);
    const ended = gesture;
    gesture = null;
    roll.busy = false;
    roll.dragged = [];
    roll.band = null;
    if (last) ended?.[last]?.();
    roll.invalidate();
  };

  element.addEventListener("pointerdown", (event) => {
    if (!app.piece) return;
    const at = point(event);
    roll.focus();
    event.preventDefault();
    if (event.button === 2) return eraseAt(app, roll, at);
    element.setPointerCapture(event.pointerId);
    roll.busy = true;
    const touch = event.pointerType === "touch";
    if (touch) fingers.set(event.pointerId, at);
    if (fingers.size === 2) {
      stop();
      gesture = pinch(roll, fingers);
      return;
    }
    gesture = { from: at, ...startGesture(app, roll, at, event, touch) };
    if (touch && gesture.pans) {
      hold = setTimeout(() => {
        gesture = { from: at, ...rubberBand(app, roll, at, "set") };
        navigator.vibrate?.(12);
      }, LONG_PRESS);
    }
  });
  element.addEventListener("pointermove", (event) => {
    const at = point(event);
    if (fingers.has(event.pointerId)) fingers.set(event.pointerId, at);
    if (!gesture) return hover(app, roll, at);
    if (gesture.from && !gesture.moved && Math.hypot(at.x - gesture.from.x, at.y - gesture.from.y) < CLICK_SLOP) return;
    if (!gesture.moved) clearTimeout(hold);
    gesture.moved = true;
    gesture.move?.(at, event);
    roll.invalidate(gesture.pans ? "back" : "over");
  });
  element.addEventListener("pointerup", (event) => {
    fingers.delete(event.pointerId);
    if (gesture) stop(gesture.moved ? "end" : "click");
  });
  element.addEventListener("pointercancel", (event) => {
    fingers.delete(event.pointerId);
    stop();
  });
  element.addEventListener("pointerleave", () => hoverPitch(roll, null));
  element.addEventListener("dblclick", (event) => {
    const at = point(event);
    if (app.settings.tool !== "select" || roll.index.hit(roll.view, at.x, at.y)) return;
    gesture = drawGesture(app, roll, at);
    stop("click");
  });
  element.addEventListener("contextmenu", (event) => event.preventDefault());
}

/** Return the gesture that a pointer starts. */
function startGesture(app, roll, at, event, touch) {
  const { view, index } = roll;
  const { selection, settings } = app;
  if (event.button === 1) return pan(roll, at);
  const hit = index.hit(view, at.x, at.y, touch ? TOUCH_SLOP : 0, (note) => selection.notes.has(note.id));
  const adds = event.shiftKey || event.ctrlKey || event.metaKey;
  app.moveCursor(app.beats.floor(view.time(at.x), settings.division), view.pitch(at.y));
  if (hit) {
    const { note, part } = hit;
    if (adds) return { click: () => selection.toggleNotes([note.id]) };
    const isNew = !selection.notes.has(note.id);
    if (isNew) selection.selectNotes([note.id]);
    app.player.audition(note.pitch, note.velocity, note.track);
    app.moveCursor(note.start, note.pitch);
    const notes = freeNotes(app.piece, selection.notes);
    const click = () => isNew || selection.selectNotes([note.id]);
    if (!notes.length) return { click, end: () => app.notify("Locked notes stay where they are. Unlock them with L.") };
    if (touch && settings.tool === "select" && isNew) return { ...pan(roll, at), click };
    return { ...dragNotes(app, roll, at, notes, note, part), click };
  }
  if (settings.tool === "draw") return drawGesture(app, roll, at);
  if (touch) return { ...pan(roll, at), click: () => selection.deselect() };
  return { ...rubberBand(app, roll, at, adds ? "add" : "set"), click: () => !adds && selection.deselect() };
}

/** With the tool "draw", delete the note under the right mouse button. */
function eraseAt(app, roll, at) {
  const hit = app.settings.tool === "draw" && roll.index.hit(roll.view, at.x, at.y);
  if (hit) app.change(deleteNotes(freeNotes(app.piece, [hit.note.id])));
}

/** Scroll with the pointer. */
function pan(roll, from) {
  let last = from;
  return {
    pans: true,
    move(at) {
      roll.view.pan(last.x - at.x, last.y - at.y);
      roll.stopFollowing();
      last = at;
    },
  };
}

/** Scroll and zoom with two fingers; the music under them stays there. */
function pinch(roll, fingers) {
  const measure = () => {
    const [a, b] = [...fingers.values()];
    return { x: (a.x + b.x) / 2, y: (a.y + b.y) / 2, wide: Math.abs(a.x - b.x), tall: Math.abs(a.y - b.y) };
  };
  let last = measure();
  return {
    pans: true,
    move() {
      if (fingers.size < 2) return;
      const now = measure();
      const { view } = roll;
      view.pan(last.x - now.x, last.y - now.y);
      roll.stopFollowing();
      if (last.wide > 40 && now.wide > 40) view.zoomTime(now.wide / last.wide, now.x);
      if (last.tall > 60 && now.tall > 60) view.zoomPitch(now.tall / last.tall, now.y);
      last = now;
    },
  };
}

function hover(app, roll, at) {
  const hit = roll.index.hit(roll.view, at.x, at.y);
  if (hit) roll.element.style.cursor = hit.part === "body" ? "grab" : "ew-resize";
  else roll.element.style.cursor = app.settings.tool === "draw" ? "crosshair" : "default";
  hoverPitch(roll, roll.view.pitch(at.y));
}

/** A click on the ruler moves the playhead; dragging selects bars, or any time with Alt. */
function mountRuler(app, roll) {
  const { ruler } = roll.canvases;
  onDrag(ruler, (event) => {
    if (!app.piece) return null;
    roll.focus();
    const { view } = roll;
    const from = event.offsetX;
    const old = event.shiftKey ? app.selection.range : null;
    let anchor = Math.max(0, view.time(from));
    if (old) anchor = anchor > (old.begin + old.end) / 2 ? old.begin : old.end; // Shift moves the nearer end
    let selects = Boolean(old);
    const select = ({ offsetX, altKey }) => {
      const time = Math.max(0, view.time(offsetX));
      const stretch = altKey ? { begin: Math.min(anchor, time), end: Math.max(anchor, time) } : app.beats.bars(anchor, time);
      app.selection.selectRange(app.piece, stretch);
      roll.invalidate();
    };
    if (selects) select(event);
    return {
      move(event) {
        selects ||= Math.abs(event.offsetX - from) >= CLICK_SLOP;
        if (!selects) return;
        if (event.offsetX >= view.width - 1) view.pan(12, 0); // not inside, where the last bar may end
        if (event.offsetX < 0) view.pan(-12, 0);
        select(event);
      },
      end() {
        const { range, notes } = app.selection;
        if (!selects) {
          const time = app.beats.snap(anchor, app.settings.division);
          app.player.seek(time);
          app.moveCursor(time); // a paste goes to the playhead
        } else if (range) app.announce(`${stretchWords(app.beats, range.begin, range.end)} selected, ${count(notes.size, "note")}`);
        roll.invalidate();
      },
    };
  });
  ruler.addEventListener("dblclick", (event) => {
    app.selection.selectRange(app.piece, app.beats.bar(roll.view.time(event.offsetX)));
  });
}

/** Play the pitches of the keyboard at the left. */
function mountKeyboard(app, roll) {
  onDrag(roll.canvases.keys, (event) => {
    let last = -1;
    const play = ({ offsetY }) => {
      const pitch = roll.view.pitch(offsetY);
      if (pitch === last || !app.inputTrack) return;
      last = pitch;
      app.player.audition(pitch, 88, app.inputTrack.id);
      hoverPitch(roll, pitch);
    };
    const stop = () => hoverPitch(roll, null);
    play(event);
    return { move: play, end: stop, cancel: stop };
  });
}

/** Show a key of the keyboard as pressed. @param {Roll} roll @param {number | null} pitch */
function hoverPitch(roll, pitch) {
  if (pitch === roll.hovered) return;
  roll.hovered = pitch;
  roll.invalidate("over");
}
