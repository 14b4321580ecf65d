/** The keyboard shortcuts of the roll, and the edits that buttons share with them. */

import * as edits from "../document/edits.js";
import { extentOf, freeNotes, notesById, trackById } from "../document/notes.js";
import { pitchWords } from "../document/spelling.js";
import { count, noteWords, positionWords, stretchWords, trackName } from "../document/words.js";
import { openQuantise, openTable } from "./dialogs.js";
import { drawNote } from "./gestures.js";

/** @param {App} app @returns {Command[]} */
export function rollCommands(app) {
  return [...cursorCommands(app), ...selectionCommands(app), ...editCommands(app), ...viewCommands(app)];
}

/** Return the note under the cursor. @param {App} app */
const noteAtCursor = (app) => app.roll.index.under(app.cursor.time + 1e-4, app.cursor.pitch);

/** Return the time some grid steps after the cursor. @param {App} app */
const stepFromCursor = (app, steps) => app.beats.step(app.cursor.time, app.settings.division, steps);

/** Announce the cursor's position and the note there. @param {App} app */
function sayCursor(app, { sound = false } = {}) {
  const note = noteAtCursor(app);
  app.roll.view.reveal(app.cursor.time, app.cursor.pitch);
  app.roll.invalidate();
  if (!note) return app.announce(`${pitchWords(app.cursor.pitch)}, ${positionWords(app.beats, app.cursor.time)}, empty`);
  const track = app.piece.tracks.length > 1 ? trackById(app.piece, note.track) : null;
  app.announce([
    noteWords(note, app.beats), track && trackName(track),
    app.selection.notes.has(note.id) && "selected", app.piece.locked.has(note.id) && "locked",
  ].filter(Boolean).join(", "));
  if (sound && !app.player.playing) app.player.audition(note.pitch, note.velocity, note.track);
}

/** @param {App} app @returns {Command[]} */
function cursorCommands(app) {
  const group = "Moving in the roll";
  const go = (time, pitch, options) => {
    app.moveCursor(time, pitch);
    sayCursor(app, options);
  };
  const goToNote = (direction) => {
    const note = app.roll.index.next({ id: noteAtCursor(app)?.id, time: app.cursor.time }, direction);
    if (note) go(note.start, note.pitch, { sound: true });
    else app.announce(direction > 0 ? "last note" : "first note");
  };
  const barLine = (direction) => {
    const { begin, end } = app.beats.bar(app.cursor.time);
    if (direction > 0) return end;
    return begin < app.cursor.time - 1e-3 ? begin : app.beats.bar(Math.max(0, begin - 1e-2)).begin;
  };
  const semitones = (by) => go(app.cursor.time, app.cursor.pitch + by);
  return [
    { keys: ["ArrowLeft", "ArrowRight"], group, description: "One step of the grid", run: ({ key }) => go(stepFromCursor(app, key === "ArrowLeft" ? -1 : 1)) },
    { keys: ["ArrowUp", "ArrowDown"], group, description: "One semitone", run: ({ key }) => semitones(key === "ArrowUp" ? 1 : -1) },
    { keys: ["Ctrl+ArrowLeft", "Ctrl+ArrowRight"], group, description: "To the previous, next note", run: ({ key }) => goToNote(key === "ArrowLeft" ? -1 : 1) },
    { keys: ["Ctrl+ArrowUp", "Ctrl+ArrowDown"], group, description: "One octave", run: ({ key }) => semitones(key === "ArrowUp" ? 12 : -12) },
    { keys: ["PageUp", "PageDown"], group, description: "One bar back, forward", run: ({ key }) => go(barLine(key === "PageUp" ? -1 : 1)) },
    { keys: ["Home", "End"], group, description: "Beginning, end of the piece", run: ({ key }) => go(key === "Home" ? 0 : app.end) },
    { keys: ["C"], group, description: "Write a chord above the bars here", run: () => app.roll.annotations.write("chord", app.beats.floor(app.cursor.time, 1)) },
    { keys: ["M"], group, description: "Write a section above the bars here", run: () => app.roll.annotations.write("section", app.beats.bar(app.cursor.time).begin) },
    { keys: ["W"], group, description: "Write words under the notes: of the selected bars, or from here on", run: () => app.roll.annotations.writeLyrics() },
    { keys: ["P"], group, description: "Move the playhead to the cursor", run: () => { app.player.seek(app.cursor.time); app.announce("playhead here"); } },
  ];
}

