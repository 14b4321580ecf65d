/** The lane under the roll, to edit velocities, or to show pedals and controllers. */

import { contextOf, FONT, Pixels } from "../core/canvas.js";
import { fill, h, onDrag } from "../core/dom.js";
import { clamp } from "../core/numbers.js";
import { fetchOnChange } from "../document/fetch_on_change.js";
import { setVelocities } from "../document/edits.js";
import { freeNotes } from "../document/notes.js";
import { count, dynamicLabel } from "../document/words.js";
import { saveSetting, loadSetting } from "../core/storage.js";
import { level, ramp } from "./colours.js";

const NAMES = { 1: "Modulation", 7: "Volume", 10: "Pan", 11: "Expression", 64: "Pedal", 66: "Sostenuto", 67: "Soft pedal", 91: "Reverb", 93: "Chorus" };
const HEIGHT = 84; // pixels
const MARGIN = 6; // pixels above 127 and below 1
const NEAR = 4; // pixels by which a stroke may miss a note

export class Lane {
  /** What is shown: "velocity", or the number of a controller. */
  parameter = "velocity";
  /** Controllers of the file except the sustain pedal: track, number, [time, value] pairs. @type {[number, number, [number, number][]][]} */
  #controllers = [];
  /** Velocities while they are drawn. @type {Map<number, number>} */
  #drawn = new Map();
  #pixels = new Pixels();
  #refetch = () => {};

  /** @param {Roll} roll @param {HTMLCanvasElement} canvas @param {HTMLElement} corner */
  constructor(roll, canvas, corner) {
    this.roll = roll;
    this.canvas = canvas;
    this.corner = corner;
    const { app } = roll;
    this.select = corner.querySelector("select");
    this.select.onchange = () => { this.parameter = this.select.value; roll.invalidate(); };
    this.shown = loadSetting("lane", innerHeight >= 800);
    onDrag(canvas, (event) => this.#startDrawing(event));
    app.on("opened", () => { this.parameter = "velocity"; });
    this.#refetch = fetchOnChange(app, "controllers", () => this.shown, (rows) => {
      this.#controllers = rows ?? [];
      this.#fillSelect();
      roll.invalidate();
    }, 0);
    app.on("piece", () => this.#fillSelect());
  }

  get shown() {
    return !this.canvas.hidden;
  }

  set shown(/** @type {boolean} */ on) {
    this.canvas.hidden = this.corner.hidden = !on;
    document.documentElement.style.setProperty("--lane", on ? `${HEIGHT}px` : "0px");
  }

  toggle() {
    this.shown = !this.shown;
    saveSetting("lane", this.shown);
    if (this.roll.app.piece) this.#refetch();
    this.roll.app.emit("settings", this.roll.app.settings);
    this.roll.app.announce(this.shown ? "lane shown" : "lane hidden");
  }

  /** Fill the list of what the lane can show. */
  #fillSelect() {
    const { piece } = this.roll.app;
    const numbers = new Set(this.#controllers.map(([, number]) => number));
    if (piece.pedals.length) numbers.add(64);
    const options = ["velocity", ...[...numbers].sort((a, b) => a - b).map(String)];
    if (!options.includes(this.parameter)) this.parameter = "velocity";
    if (options.join() !== [...this.select.options].map((option) => option.value).join()) {
      fill(this.select, ...options.map((value) => h("option", { value }, value === "velocity" ? "Vel." : NAMES[value] ?? `CC ${value}`)));
    }
    this.select.value = this.parameter;
  }

