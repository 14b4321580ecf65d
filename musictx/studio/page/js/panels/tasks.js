/** The tasks: whether each can start, its description, and its request. Pure functions. */

import { notesIn, trackById } from "../document/notes.js";
import { barLineAfter } from "../document/takes.js";
import { count, stretchWords, trackName } from "../document/words.js";

/**
 * @typedef {object} Wish  the settings of the panel
 * @property {string} task
 * @property {number} bars  length of new music
 * @property {number} keep  percent that "vary" keeps
 * @property {number} samples
 * @property {number | null} seed
 * @property {string | null} model  null: the model that suits the piece
 * @property {Record<string, number>} controls  only those that the user has set
 * @property {number} temperature
 * @property {string} key  "": any
 * @property {number} guidance
 * @property {string} quantise  the grid of new notes; "": as the file
 */

/** @typedef {{stretch: {begin: number, end: number} | null, tracks: number[] | null}} Scope */

export const TASKS = [
  { name: "continue", label: "Continue", sized: true },
  { name: "replace", label: "Replace", selects: true },
  { name: "vary", label: "Vary", selects: true },
  { name: "accompany", label: "Accompany" },
  { name: "harmonise", label: "Harmonise" },
  { name: "new", label: "New", sized: true },
];

/** @returns {Wish} */
export const firstWish = () => ({
  task: "continue", bars: 4, keep: 50, samples: 3, seed: null, model: null, controls: {}, temperature: 1, key: "", guidance: 1, quantise: "",
});

/** Return the kinds of music of a piece, the most specific first: a chorale also keeps to beats. @param {Piece | null} piece */
const kindsOf = (piece) => (piece?.music === "chorale" ? ["chorale", "beats"] : [piece?.music ?? "free"]);

/** Return the model for a task: the chosen one if it can do the task, else the one that suits the piece, as the server chooses. @param {Model[]} models @param {Wish} wish @param {Piece | null} piece */
export function modelFor(models, wish, piece) {
  const able = models.filter((model) => model.tasks.includes(wish.task));
  const suits = kindsOf(piece).map((kind) => able.find((model) => model.suits.includes(kind))).find(Boolean);
  return able.find((model) => model.name === wish.model) ?? suits ?? able[0] ?? null;
}

const KINDS = { free: "this piece is played freely, or empty", beats: "this piece keeps to its beats", chorale: "this piece has four voices" };
/** Explain why a model was chosen. @param {Model} model @param {Wish} wish @param {Piece} piece */
export function whyModel(model, wish, piece) {
  if (model.name === wish.model) return "You chose it for this piece.";
  const kind = kindsOf(piece).find((each) => model.suits.includes(each));
  return kind ? `Proposed since ${KINDS[kind]}.` : "Proposed since it can do this.";
}

/** Return where new music would begin: after the selection, else after the piece. @param {Piece} piece @param {Scope} scope @param {Beats} beats */
const startOfNew = (piece, scope, beats) => barLineAfter(scope.stretch?.end ?? piece.duration, piece.music, beats);

/**
 * Describe what the task would do now, and whether it can start.
 * @param {Wish} wish @param {Piece} piece @param {Beats} beats @param {Scope} scope @param {Model | null} model
 * @returns {{ready: boolean, sentence: string}}
 */
