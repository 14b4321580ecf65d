/** The list of tracks: colours, names, mute and solo, which ones are meant. */

import { fill, h, iconButton } from "../core/dom.js";
import { freeNotes, toTrack } from "../document/edits.js";
import { PROGRAMS } from "../document/programs.js";
import { count, instrument, trackName } from "../document/words.js";
import { trackColour } from "../roll/colours.js";

/** @typedef {import("../document/types.js").Track} Track */

/** @param {import("../app.js").App} app @param {HTMLElement} panel */
export function mountTracks(app, panel) {
  const list = h("ul", { "aria-label": "Tracks" });
  const hint = h("p.hint");
  let editing = /** @type {number | null} */ (null);
  let counts = /** @type {Map<number, number>} */ (new Map());
  fill(panel,
    h("div.panel-head", null, h("h2", null, "Tracks"), iconButton("plus", "Add a track", add)),
    list, hint);

  function refresh() {
    const piece = app.piece;
    if (!piece) return;
    const focus = document.activeElement?.closest?.("#tracks [data-focus]")?.dataset.focus;
    fill(list, ...piece.tracks.map((track, i) => row(track, i, counts.get(track.id) ?? 0)));
    if (focus) /** @type {HTMLElement} */ (list.querySelector(`[data-focus="${focus}"]`))?.focus();
    const names = piece.tracks.filter((track) => app.selection.tracks.has(track.id)).map(trackName);
    hint.textContent = names.length
      ? `Selecting and composing keep to ${names.join(" and ")}.`
      : piece.tracks.length > 1 ? "Click a track to select and compose in that one alone; Shift adds another." : "";
  }

  /** @param {Track} track */
  function row(track, place, notes) {
    const selected = app.selection.tracks.has(track.id);
    const name = trackName(track);
    const button = h("button.pick", {
      type: "button", "aria-pressed": undefined, title: `${count(notes, "note")}. Click to select this track`,
      onclick: (event) => pick(track.id, event.shiftKey || event.ctrlKey || event.metaKey),
      ondblclick: () => edit(track.id),
    }, h("span", null, name), h("span.instrument", null, instrument(track)));
    button.setAttribute("aria-label", `${name}, ${count(notes, "note")}${selected ? ", selected" : ""}`);
    const flag = (letter, word, set) => h(`button.flag.${word}`, {
      type: "button", title: `${word[0].toUpperCase()}${word.slice(1)} ${name}`, "aria-label": `${word} ${name}`, "aria-pressed": set.has(track.id),
      onclick() {
        if (!set.delete(track.id)) set.add(track.id);
        app.emit("mix", null);
      },
    }, letter);
    const item = h("li.track", { style: { "--colour": trackColour(track, place) } }, button,
      h("span", null, flag("M", "mute", app.muted), flag("S", "solo", app.solo)),
      iconButton("more", `Name and instrument of ${name}`, () => edit(track.id), { "aria-expanded": editing === track.id }));
    [...item.querySelectorAll("button")].forEach((each, i) => { each.dataset.focus = `${track.id}-${i}`; });
    item.classList.toggle("selected", selected);
    item.classList.toggle("silent", !app.audible(track.id));
    if (editing === track.id) item.append(editor(track, notes));
    return item;
  }

  /** @param {Track} track */
  function editor(track, notes) {
    const name = h("input", { type: "text", value: track.name, maxLength: 60, placeholder: instrument(track), onchange: () => save(track, { name: name.value.trim() }) });
    const sound = h("select", { onchange: () => save(track, sound.value === "drums" ? { drum: true } : { drum: false, program: Number(sound.value) }) },
      ...PROGRAMS.map((label, i) => h("option", { value: String(i), selected: !track.drum && track.program === i }, label)),
      h("option", { value: "drums", selected: track.drum }, "Drums"));
    const picked = [...app.selection.notes];
    const moved = picked.filter((id) => app.piece.notes.get(id)?.track !== track.id);
    name.dataset.focus = `${track.id}-name`;
    return h("div.edit", null,
      h("label", null, "Name", name), h("label", null, "Instrument", sound),
      moved.length > 0 && h("button.small", {
        type: "button", onclick: () => app.change(toTrack(freeNotes(app.piece, picked), track.id)),
      }, `Move ${count(moved.length, "selected note")} here`),
      app.piece.tracks.length > 1 && h("button.small", { type: "button", onclick: () => drop(track, notes) }, "Delete this track"));
  }

  function edit(id) {
    editing = editing === id ? null : id;
    refresh();
    /** @type {HTMLElement} */ (list.querySelector(`[data-focus="${editing}-name"]`))?.focus();
  }

  function pick(id, more) {
    const tracks = new Set(more ? app.selection.tracks : []);
    if (app.selection.tracks.has(id)) tracks.delete(id);
    else tracks.add(id);
    app.selection.pickTracks(app.piece, tracks);
  }

  /** @param {Track} track @param {Partial<Track>} with_ */
  function save(track, with_) {
    const tracks = app.piece.tracks.map((each) => (each.id === track.id ? { ...each, ...with_ } : each));
    app.change({ label: `change track ${trackName(track)}`, tracks });
  }

  function add() {
    const id = Math.max(-1, ...app.piece.tracks.map((track) => track.id)) + 1;
    app.change({ label: "add a track", tracks: [...app.piece.tracks, { id, name: "", program: 0, drum: false }] });
    app.selection.pickTracks(app.piece, [id]);
    edit(id);
  }

  function drop(track) {
    const remove = [...app.piece.notes.values()].filter((note) => note.track === track.id).map((note) => note.id);
    const tracks = app.piece.tracks.filter((each) => each.id !== track.id);
    app.change({ label: `delete track ${trackName(track)}`, remove, tracks });
    app.done(`The track ${trackName(track)} is gone with ${count(remove.length, "note")}. Undo brings it back.`);
  }

  app.on("piece", (piece) => {
    counts = new Map();
    for (const note of piece.notes.values()) counts.set(note.track, (counts.get(note.track) ?? 0) + 1);
    refresh();
  });
  app.on("selection", refresh);
  app.on("mix", refresh);
  app.on("settings", refresh);
}
