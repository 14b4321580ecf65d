/** The piano roll: its canvases and view, and when to redraw them. */

import { contextOf, Pixels } from "../core/canvas.js";
import { isAudible } from "../document/mixer.js";
import { extentOf } from "../document/notes.js";
import { composedUntil } from "../document/takes.js";
import { pitchLabel } from "../document/spelling.js";
import { count } from "../document/words.js";
import { Annotations } from "./annotations.js";
import { palette, ramp, trackColour } from "./colours.js";
import { drawGrid, drawKeys, drawRuler } from "./grid.js";
import { NoteIndex } from "./note_index.js";
import { Lane } from "./lane.js";
import * as notes from "./notes.js";
import { Overview } from "./overview.js";
import { mountPointer } from "./pointer.js";
import { View } from "./view.js";

const EMPTY_PIECE = "Nothing here yet. Draw with the pencil, record what you play, or ask for something new.";
const ONLY_CHORDS = "Chords without notes. Accompany composes tracks to them.";

export class Roll {
  view = new View();
  index = new NoteIndex([]);
  colours = {};
  #pixels = { back: new Pixels(), over: new Pixels() };
  /** Notes while they are dragged; they hide the notes of the same ids. @type {Note[]} */
  dragged = [];
  /** The rubber band, in pixels of the roll. @type {{x1: number, y1: number, x2: number, y2: number} | null} */
  band = null;
  /** The pitch under the mouse. @type {number | null} */
  hovered = null;
  /** Further painters of the overlay: (context, pixels, view, colours). @type {Set<Function>} */
  painters = new Set();
  #stale = { back: false, over: false };
  #frame = 0;
  #following = true;
  /** Is there a gesture? Then the view does not follow the playhead. */
  busy = false;

  /** @param {App} app @param {HTMLElement} frame */
  constructor(app, frame) {
    this.app = app;
    const find = (selector) => /** @type {any} */ (frame.querySelector(selector));
    this.canvases = Object.fromEntries(["ruler", "keys", "back", "over"].map((name) => [name, find(`canvas.${name}`)]));
    this.marks = Object.fromEntries(["range", "playhead", "band", "cursor"].map((name) => [name, /** @type {HTMLElement[]} */ ([...frame.querySelectorAll(`.marks .${name}`)])]));
    this.element = find("#roll");
    this.empty = find(".empty-roll");
    this.overview = new Overview(this, find("canvas.overview"));
    this.annotations = new Annotations(this, find("canvas.annotations"));
    this.lane = new Lane(this, find("canvas.lane"), find(".corner.lane"));
    mountPointer(app, this);
    this.#listen();
    this.repaint();
    new ResizeObserver(() => this.#resize()).observe(this.element);
    this.#resize();
  }

  #listen() {
    const { app } = this;
    app.on("piece", (piece) => {
      this.index = new NoteIndex(piece.notes.values());
      this.#measure();
      this.overview.stale = true;
      this.empty.textContent = piece.chords.length ? ONLY_CHORDS : EMPTY_PIECE;
      this.element.setAttribute("aria-label", `Piano roll of ${piece.name}, ${count(piece.notes.size, "note")}`);
      this.invalidate();
    });
    app.on("opened", (piece) => {
      app.lastLength = 0;
      if (!piece) return;
      this.#resize();
      this.fit();
      const first = this.index.notes[0];
      app.moveCursor(first?.start ?? 0, first?.pitch ?? 60);
      this.focus();
    });
    app.on("shown", (shown) => {
      this.#measure();
      this.invalidate();
      if (!shown) return;
      this.lookAt(app.stretchOf(shown.take));
      this.#revealGhost(shown.proposal);
    });
    app.on("takes", () => {
      if (app.ghost) this.#revealGhost(app.ghost.proposal);
      this.invalidate();
    });
    app.takes.on("notes", ({ take, proposal }) => {
      if (take === app.shownProposal?.take && proposal === app.shownProposal.proposal) this.#followComposing(take, proposal);
      this.invalidate("over");
    });
    app.on("selection", () => this.invalidate());
    app.on("play", () => {
      this.#following = true;
      this.invalidate("over");
    });
    app.on("cursor", () => this.invalidate("over"));
    app.on("settings", () => this.repaint());
    for (const kind of ["focus", "blur"]) this.element.addEventListener(kind, () => this.invalidate("over"));
  }

  focus() {
    this.element.focus({ preventScroll: true });
  }