/** @param {App} app @returns {Command[]} */
function selectionCommands(app) {
  const group = "Selecting";
  const { selection } = app;
  let anchor = 0;
  const saySelection = () => {
    const { range, notes } = selection;
    const what = range ? `${stretchWords(app.beats, range.begin, range.end)}, ` : "";
    app.announce(`${what}${count(notes.size, "note")} selected`);
  };
  /** Move the cursor, and select the time between its first position and the new one. */
  const extendTo = (to) => {
    if (!selection.range) anchor = app.cursor.time;
    app.moveCursor(to);
    selection.selectRange(app.piece, { begin: Math.min(anchor, to), end: Math.max(anchor, to) });
    app.roll.view.reveal(to);
    app.roll.invalidate();
    saySelection();
  };
  const selectBars = () => {
    const now = app.beats.bar(app.cursor.time);
    const { range } = selection;
    const grown = range && range.begin <= now.begin && range.end >= now.end ? app.beats.bar(range.end + 1e-3) : now;
    selection.selectRange(app.piece, range ? { begin: Math.min(range.begin, now.begin), end: Math.max(range.end, grown.end) } : now);
    saySelection();
  };
  return [
    {
      keys: ["Enter"], group, description: "Select the note under the cursor; draw one where there is none", run() {
        const note = noteAtCursor(app);
        if (note) selection.selectNotes([note.id]);
        else drawNote(app, app.cursor.time, stepFromCursor(app, 1), app.cursor.pitch);
        sayCursor(app, { sound: true });
      },
    },
    { keys: ["Shift+Enter"], group, description: "Add the note to the selection, or remove it", run: () => { const note = noteAtCursor(app); if (note) selection.toggleNotes([note.id]); saySelection(); } },
    { keys: ["B"], group, description: "Select the bar; again: one bar more", run: selectBars },
    { keys: ["Shift+ArrowLeft", "Shift+ArrowRight"], group, description: "Select a stretch of time", run: ({ key }) => extendTo(stepFromCursor(app, key === "ArrowLeft" ? -1 : 1)) },
    { keys: ["Ctrl+A"], group, description: "Select all notes", run: () => { const { tracks } = selection; selection.selectNotes([...app.piece.notes.values()].filter((note) => !tracks.size || tracks.has(note.track)).map((note) => note.id)); saySelection(); } },
    { keys: ["Escape"], group, description: "Select nothing", run: () => { selection.deselect(); app.announce("nothing selected"); } },
  ];
}

/** @type {Note[]} */
let clipboard = [];

/** Return the edits of the selected notes. @param {App} app */
export const selectedEdits = (app) => {
  const { selection } = app;
  /** Apply an edit to the selected notes that are not locked, and announce it. */
  const apply = (edit) => {
    const notes = freeNotes(app.piece, selection.notes);
    if (!notes.length) return app.announce(selection.notes.size ? "these notes are locked" : "nothing selected");
    const operation = edit(notes);
    app.change(operation);
    if (operation) app.announce(operation.label);
    return operation;
  };
  /** Move the cursor after notes, where the next paste goes; return their end. */
  const pointAfter = (notes) => {
    const { end } = extentOf(notes);
    app.moveCursor(app.beats.snap(end, app.settings.division));
    return end;
  };
  return {
    apply,
    deleteNotes: () => apply(edits.deleteNotes),
    quantise: () => apply((notes) => edits.quantiseNotes(notes, app.beats, app.settings.division, app.settings.quantise)),
    changeVelocity: (by) => apply((notes) => edits.changeVelocity(notes, by)),
    toggleLock() {
      const operation = edits.toggleLock(app.piece, [...selection.notes]);
      app.change(operation);
      app.announce(operation?.label ?? "nothing selected");
    },
    copy() {
      const notes = notesById(app.piece, selection.notes);
      if (!notes.length) return;
      clipboard = edits.copyNotes(notes);
      pointAfter(notes);
      app.announce(`${count(notes.length, "note")} copied`);
    },
    paste() {
      const operation = edits.pasteNotes(app.piece, clipboard, app.cursor.time);
      if (!operation) return app.announce("nothing was copied");
      app.change(operation);
      selection.selectNotes(operation.add.map((note) => note.id));
      app.roll.view.reveal(pointAfter(operation.add));
      app.roll.invalidate();
      app.announce(operation.label);
    },
  };
};

