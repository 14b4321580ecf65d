/**
 * What is dragged in the roll: notes, their ends, a new note, a rubber band.
 *
 * A gesture has move(point, event), end() and cancel(); nothing is sent before end().
 */

import { limitMove, draw, move, resize } from "../document/edits.js";
import { count } from "../document/words.js";

/** @typedef {{x: number, y: number}} Point */

const VELOCITY = 80; // of notes that are drawn

/** How far the pointer has gone in time, so that the note it holds meets the grid (Alt: freely). */
function snapped(app, time, by, event) {
  return event.altKey ? by : app.beats.snap(time + by, app.settings.division) - time;
}

/** Where a note ends that a click draws: as long as the last one, or a line of the grid. @param {App} app */
function asLong(app, start) {
  const { division } = app.settings;
  return Math.max(app.beats.step(start, division, 1), app.beats.snap(start + app.lastLength, division));
}

/** Draws a note into the piece, in the track that is meant, and selects it. @param {App} app */
export function drawNote(app, start, end, pitch) {
  if (!app.inputTrack) return;
  const operation = draw(app.piece, { start, end, pitch, velocity: VELOCITY, track: app.inputTrack.id });
  app.change(operation);
  app.selection.pickNotes([operation.add[0].id]);
}

/**
 * Moves notes, or their starts or ends. @param {App} app @param {Roll} roll @param {Point} from
 * @param {Note[]} notes @param {Note} held @param {"body" | "start" | "end"} part
 */
export function drag(app, roll, from, notes, held, part) {
  let operation = null;
  let pitch = held.pitch;
  return {
    from,
    move(at, event) {
      const { view } = roll;
      const by = (at.x - from.x) / view.scale;
      if (part === "body") {
        const semitones = Math.round((from.y - at.y) / view.row);
        const to = limitMove(notes, snapped(app, held.start, by, event), semitones);
        operation = move(notes, to.seconds, to.semitones);
        if (held.pitch + to.semitones !== pitch) {
          pitch = held.pitch + to.semitones;
          app.player.audition(pitch, held.velocity, held.track);
        }
      } else operation = resize(notes, part, snapped(app, held[part], by, event));
      const first = !roll.dragged.length;
      // The note that is held comes first: its pitch is named.
      roll.dragged = [...(operation?.change ?? notes)].sort((a, b) => Number(b.id === held.id) - Number(a.id === held.id));
      if (first) roll.invalidate();
    },
    end() {
      roll.dragged = [];
      app.change(operation);
      const now = operation && app.piece.notes.get(held.id);
      if (now && part === "body") app.point(now.start, pitch);
      else if (now) app.lastLength = now.end - now.start;
    },
    cancel() {
      roll.dragged = [];
    },
  };
}

/** Draws a note from where the pointer goes down to where it is lifted. @param {App} app @param {Roll} roll @param {Point} from */
export function stroke(app, roll, from) {
  const { division } = app.settings;
  const start = app.beats.floor(roll.view.time(from.x), division);
  const pitch = roll.view.pitch(from.y);
  const track = app.inputTrack?.id ?? 0;
  let end = asLong(app, start);
  const note = () => ({ id: -1, start, end, pitch, velocity: VELOCITY, track });
  roll.dragged = [note()];
  app.player.audition(pitch, VELOCITY, track);
  roll.invalidate("over");
  const keep = () => {
    roll.dragged = [];
    drawNote(app, start, end, pitch);
  };
  return {
    from,
    move(at, event) {
      const time = roll.view.time(at.x);
      const least = event.altKey ? start + 0.03 : app.beats.step(start, division, 1);
      end = Math.max(least, event.altKey ? time : app.beats.snap(time, division));
      roll.dragged = [note()];
    },
    click: keep,
    end() {
      app.lastLength = end - start;
      keep();
    },
    cancel() {
      roll.dragged = [];
    },
  };
}

/** Selects the notes in a rectangle. @param {App} app @param {Roll} roll @param {Point} from @param {"set" | "add"} how */
export function band(app, roll, from, how) {
  const before = how === "add" ? [...app.selection.notes] : [];
  const { tracks } = app.selection;
  // The rectangle belongs to the music: it stays when the view scrolls.
  const time = roll.view.time(from.x);
  const tone = roll.view.top - from.y / roll.view.row;
  return {
    from,
    move(at) {
      const { view } = roll;
      if (at.x > view.width - 12) view.pan(10, 0);
      if (at.x < 12) view.pan(-10, 0);
      roll.band = { x1: view.x(time), y1: (view.top - tone) * view.row, x2: at.x, y2: at.y };
      const inside = roll.index.inside(view, roll.band).filter((note) => !tracks.size || tracks.has(note.track));
      app.selection.pickNotes([...before, ...inside.map((note) => note.id)]);
    },
    end() {
      roll.band = null;
      app.say(`${count(app.selection.notes.size, "note")} selected`);
    },
    cancel() {
      roll.band = null;
    },
  };
}
