/** The list of tracks: names, colours, mixer, selection, and an editor for each track. */

import { selectBox, h, iconButton, syncRows, set, setRange } from "../core/dom.js";
import { moveToTrack } from "../document/edits.js";
import { changeTrack, duplicateTrack, isAudible, MIXER, mixerValue, moveTrack, panWords, toggleTrackLock } from "../document/mixer.js";
import { allLocked, freeNotes, notesById, notesOf, trackById } from "../document/notes.js";
import { count, instrument, list as listOf, PROGRAMS, trackName } from "../document/words.js";
import { trackColour } from "../roll/colours.js";

/** @param {App} app @param {HTMLElement} panel */
export function mountTracks(app, panel) {
  const [list, hint] = ["ul", ".hint"].map((selector) => /** @type {HTMLElement} */ (panel.querySelector(selector)));
  let editing = /** @type {number | null} */ (null);
  let counts = /** @type {Map<number, number>} */ (new Map());
  /** @type {HTMLElement} */ (panel.querySelector(".plus")).onclick = add;

  function refresh() {
    const { piece } = app;
    if (!piece) return;
    syncRows(list, piece.tracks, (track) => track.id, row);
    const names = piece.tracks.filter((track) => app.selection.tracks.has(track.id)).map(trackName);
    hint.textContent = names.length
      ? `Selecting and composing are limited to ${listOf(names)}.`
      : piece.tracks.length > 1 ? "Click a track to select and compose in it alone; Shift adds another." : "";
  }

  /** Make the row of a track. @param {Track} track */
  function row({ id }) {
    const name = h("span");
    const instrumentName = h("span.instrument");
    const button = h("button.pick", {
      onclick: (event) => select(id, event.shiftKey || event.ctrlKey || event.metaKey), ondblclick: () => edit(id),
    }, name, instrumentName);
    const flag = (letter, word) => ({
      word,
      button: h(`button.flag.${word}`, {
        onclick() {
          const track = trackById(app.piece, id);
          app.change(changeTrack(app.piece, id, { [word]: !track?.[word] }, `${word} ${trackName(track)}`));
        },
      }, letter),
    });
    const flags = [flag("M", "mute"), flag("S", "solo")];
    const volume = fader(id, "volume");
    const pan = fader(id, "pan");
    const more = iconButton("more", "", () => edit(id));
    let form = /** @type {ReturnType<typeof editor> | null} */ (null); // made when it is opened first
    const element = h("li.track", null, button, h("span", null, ...flags.map((flag) => flag.button)), more, h("div.faders", null, volume.input, pan.input));

    /** @param {Track} track */
    function update(track, index) {
      const label = trackName(track);
      const notes = count(counts.get(id) ?? 0, "note");
      const selected = app.selection.tracks.has(id);
      name.textContent = label;
      instrumentName.textContent = track.name ? instrument(track) : ""; // without a name, this is the label
      set(button, { title: `${notes}. Click to select this track`, "aria-label": `${label} ${instrumentName.textContent}, ${notes}${selected ? ", selected" : ""}` });
      for (const flag of flags) set(flag.button, { title: `${flag.word} ${label}`, "aria-label": `${flag.word} ${label}`, "aria-pressed": String(Boolean(track[flag.word])) });
      for (const each of [volume, pan]) each.update(track, label);
      set(more, { title: "Name and instrument", "aria-label": `Name and instrument of ${label}`, "aria-expanded": String(editing === id) });
      element.style.setProperty("--colour", trackColour(track, index));
      element.classList.toggle("selected", selected);
      element.classList.toggle("silent", !isAudible(app.piece.tracks, id));
      if (form) form.element.hidden = editing !== id;
      if (editing !== id) return;
      if (!form) element.append((form = editor(id)).element);
      form.update(track);
    }
    return { element, update };
  }

  /** Make a mixer slider; the sound follows while it is dragged. @param {number} id @param {import("../document/mixer.js").MixerSetting} setting */
  function fader(id, setting) {
    const words = setting === "pan" ? panWords : (value) => `${Math.round((value / 127) * 100)} %`;
    const input = h(`input.fader.${setting}`, {
      type: "range", min: 0, max: 127, step: 1,
      oninput() {
        showValue(Number(input.value));
        app.mixing = { id, change: { [setting]: Number(input.value) } };
        app.emit("mix", null);
      },
      onchange() {
        app.mixing = null;
        const track = trackById(app.piece, id);
        app.change(changeTrack(app.piece, id, { [setting]: Number(input.value) }, `${setting} of ${trackName(track)} ${words(Number(input.value))}`));
      },
      ondblclick() {
        input.value = String(MIXER[setting].initial);
        input.dispatchEvent(new Event("change"));
      },
    });
    let name = "";
    const showValue = (value) => {
      setRange(input, value, words(value));
      set(input, { title: `${setting[0].toUpperCase()}${setting.slice(1)}: ${words(value)}. Double-click: reset`, "aria-label": `${setting} of ${name}` });
    };
    return {
      input,
      /** @param {Track} track */
      update(track, label) {
        name = label;
        const isDragged = app.mixing?.id === id && setting in app.mixing.change;
        showValue(isDragged ? Number(input.value) : mixerValue(track, setting));
      },
    };
  }

  /** Make the form below a track's row. */
  function editor(id) {
    const change = (/** @type {Partial<Track>} */ fields) => app.change(changeTrack(app.piece, id, fields));
    const name = h("input", { type: "text", maxLength: 60, onchange: () => change({ name: name.value.trim() }) });
    const instrumentBox = selectBox(/** @type {[string, string][]} */ ([["drums", "Drums"], ...PROGRAMS.map((label, i) => [String(i), label])]), "",
      (value) => change(value === "drums" ? { drum: true } : { drum: false, program: Number(value) }));
    const moveHere = h("button.small", { onclick: () => app.change(moveToTrack(freeNotes(app.piece, app.selection.notes), id)) });
    const deleteButton = h("button.small", { onclick: () => deleteTrack(id) }, "Delete this track");
    const lock = h("button.small", { onclick: () => app.change(toggleTrackLock(app.piece, id)) });
    const copy = h("button.small", { onclick: () => app.change(duplicateTrack(app.piece, id)) }, "Duplicate");
    const up = h("button.small", { onclick: () => app.change(moveTrack(app.piece, id, -1)) }, "Up");
    const down = h("button.small", { onclick: () => app.change(moveTrack(app.piece, id, 1)) }, "Down");
    const reverb = fader(id, "reverb");
    const element = h("div.edit", { onkeydown: (event) => event.key === "Escape" && edit(id) },
      h("label", null, "Name", name), h("label", null, "Instrument", instrumentBox), h("label", null, "Reverb", reverb.input),
      h("div.buttons", null, lock, copy, up, down), moveHere, deleteButton);

    /** @param {Track} track */
    function update(track) {
      if (document.activeElement !== name) name.value = track.name;
      instrumentBox.value = track.drum ? "drums" : String(track.program);
      const others = notesById(app.piece, app.selection.notes).filter((note) => note.track !== id).length;
      moveHere.textContent = `Move ${count(others, "selected note")} here`;
      moveHere.hidden = !others;
      deleteButton.hidden = app.piece.tracks.length < 2;
      lock.textContent = allLocked(app.piece, notesOf(app.piece, id)) ? "Unlock all notes" : "Lock all notes";
      const index = app.piece.tracks.findIndex((each) => each.id === id);
      up.disabled = index === 0;
      down.disabled = index === app.piece.tracks.length - 1;
      reverb.update(track, trackName(track));
    }
    return { element, update };
  }

  function edit(id) {
    const open = editing !== id;
    editing = open ? id : null;
    refresh();
    const index = app.piece.tracks.findIndex((track) => track.id === id);
    /** @type {HTMLElement} */ (list.children[index]?.querySelector(open ? ".edit input" : "[aria-expanded]"))?.focus();
  }

  function select(id, isAdditional) {
    const tracks = new Set(isAdditional ? app.selection.tracks : []);
    if (app.selection.tracks.has(id)) tracks.delete(id);
    else tracks.add(id);
    app.selection.selectTracks(app.piece, tracks);
  }

  function add() {
    const id = Math.max(-1, ...app.piece.tracks.map((track) => track.id)) + 1;
    app.change({ label: "add a track", tracks: [...app.piece.tracks, { id, name: "", program: 0, drum: false }] });
    app.selection.selectTracks(app.piece, [id]);
    edit(id);
  }

  function deleteTrack(id) {
    const name = trackName(trackById(app.piece, id));
    const remove = notesOf(app.piece, id).map((note) => note.id);
    const tracks = app.piece.tracks.filter((track) => track.id !== id);
    app.change({ label: `delete track ${name}`, remove, tracks });
    app.notify(`Deleted the track ${name} with ${count(remove.length, "note")}. Undo brings it back.`);
  }

  app.on("piece", (piece) => {
    counts = new Map();
    for (const note of piece.notes.values()) counts.set(note.track, (counts.get(note.track) ?? 0) + 1);
    refresh();
  });
  app.on("opened", () => { editing = null; });
  for (const event of /** @type {const} */ (["selection", "mix", "settings"])) app.on(event, refresh);
}
