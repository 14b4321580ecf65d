/** Input from the computer's keys and MIDI keyboards, and its recording into the piece. */

import { setPressed } from "../core/dom.js";
import { pitchLabel } from "../document/spelling.js";
import { drawGhosts } from "../roll/notes.js";
import { connectMidi, KeyPiano } from "./keyboards.js";
import { countIn, addRecording, Recording } from "./recording.js";

/** @param {App} app @param {Player} player @param {(selector: string) => any} find  in the transport bar */
export function mountInput(app, player, find) {
  /** @type {Recording | null} */
  let recording = null;
  let startTime = 0; // of performance.now(), when the count-in ends
  let beat = 1; // seconds between two clicks of the count-in
  let connection = /** @type {{close: () => void} | null} */ (null); // to MIDI keyboards
  let names = /** @type {string[]} */ ([]); // of these

  const callbacks = {
    onNote(pitch, velocity, time) {
      if (!app.inputTrack) return;
      player.key(app.inputTrack.id, pitch, velocity);
      if (!recording) return;
      if (velocity) recording.noteOn(player.at(time), pitch, velocity);
      else recording.noteOff(player.at(time), pitch);
    },
    onSustain(down, time) {
      if (!app.inputTrack) return;
      player.pedal(app.inputTrack.id, down);
      recording?.sustain(player.at(time), down);
    },
  };
  const keys = new KeyPiano(callbacks.onNote, show);

  const [record, piano, octave, midi] = [".record", ".piano", ".octave", ".midi"].map(find);
  app.actions.record = () => (recording ? finish() : start());
  midi.onclick = toggleMidi;
  piano.onclick = () => {
    keys.enabled = !keys.enabled;
    show();
    app.announce(keys.enabled ? "The computer's keys play notes. Z and X change the octave." : "The computer's keys are commands again.");
  };

  async function toggleMidi() {
    if (connection) {
      connection.close();
      connection = null;
    } else {
      const onInputs = (inputs) => { names = inputs; show(); };
      connection = await connectMidi({ ...callbacks, onInputs }).catch((error) => { app.showError(error.message); return null; });
    }
    show();
  }

  async function start() {
    if (!app.piece || !app.inputTrack) return;
    const from = player.position;
    recording = new Recording(app.inputTrack.id, from);
    app.roll.painters.add(paint);
    show();
    const clicks = countIn(app.beats, from);
    app.announce("counting in");
    await player.record(from, clicks);
    startTime = performance.now() + clicks[0] * 1000;
    beat = clicks[clicks.length - 1];
  }

  /** Stop, and add the recorded notes to the piece. */
  function finish() {
    if (!recording) return;
    const played = recording.end(player.position);
    recording = null;
    app.roll.painters.delete(paint);
    player.stop();
    show();
    if (!app.piece) return;
    const operation = addRecording(app.piece, played);
    if (!operation) return app.announce("nothing was played");
    app.change(operation);
    app.selection.selectNotes(operation.add.map((note) => note.id));
    const them = operation.add.length > 1 ? "them" : "it";
    app.notify(`${operation.label}. Q moves ${them} to the grid, Ctrl+Z removes ${them}.`);
  }

  function paint(ctx, pixels, view, colours) {
    drawGhosts(ctx, pixels, view, recording.notes, player.position, performance.now() > startTime, colours);
  }

  function show() {
    setPressed(record, recording !== null);
    setPressed(piano, keys.enabled);
    octave.hidden = !keys.enabled;
    octave.textContent = `A = ${pitchLabel(keys.base)}`;
    setPressed(midi, connection !== null);
    midi.title = !connection ? "Listen to MIDI keyboards" : names.length ? `Listening to ${names.join(", ")}` : "No MIDI keyboard is connected yet";
  }

  app.on("play", () => {
    if (recording && player.state === "stopped") finish();
  });
  app.on("opened", () => { // drop the recording of the previous piece
    recording = null;
    app.roll.painters.delete(paint);
    show();
  });
  show();
  return {
    /** The number of clicks left in the count-in. */
    get countIn() { return recording ? Math.max(0, Math.ceil((startTime - performance.now()) / 1000 / beat)) : 0; },
  };
}
