/** The tasks: whether each can start, its description, and its request. Pure functions. */

import { allLocked, notesIn, trackById } from "../document/notes.js";
import { barLineAfter } from "../document/takes.js";
import { count, list, stretchWords, trackName } from "../document/words.js";

/**
 * @typedef {object} Settings  the settings of the panel; null: the default of the option
 * @property {string} task
 * @property {number} bars  length of new music
 * @property {number | null} keep  share of the notes that "vary" keeps
 * @property {number} samples
 * @property {number | null} seed
 * @property {string | null} model  null: the model that suits the piece
 * @property {Record<string, number>} controls  only those that the user has set
 * @property {number | null} temperature
 * @property {string} key  "": any
 * @property {string} quantise  the grid of new notes; "": as the file
 */

/** @typedef {{stretch: Stretch | null, tracks: number[] | null}} Scope  what a task works on; tracks null: all */

export const TASKS = [
  { name: "continue", label: "Continue", hasLength: true },
  { name: "replace", label: "Replace" },
  { name: "vary", label: "Vary" },
  { name: "accompany", label: "Accompany" },
  { name: "harmonise", label: "Harmonise" },
  { name: "new", label: "New", hasLength: true },
];

/** @returns {Settings} */
export const defaultSettings = () => ({
  task: "continue", bars: 4, keep: null, samples: 3, seed: null, model: null, controls: {}, temperature: null, key: "", quantise: "",
});

/** Return the kinds of music of a piece, the most specific first: a chorale also keeps to beats. @param {Piece | null} piece */
const kindsOf = (piece) => (piece?.music === "chorale" ? ["chorale", "beats"] : [piece?.music ?? "free"]);

/** Return the model for a task: the chosen one if it can do the task, else the one that suits the piece, as the server chooses. @param {Model[]} models @param {Settings} settings @param {Piece | null} piece */
export function modelFor(models, settings, piece) {
  const candidates = models.filter((model) => model.tasks.includes(settings.task));
  const suits = kindsOf(piece).map((kind) => candidates.find((model) => model.suits.includes(kind))).find(Boolean);
  return candidates.find((model) => model.name === settings.model) ?? suits ?? candidates[0] ?? null;
}

const KINDS = { free: "this piece is played freely, or empty", beats: "this piece keeps to its beats", chorale: "this piece has four voices" };
/** Explain why a model was chosen. @param {Model} model @param {Settings} settings @param {Piece} piece */
export function explainModel(model, settings, piece) {
  if (model.name === settings.model) return "You chose it for this piece.";
  const kind = kindsOf(piece).find((each) => model.suits.includes(each));
  return kind ? `Suggested because ${KINDS[kind]}.` : "Suggested because it can do this.";
}

const ready = (sentence) => ({ ready: true, sentence });
const impossible = (sentence) => ({ ready: false, sentence });

/**
 * Describe what the task would do now, and whether it can start.
 * @param {Settings} settings  with the share to keep @param {Piece} piece @param {Beats} beats @param {Scope} scope @param {Model | null} model
 * @returns {{ready: boolean, sentence: string}}
 */
export function describe({ task, bars, keep }, piece, beats, { stretch, tracks }, model) {
  if (!model) return impossible("No model that is installed can do this.");
  const names = list((tracks ?? []).map((id) => trackById(piece, id)).filter(Boolean).map(trackName));
  const inTracks = names && ` in ${names}`;
  const where = stretch ? stretchWords(beats, stretch.begin, stretch.end) : "the whole piece";
  const length = count(bars, "bar");
  if (task === "new") {
    const players = names && model.suits?.includes("beats") ? `, for ${names}` : "";
    return ready(piece.notes.size ? `A new piece of ${length}${players}, after the end of this one.` : `A new piece of ${length}${players}.`);
  }
  if (!piece.notes.size) {
    if (task === "accompany" && piece.chords.length) return ready("Composes tracks to the chords above the bars.");
    return impossible("There are no notes yet. Draw some, or begin with New.");
  }
  const changesSelection = task === "replace" || task === "vary";
  if (changesSelection && stretch && allLocked(piece, notesIn(piece, stretch, new Set(tracks ?? [])))) {
    return impossible(`All notes of ${where}${inTracks} are locked. Unlock some of them with L, or select more.`);
  }
  if (names && (changesSelection || task === "accompany") && ![...piece.notes.values()].some((note) => tracks.includes(note.track))) {
    if (task === "vary") return impossible(`There are no notes to vary in ${names}. Replace composes some there.`);
    return ready(`Composes ${names} to the other notes of ${where}.`);
  }
  if (changesSelection && !stretch) {
    return impossible("Select bars first: drag along the numbers above the roll, or press B in it. Or select notes.");
  }
  switch (task) {
    case "continue": {
      const start = barLineAfter(stretch?.end ?? piece.duration, piece.music, beats);
      const last = beats.bar(start - 1e-3).number;
      return ready(`Continues for ${length} after bar ${last}${start < piece.duration - 1e-3 ? ". The music there is replaced" : ", where the piece ends"}.`);
    }
    case "replace": return ready(`Composes ${where} anew${inTracks}. Notes that sound into it are cut at its start; all else and locked notes stay.`);
    case "vary": return ready(`Keeps ${Math.round(100 * keep)} % of the notes of ${where}${inTracks}, and composes the others anew.`);
    case "accompany": return ready(`Adds tracks that accompany ${where}${inTracks}.`);
    default: return ready(`Sets ${where}${inTracks} for four voices, in the manner of a chorale.`);
  }
}

/** Can the new notes of the task be quantised to a grid? @param {Settings} settings */
export const hasGrid = (settings) => settings.task !== "harmonise" && settings.task !== "new";

/** Return the request of a take. @param {Settings} settings @param {Piece} piece @param {Scope} scope @param {Model} model */
export function request(settings, piece, scope, model) {
  const task = TASKS.find((each) => each.name === settings.task);
  const { begin, end } = scope.stretch ?? { begin: 0, end: piece.duration };
  const names = new Set(model.controls.map((control) => control.name));
  const controls = Object.fromEntries(Object.entries(settings.controls).filter(([name]) => names.has(name)));
  const sampling = { ...(settings.temperature !== null && { temperature: settings.temperature }), ...(settings.key && { key: settings.key }) };
  return {
    task: settings.task, model: model.name, begin, end, tracks: scope.tracks, samples: settings.samples, seed: settings.seed,
    ...(task.hasLength && { bars: settings.bars }),
    ...(settings.quantise && hasGrid(settings) && { quantise: settings.quantise }),
    ...(settings.task === "vary" && { keep: settings.keep }),
    ...(Object.keys(controls).length && { controls }),
    ...(Object.keys(sampling).length && { sampling }),
    revision: piece.revision,
  };
}

/** Return the settings with which a take was requested, and its seed. @param {Take} take @returns {Partial<Settings>} */
export function settingsOf(take) {
  const { bars, keep, samples, controls, sampling, quantise, model, task } = take.request;
  return {
    task, seed: take.seed, model: model ?? take.model, controls: { ...controls }, keep: keep ?? null,
    temperature: sampling?.temperature ?? null, key: sampling?.key ?? "", quantise: quantise ?? "",
    ...(samples && { samples }), ...(bars && { bars }),
  };
}