  /** Return the unlocked notes that a stroke changes: the selected ones, else the visible ones of the selected tracks. */
  #editable() {
    const { app, index, view } = this.roll;
    const { notes, tracks } = app.selection;
    const ids = notes.size ? notes : index.between(view.left, view.right).filter((note) => !tracks.size || tracks.has(note.track)).map((note) => note.id);
    return freeNotes(app.piece, ids);
  }

  /** Return the gesture that draws velocities, see onDrag. @param {PointerEvent} event */
  #startDrawing(event) {
    const { roll } = this;
    const { app } = roll;
    if (!app.piece || this.parameter !== "velocity") return null;
    roll.focus();
    const first = { x: event.offsetX, y: event.offsetY };
    let last = first;
    const move = (event) => {
      const at = { x: event.offsetX, y: event.offsetY };
      if (event.shiftKey) this.#drawn = velocitiesAlong(this.#editable(), roll.view, first, at);
      else for (const [id, velocity] of velocitiesAlong(this.#editable(), roll.view, last, at)) this.#drawn.set(id, velocity);
      last = at;
      roll.invalidate();
    };
    const cancel = () => {
      this.#drawn = new Map();
      roll.invalidate();
    };
    const end = () => {
      const operation = setVelocities(freeNotes(app.piece, this.#drawn.keys()), this.#drawn);
      cancel();
      app.change(operation);
      if (operation) app.announce(operation.label);
    };
    move(event);
    return { move, end, cancel };
  }

  /** @param {Note[]} visible */
  draw(visible) {
    if (!this.shown) return;
    const { view, colours } = this.roll;
    const ctx = contextOf(this.canvas);
    ctx.fillStyle = colours["row-white"];
    ctx.fillRect(0, 0, view.width, HEIGHT);
    ctx.fillStyle = colours.grid;
    for (const value of [32, 64, 96]) ctx.fillRect(0, Math.round(heightOf(value)), view.width, 1);
    ctx.fillStyle = colours.bar;
    ctx.fillRect(0, 0, view.width, 1);
    this.canvas.classList.toggle("velocity", this.parameter === "velocity");
    if (this.parameter === "velocity") this.#drawVelocities(ctx, visible);
    else this.#drawController(ctx, Number(this.parameter));
    if (this.#drawn.size) {
      const [value] = [...this.#drawn.values()].slice(-1);
      ctx.fillStyle = colours.ink;
      ctx.font = `600 12px ${FONT}`;
      ctx.textBaseline = "top";
      ctx.fillText(`${value} ${dynamicLabel(value)} · ${count(this.#drawn.size, "note")}`, 8, 8);
    }
    ctx.globalAlpha = 1;
  }

  /** Draw a stem for each note: faint ones first, selected ones last. @param {Note[]} visible */
  #drawVelocities(ctx, visible) {
    const { app, view, colours } = this.roll;
    const { notes: selected, tracks: selectedTracks } = app.selection;
    const ramps = new Map(app.piece.tracks.map((track, i) => [track.id, ramp(track, i, colours.dark)]));
    const order = (note) => {
      if (selected.size) return selected.has(note.id) ? 2 : 0;
      return selectedTracks.size && !selectedTracks.has(note.track) ? 0 : 1;
    };
    const pixels = this.#pixels.begin(view.width, HEIGHT);
    const tops = new Uint8Array(Math.ceil(view.width));
    for (const now of selected.size || selectedTracks.size ? [0, 1, 2] : [1]) {
      tops.fill(HEIGHT); // of the stems in each column; only the part above is drawn
      for (const note of visible) {
        if (order(note) !== now) continue;
        const velocity = this.#drawn.get(note.id) ?? note.velocity;
        const x = Math.round(view.x(note.start));
        if (x < -3) continue;
        const y = Math.round(heightOf(velocity));
        pixels.setColour(now === 2 ? colours.ink : ramps.get(note.track)[level(velocity)], now ? 1 : 0.3);
        const column = Math.max(x, 0); // a negative index of a typed array is ten times slower
        if (y < tops[column]) {
          pixels.fillRect(x, y, 2, tops[column] - y);
          tops[column] = y;
        }
        pixels.fillRect(x - 2, y - 2, 5, 4);
      }
    }
    pixels.paint(ctx);
  }

  /** Draw each track's values of a controller as steps. @param {number} number */
  #drawController(ctx, number) {
    const { app, view, colours } = this.roll;
    app.piece.tracks.forEach((track, i) => {
      const moves = number === 64
        ? app.piece.pedals.filter(([, , trackId]) => trackId === track.id)
        : this.#controllers.filter(([trackId, controller]) => trackId === track.id && controller === number).flatMap(([, , rows]) => rows);
      if (!moves.length) return;
      const standsOut = !app.selection.tracks.size || app.selection.tracks.has(track.id);
      ctx.globalAlpha = standsOut ? 0.55 : 0.15;
      ctx.fillStyle = ramp(track, i, colours.dark)[9];
      ctx.beginPath();
      for (const { mark: [, value], left, right } of view.spans(/** @type {number[][]} */ (moves))) {
        if (value) ctx.rect(left, heightOf(value), Math.max(right - left, 0.5), HEIGHT - heightOf(value));
      }
      ctx.fill();
    });
  }
}

/** Return the y of a value, in pixels. */
const heightOf = (value) => MARGIN + (1 - value / 127) * (HEIGHT - 2 * MARGIN);
/** Return the velocity at a y. */
const velocityAt = (y) => clamp(Math.round((1 - (y - MARGIN) / (HEIGHT - 2 * MARGIN)) * 127), 1, 127);

/**
 * Return the velocities that a straight stroke gives to the notes which start between its ends.
 * @param {Note[]} notes @param {View} view @param {{x: number, y: number}} from @param {{x: number, y: number}} to @returns {Map<number, number>}
 */
function velocitiesAlong(notes, view, from, to) {
  const [a, b] = from.x <= to.x ? [from, to] : [to, from];
  const changed = new Map();
  for (const note of notes) {
    const x = view.x(note.start);
    if (x < a.x - NEAR || x > b.x + NEAR) continue;
    const part = b.x - a.x < 1 ? 1 : clamp((x - a.x) / (b.x - a.x), 0, 1);
    changed.set(note.id, velocityAt(b.x - a.x < 1 ? to.y : a.y + (b.y - a.y) * part));
  }
  return changed;
}