/** @param {App} app @returns {Command[]} */
function editCommands(app) {
  const group = "Editing the selected notes";
  const actions = selectedEdits(app);
  const { apply } = actions;
  /** Move the selected notes, and the cursor to the first of them. */
  const move = (steps, semitones) => {
    const { division } = app.settings;
    const operation = apply((notes) => {
      const { begin } = extentOf(notes);
      return edits.moveNotes(notes, steps ? app.beats.step(begin, division, steps) - begin : 0, semitones);
    });
    const first = operation?.change?.[0];
    if (!first) return;
    app.moveCursor(first.start, first.pitch);
    sayCursor(app, { sound: Boolean(semitones) });
  };
  const lengthen = (steps) => apply((notes) => {
    const { end } = extentOf(notes);
    return edits.resizeNotes(notes, "end", app.beats.step(end, app.settings.division, steps) - end);
  });
  return [
    { keys: ["Alt+ArrowLeft", "Alt+ArrowRight"], group, description: "Move by one step of the grid", run: ({ key }) => move(key === "ArrowLeft" ? -1 : 1, 0) },
    { keys: ["Alt+ArrowUp", "Alt+ArrowDown"], group, description: "Move by a semitone", run: ({ key }) => move(0, key === "ArrowUp" ? 1 : -1) },
    { keys: ["Alt+Shift+ArrowUp", "Alt+Shift+ArrowDown"], group, description: "Move by an octave", run: ({ key }) => move(0, key === "ArrowUp" ? 12 : -12) },
    { keys: ["Alt+Shift+ArrowLeft", "Alt+Shift+ArrowRight"], group, description: "Shorter, longer by one step", run: ({ key }) => lengthen(key === "ArrowLeft" ? -1 : 1) },
    { keys: ["<", ">"], group, description: "Louder (opening hairpin), softer", run: ({ key }) => actions.changeVelocity(key === "<" ? 8 : -8) },
    { keys: ["Q"], group, description: "Quantise the starts to the grid", run: actions.quantise },
    { keys: ["Shift+Q"], group, description: "Quantise: how strictly, with swing, lengths too", run: () => openQuantise(app, actions.quantise) },
    { keys: ["L"], group, description: "Lock or unlock: no task changes locked notes", run: actions.toggleLock },
    { keys: ["Delete", "Backspace"], group, description: "Delete", run: actions.deleteNotes },
    { keys: ["Ctrl+C", "Ctrl+X"], group, description: "Copy, cut", run: ({ key }) => { actions.copy(); if (key.toLowerCase() === "x") actions.deleteNotes(); } },
    { keys: ["Ctrl+V"], group, description: "Paste at the cursor", run: actions.paste },
    { keys: ["Ctrl+D"], group, description: "Repeat right after", run: () => { actions.copy(); actions.paste(); } },
  ];
}

/** @param {App} app @returns {Command[]} */
function viewCommands(app) {
  const group = "View";
  const zoom = (factor) => {
    const { view } = app.roll;
    const x = view.x(app.cursor.time);
    app.roll.zoom(factor, x > 0 && x < view.width ? x : undefined);
  };
  const zoomPitch = (factor) => {
    app.roll.view.zoomPitch(factor, app.roll.view.height / 2);
    app.roll.invalidate();
  };
  return [
    { keys: ["+", "="], group, description: "Zoom in (time)", run: () => zoom(1.25) },
    { keys: ["-"], group, description: "Zoom out", run: () => zoom(0.8) },
    { keys: ["Alt++", "Alt+=", "Alt+-"], group, description: "Zoom in, out (pitch)", run: ({ key }) => zoomPitch(key === "-" ? 0.87 : 1.15) },
    { keys: ["0"], group, description: "See the piece from its beginning", run: () => app.roll.fit() },
    { keys: ["F"], group, description: "Zoom to fit what is selected, or the whole piece", run: () => app.roll.fitSelection() },
    { keys: ["K"], group, description: "Shade what is not in the scale of the key, or the black keys", run: () => { app.changeSettings({ scale: !app.settings.scale }); app.announce(app.settings.scale ? "scale of the key" : "black keys"); } },
    { keys: ["D"], group, description: "Draw, or select", run: () => app.changeSettings({ tool: app.settings.tool === "draw" ? "select" : "draw" }) },
    { keys: ["E"], group, description: "The lane of velocities, pedals and controllers", run: () => app.roll.lane.toggle() },
    { keys: ["N"], group, description: "The notes as a table", run: () => openTable(app) },
  ];
}
