/**
 * Gestures of dragging in the roll: notes, their ends, a new note, a rubber band.
 *
 * A gesture is an object with methods that pointer.js calls: move(point, event); at the end click() if the pointer did not move,
 * else end(). Only these two change the piece. pointer.js first clears what the gesture shows, in roll.dragged and roll.band.
 */

import { moveNotes, resizeNotes } from "../document/edits.js";
import { count } from "../document/words.js";

/** @typedef {{x: number, y: number}} Point */

const VELOCITY = 80; // of notes that are drawn

/** Return by how many seconds to move a time so that it is on the grid; with Alt, `by` itself. */
function snappedMove(app, time, by, event) {
  return event.altKey ? by : app.beats.snap(time + by, app.settings.division) - time;
}

/** Add a note to the input track, and select it. @param {App} app */
export function drawNote(app, start, end, pitch) {
  if (!app.inputTrack) return;
  const id = app.piece.next_id;
  app.change({ label: "1 note drawn", add: [{ id, start, end, pitch, velocity: VELOCITY, track: app.inputTrack.id }] });
  app.selection.selectNotes([id]);
}

/**
 * Move notes, or their starts or ends. @param {App} app @param {Roll} roll @param {Point} from
 * @param {Note[]} notes @param {Note} held @param {"body" | "start" | "end"} part
 */
export function dragNotes(app, roll, from, notes, held, part) {
  let operation = null;
  let pitch = held.pitch;
  return {
    move(at, event) {
      const { view } = roll;
      const by = (at.x - from.x) / view.scale;
      if (part === "body") {
        const semitones = Math.round((from.y - at.y) / view.row);
        operation = moveNotes(notes, snappedMove(app, held.start, by, event), semitones);
        const now = operation?.change.find((note) => note.id === held.id) ?? held;
        if (now.pitch !== pitch) app.player.audition(now.pitch, now.velocity, now.track);
        pitch = now.pitch;
      } else operation = resizeNotes(notes, part, snappedMove(app, held[part], by, event));
      const first = !roll.dragged.length;
      // The held note comes first, because the roll labels the first note.
      roll.dragged = [...(operation?.change ?? notes)].sort((a, b) => Number(b.id === held.id) - Number(a.id === held.id));
      if (first) roll.invalidate();
    },
    end() {
      app.change(operation);
      const now = operation && app.piece.notes.get(held.id);
      if (now && part === "body") app.moveCursor(now.start, now.pitch);
      else if (now) app.lastLength = now.end - now.start;
    },
  };
}

/** Draw a note from where the pointer goes down to where it is lifted. @param {App} app @param {Roll} roll @param {Point} from */
export function drawGesture(app, roll, from) {
  const { division } = app.settings;
  const start = app.beats.floor(roll.view.time(from.x), division);
  const pitch = roll.view.pitch(from.y);
  const track = app.inputTrack?.id ?? 0;
  // A click draws a note as long as the last one, at least a grid step.
  let end = Math.max(app.beats.step(start, division, 1), app.beats.snap(start + app.lastLength, division));
  const note = () => ({ id: -1, start, end, pitch, velocity: VELOCITY, track });
  roll.dragged = [note()];
  app.player.audition(pitch, VELOCITY, track);
  roll.invalidate("over");
  const add = () => drawNote(app, start, end, pitch);
  return {
    move(at, event) {
      const time = roll.view.time(at.x);
      const least = event.altKey ? start + 0.03 : app.beats.step(start, division, 1);
      end = Math.max(least, event.altKey ? time : app.beats.snap(time, division));
      roll.dragged = [note()];
    },
    click: add,
    end() {
      app.lastLength = end - start;
      add();
    },
  };
}

/** Select the notes in a rectangle. @param {App} app @param {Roll} roll @param {Point} from @param {"set" | "add"} how */
export function rubberBand(app, roll, from, how) {
  const before = how === "add" ? [...app.selection.notes] : [];
  const { tracks } = app.selection;
  // The corner is kept as time and pitch, because the view may scroll.
  const time = roll.view.time(from.x);
  const pitch = roll.view.top - from.y / roll.view.row; // with a fraction
  return {
    move(at) {
      const { view } = roll;
      if (at.x > view.width - 12) view.pan(10, 0);
      if (at.x < 12) view.pan(-10, 0);
      roll.band = { x1: view.x(time), y1: (view.top - pitch) * view.row, x2: at.x, y2: at.y };
      const inside = roll.index.inside(view, roll.band).filter((note) => !tracks.size || tracks.has(note.track));
      app.selection.selectNotes([...before, ...inside.map((note) => note.id)]);
    },
    end: () => app.announce(`${count(app.selection.notes.size, "note")} selected`),
  };
}