  /** Redraw a layer at the next frame; with "back" everything is redrawn. @param {"back" | "over"} [layer] */
  invalidate(layer = "back") {
    this.#stale[layer] = true;
    this.#frame ||= requestAnimationFrame(() => this.#draw());
  }

  /** Read the theme's colours again, and redraw. */
  repaint() {
    this.colours = palette();
    this.overview.stale = true;
    this.invalidate();
  }

  /** Show the beginning of the piece, with all its pitches. */
  fit() {
    const { beats, end } = this.app;
    this.#fit({ begin: 0, end: beats.bars(0, Math.max(beats.time(16), Math.min(end, 24))).end }, this.index.notes);
    this.invalidate();
  }

  /** Show the whole selection, or the whole piece. */
  fitSelection() {
    const { app } = this;
    const stretch = app.selection.scope(app.piece).stretch ?? { begin: 0, end: app.beats.bars(0, Math.max(app.end, app.beats.time(4))).end };
    this.#fit(stretch, this.index.between(stretch.begin, stretch.end));
    this.stopFollowing();
  }

  /** Zoom in time; what is at x stays there. @param {number} factor */
  zoom(factor, x = this.view.width / 2) {
    this.view.zoomTime(factor, x);
    this.invalidate();
  }

  /** Show a stretch with the pitches of some notes. @param {Stretch} stretch @param {Note[]} notes */
  #fit({ begin, end }, notes) {
    const { low, high } = extentOf(notes) ?? { low: 54, high: 76 };
    this.view.fit(begin, end, low, high);
  }

  /** Scroll to a stretch, and zoom out if it does not fit. */
  lookAt({ begin, end }) {
    const { view } = this;
    if (begin >= view.left && end <= view.right) return;
    const wide = Math.max(end - begin, 1) * 1.25;
    if (wide > view.width / view.scale) view.scale = view.width / wide;
    view.left = begin - (view.width / view.scale - (end - begin)) / 2;
    view.bound();
    this.invalidate();
  }

  /** Follow the end of a proposal that is being composed. */
  #followComposing(take, proposal) {
    const { app, view } = this;
    const at = composedUntil(proposal, app.stretchOf(take).begin);
    if (app.player.playing || at <= view.right - 30 / view.scale) return;
    view.left = at - (view.width * 0.6) / view.scale;
    this.#measure();
    view.bound();
    this.invalidate();
  }

  /** Show all pitches of a proposal. */
  #revealGhost({ notes }) {
    const extent = extentOf(notes);
    if (extent) this.view.revealPitches(extent.low, extent.high);
  }

  /** Set how far the view can scroll: to eight bars after the piece or the proposal. */
  #measure() {
    const { beats, shownProposal: shown } = this.app;
    const end = Math.max(this.app.end, shown ? Math.max(this.app.stretchOf(shown.take).end, composedUntil(shown.proposal, 0)) : 0);
    this.view.length = beats.bars(0, end + 0.01).end + 8 * (beats.bar(end).end - beats.bar(end).begin);
  }

  #resize() {
    const { clientWidth: width, clientHeight: height } = this.element;
    if (!width || !height) return;
    this.view.resize(width, height);
    this.#stale.back = true;
    this.#draw(); // now, because the canvases have another size
  }

  #draw() {
    this.#frame = 0;
    const { app, view } = this;
    const { piece, player } = app;
    if (!piece) return;
    if (player.playing && !this.busy) this.#follow(player.position);
    const stale = this.#stale.back;
    this.#stale = { back: false, over: false };
    const shown = app.ghost;
    const { removed, restored } = app.exchangedNotes(shown?.take, shown?.proposal);
    const visible = [...this.index.between(view.left, view.right), ...restored.filter((note) => note.start < view.right && note.end > view.left)];
    this.empty.hidden = piece.notes.size > 0 || Boolean(shown) || this.dragged.length > 0;
    if (stale) this.#drawBack(piece, visible, removed);
    this.#drawOver(piece, visible, shown, removed);
    if (stale) this.overview.draw();
    if (player.playing) this.invalidate("over");
  }

  #drawBack(piece, visible, removedByGhost) {
    const { view, colours, app } = this;
    const removed = new Set([...removedByGhost, ...this.dragged.map((note) => note.id)]);
    const ctx = contextOf(this.canvases.back);
    drawGrid(ctx, view, app.beats, app.settings.division, colours, app.settings.scale ? piece.timings : []);
    drawRuler(contextOf(this.canvases.ruler), view, app.beats, colours);
    this.lane.draw(visible.filter((note) => !removed.has(note.id)));
    const pixels = this.#pixels.back.begin(view.width, view.height);
    notes.drawNotes(ctx, pixels, view, visible, { tracks: piece.tracks, selectedTracks: app.selection.tracks, removed, dark: colours.dark });
    pixels.paint(ctx);
  }

  #drawOver(piece, visible, shown, removed) {
    const { app, view, colours } = this;
    const { selection } = app;
    const ctx = contextOf(this.canvases.over);
    ctx.clearRect(0, 0, view.width, view.height);
    const pixels = this.#pixels.over.begin(view.width, view.height);
    notes.drawLocks(ctx, pixels, view, visible.filter((note) => piece.locked.has(note.id)), colours);
    if (selection.notes.size && !this.dragged.length) {
      const selected = visible.filter((note) => selection.notes.has(note.id) && !removed.has(note.id));
      notes.outlineNotes(ctx, pixels, view, selected, colours["row-white"], 3, 0.5);
      notes.outlineNotes(ctx, pixels, view, selected, colours.ink, 1.75, 0.5);
    }
    if (shown) {
      const { take, proposal } = shown;
      const composed = composedUntil(proposal, app.stretchOf(take).begin);
      notes.drawGhosts(ctx, pixels, view, proposal.notes, composed, proposal.state === "composing", colours);
    }
    for (const paint of this.painters) paint(ctx, pixels, view, colours);
    if (this.dragged.length) notes.drawDragged(ctx, pixels, view, this.dragged, colours);
    pixels.paint(ctx);
    this.annotations.draw();
    this.#drawKeys(piece, shown?.proposal, removed);
    this.#placeMarks();
  }

  #placeMarks() {
    const { app: { beats, cursor, selection: { range }, settings, player }, view, band } = this;
    this.#place("range", range && { left: Math.round(view.x(range.begin)), width: Math.round((range.end - range.begin) * view.scale) });
    this.#place("playhead", { left: Math.round(view.x(player.position)) });
    this.#place("band", band && {
      left: Math.min(band.x1, band.x2), top: Math.min(band.y1, band.y2), width: Math.abs(band.x2 - band.x1), height: Math.abs(band.y2 - band.y1),
    });
    const top = view.y(cursor.pitch);
    const step = (beats.step(cursor.time, settings.division, 1) - cursor.time) * view.scale;
    const [frame] = this.#place("cursor", this.element.matches(":focus-visible") && { left: view.x(cursor.time), top, width: Math.max(8, step), height: view.row });
    frame.firstElementChild.textContent = pitchLabel(cursor.pitch);
    frame.classList.toggle("below", top < 22);
  }

  /** Place the elements of a mark by pixels, or hide them. @param {string} name @param {Record<string, number> | null | false} box */
  #place(name, box) {
    for (const element of this.marks[name]) {
      element.hidden = !box;
      for (const [side, pixels] of Object.entries(box || {})) element.style[side] = `${pixels}px`;
    }
    return this.marks[name];
  }

  /** Draw the keyboard, with the sounding keys in colour. */
  #drawKeys(piece, proposal, removed) {
    const { view, colours, app } = this;
    const lit = new Map();
    if (app.player.playing) {
      const now = app.player.position;
      for (const note of this.index.between(now, now + 1e-6)) {
        const place = piece.tracks.findIndex((track) => track.id === note.track);
        if (place >= 0 && isAudible(piece.tracks, note.track) && !removed.has(note.id)) lit.set(note.pitch, ramp(piece.tracks[place], place, colours.dark)[11]);
      }
      for (const { start, end, pitch } of proposal?.notes ?? []) if (start <= now && (end ?? Infinity) > now) lit.set(pitch, colours.gold);
    } else if (this.hovered !== null) lit.set(this.hovered, app.inputTrack ? trackColour(app.inputTrack, piece.tracks.indexOf(app.inputTrack)) : colours.select);
    drawKeys(contextOf(this.canvases.keys), view, lit, colours);
  }

  /** Redraw after the user has scrolled; the view follows the playhead again once that is visible. */
  stopFollowing() {
    this.#following = false;
    this.invalidate();
  }

  /** Scroll if the playhead has left the view. */
  #follow(seconds) {
    const { view } = this;
    const x = view.x(seconds);
    if (x >= 0 && x <= view.width * 0.92) this.#following = true;
    else if (this.#following) {
      view.left = seconds - (view.width * 0.08) / view.scale;
      view.bound();
      this.#stale.back = true;
    }
  }
}
