/** The list of tracks: colours, names, mute and solo, which ones are meant. */

import { fill, h, iconButton, keyed, set } from "../core/dom.js";
import { freeNotes, toTrack } from "../document/edits.js";
import { PROGRAMS } from "../document/programs.js";
import { cleanName, count, instrument, trackName } from "../document/words.js";
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
    const { piece } = app;
    if (!piece) return;
    keyed(list, piece.tracks, (track) => track.id, row);
    const names = piece.tracks.filter((track) => app.selection.tracks.has(track.id)).map(trackName);
    hint.textContent = names.length
      ? `Selecting and composing keep to ${names.join(" and ")}.`
      : piece.tracks.length > 1 ? "Click a track to select and compose in that one alone; Shift adds another." : "";
  }

  /** @param {Track} of */
  function row({ id }) {
    const name = h("span");
    const sound = h("span.instrument");
    const button = h("button.pick", {
      type: "button", onclick: (event) => pick(id, event.shiftKey || event.ctrlKey || event.metaKey), ondblclick: () => edit(id),
    }, name, sound);
    const flag = (letter, word, set) => ({
      word, set,
      button: h(`button.flag.${word}`, {
        type: "button",
        onclick() {
          if (!set.delete(id)) set.add(id);
          app.emit("mix", null);
        },
      }, letter),
    });
    const flags = [flag("M", "mute", app.muted), flag("S", "solo", app.solo)];
    const more = iconButton("more", "", () => edit(id));
    let form = /** @type {ReturnType<typeof editor> | null} */ (null); // made when it is first opened
    const element = h("li.track", null, button, h("span", null, ...flags.map((flag) => flag.button)), more);

    /** @param {Track} track */
    function update(track, place) {
      const label = trackName(track);
      const notes = count(counts.get(id) ?? 0, "note");
      const selected = app.selection.tracks.has(id);
      name.textContent = label;
      sound.textContent = instrument(track);
      set(button, { title: `${notes}. Click to select this track`, "aria-label": `${label} ${instrument(track)}, ${notes}${selected ? ", selected" : ""}` });
      for (const flag of flags) set(flag.button, { title: `${flag.word} ${label}`, "aria-label": `${flag.word} ${label}`, "aria-pressed": String(flag.set.has(id)) });
      set(more, { title: "Name and instrument", "aria-label": `Name and instrument of ${label}`, "aria-expanded": String(editing === id) });
      element.style.setProperty("--colour", trackColour(track, place));
      element.classList.toggle("selected", selected);
      element.classList.toggle("silent", !app.audible(id));
      if (form) form.element.hidden = editing !== id;
      if (editing !== id) return;
      if (!form) element.append((form = editor(id)).element);
      form.update(track);
    }
    return { element, update };
  }

  /** The form below a track's row. */
  function editor(id) {
    const now = () => app.piece.tracks.find((track) => track.id === id);
    const name = h("input", { type: "text", maxLength: 60, onchange: () => save(now(), { name: cleanName(name.value) }) });
    const sound = h("select", { onchange: () => save(now(), sound.value === "drums" ? { drum: true } : { drum: false, program: Number(sound.value) }) },
      ...PROGRAMS.map((label, i) => h("option", { value: String(i) }, label)), h("option", { value: "drums" }, "Drums"));
    const take = h("button.small", { type: "button", onclick: () => app.change(toTrack(freeNotes(app.piece, app.selection.notes), id)) });
    const away = h("button.small", { type: "button", onclick: () => drop(now()) }, "Delete this track");
    const element = h("div.edit", { onkeydown: (event) => event.key === "Escape" && edit(id) },
      h("label", null, "Name", name), h("label", null, "Instrument", sound), take, away);

    /** @param {Track} track */
    function update(track) {
      if (document.activeElement !== name) name.value = track.name;
      sound.value = track.drum ? "drums" : String(track.program);
      const others = [...app.selection.notes].filter((note) => app.piece.notes.get(note)?.track !== id).length;
      take.textContent = `Move ${count(others, "selected note")} here`;
      take.hidden = !others;
      away.hidden = app.piece.tracks.length < 2;
    }
    return { element, update };
  }

  function edit(id) {
    const open = editing !== id;
    editing = open ? id : null;
    refresh();
    const place = app.piece.tracks.findIndex((track) => track.id === id);
    /** @type {HTMLElement} */ (list.children[place]?.querySelector(open ? "input" : "[aria-expanded]"))?.focus();
  }

  function pick(id, more) {
    const tracks = new Set(more ? app.selection.tracks : []);
    if (app.selection.tracks.has(id)) tracks.delete(id);
    else tracks.add(id);
    app.selection.pickTracks(app.piece, tracks);
  }

  /** @param {Track} track @param {Partial<Track>} change */
  function save(track, change) {
    const tracks = app.piece.tracks.map((each) => (each.id === track.id ? { ...each, ...change } : each));
    app.change({ label: `change track ${trackName(track)}`, tracks });
  }

  async function add() {
    const id = Math.max(-1, ...app.piece.tracks.map((track) => track.id)) + 1;
    app.change({ label: "add a track", tracks: [...app.piece.tracks, { id, name: "", program: 0, drum: false }] });
    app.selection.pickTracks(app.piece, [id]);
    edit(id);
  }

  function drop(track) {
    const remove = [...app.piece.notes.values()].filter((note) => note.track === track.id).map((note) => note.id);
    const tracks = app.piece.tracks.filter((each) => each.id !== track.id);
    app.change({ label: `delete track ${trackName(track)}`, remove, tracks });
    app.done(`The track ${trackName(track)} is gone with ${count(remove.length, "note")}. Undo brings it back.`, (piece) => !piece.tracks.some((each) => each.id === track.id));
  }

  app.on("piece", (piece) => {
    counts = new Map();
    for (const note of piece.notes.values()) counts.set(note.track, (counts.get(note.track) ?? 0) + 1);
    refresh();
  });
  app.on("opened", () => { editing = null; });
  app.on("selection", refresh);
  app.on("mix", refresh);
  app.on("settings", refresh);
}