export function describe(wish, piece, beats, scope, model) {
  if (!model) return { ready: false, sentence: "No model that is installed can do this." };
  const { stretch, tracks } = scope;
  const names = (tracks ?? []).map((id) => trackById(piece, id)).filter(Boolean).map(trackName);
  const inTracks = names.length ? ` in ${list(names)}` : "";
  const where = stretch ? stretchWords(beats, stretch.begin, stretch.end) : "the whole piece";
  const bars = count(wish.bars, "bar");
  const missing = { ready: false, sentence: "Select bars first: drag along the numbers above the roll, or press B in it. Selected notes do as well." };
  const empty = { ready: false, sentence: "There are no notes yet. Draw some, or begin with New." };
  const has = { ready: true };
  if ((wish.task === "replace" || wish.task === "vary") && stretch && piece.locked.size) {
    const inside = notesIn(piece, stretch, new Set(tracks ?? []));
    if (inside.length && inside.every((note) => piece.locked.has(note.id))) {
      return { ready: false, sentence: `All notes of ${where}${inTracks} are locked. Unlock some of them with L, or select more.` };
    }
  }
  if (names.length && piece.notes.size && ["replace", "vary", "accompany"].includes(wish.task) && ![...piece.notes.values()].some((note) => tracks.includes(note.track))) {
    if (wish.task === "vary") return { ready: false, sentence: `There are no notes to vary in ${list(names)}. Replace composes some there.` };
    return { ...has, sentence: `Composes ${list(names)} to the other notes of ${where}.` };
  }
  switch (wish.task) {
    case "new": {
      const players = names.length && model.suits?.includes("beats") ? `, for ${list(names)}` : "";
      return { ...has, sentence: piece.notes.size ? `A piece of its own, ${bars} long${players}, after the end of this one.` : `A piece from nothing, ${bars} long${players}.` };
    }
    case "continue": {
      if (!piece.notes.size) return empty;
      const start = startOfNew(piece, scope, beats);
      const last = beats.bar(start - 1e-3).number;
      return { ...has, sentence: `Goes on for ${bars} after bar ${last}${start < piece.duration - 1e-3 ? ". What stands there is replaced" : ", where the piece ends"}.` };
    }
    case "replace":
      if (!piece.notes.size) return empty;
      return stretch ? { ...has, sentence: `Composes ${where} anew${inTracks}. Notes held into it end there; all else and locked notes stay.` } : missing;
    case "vary":
      if (!piece.notes.size) return empty;
      return stretch ? { ...has, sentence: `Keeps ${wish.keep} % of the notes of ${where}${inTracks}, and composes the others anew.` } : missing;
    case "accompany":
      if (!piece.notes.size && piece.chords.length) return { ...has, sentence: "Composes tracks to the chords above the bars." };
      return piece.notes.size ? { ...has, sentence: `Adds tracks that accompany ${where}${inTracks}.` } : empty;
    default:
      return piece.notes.size ? { ...has, sentence: `Sets ${where}${inTracks} for four voices, in the manner of a chorale.` } : empty;
  }
}

/** "a, b and c" */
export const list = (names) => (names.length < 2 ? names.join("") : `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`);

/** Does the task have a grid for new notes? @param {Wish} wish */
export const hasGrid = (wish) => wish.task !== "harmonise" && wish.task !== "new";

/** Return the request of a take. @param {Wish} wish @param {Piece} piece @param {Scope} scope @param {Model} model */
export function request(wish, piece, scope, model) {
  const task = TASKS.find((each) => each.name === wish.task);
  const { begin, end } = scope.stretch ?? { begin: 0, end: piece.duration };
  const names = new Set(model.controls.map((control) => control.name));
  const controls = Object.fromEntries(Object.entries(wish.controls).filter(([name]) => names.has(name)));
  const sampling = {};
  if (wish.temperature !== 1) sampling.temperature = wish.temperature;
  if (wish.key) sampling.key = wish.key;
  return {
    task: wish.task, model: model.name, begin, end, tracks: scope.tracks, samples: wish.samples, seed: wish.seed,
    ...(task.sized && { bars: wish.bars }),
    ...(wish.quantise && hasGrid(wish) && { quantise: wish.quantise }),
    ...(wish.task === "vary" && { keep: wish.keep / 100 }),
    ...(Object.keys(controls).length && { controls }),
    ...(Object.keys(controls).length && wish.guidance !== 1 && { guidance: wish.guidance }),
    ...(Object.keys(sampling).length && { sampling }),
    revision: piece.revision,
  };
}

/** Return the settings with which a take was requested, and its seed. @param {Take} take @returns {Partial<Wish>} */
export function wishOf(take) {
  const { bars, keep, samples, controls, sampling, guidance, quantise, model, task } = take.request;
  return {
    task, seed: take.seed, model: model ?? take.model, samples: samples ?? 3, controls: { ...controls },
    temperature: sampling?.temperature ?? 1, key: sampling?.key ?? "", guidance: guidance ?? 1, quantise: quantise ?? "",
    ...(bars && { bars }), ...(keep !== undefined && { keep: Math.round(keep * 100) }),
  };
}
