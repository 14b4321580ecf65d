/** Tempo, meter and key of a piece: edits of its marks as operations. Pure. */

/** @typedef {import("./types.js").Piece} Piece */
/** @typedef {import("./types.js").Operation} Operation */

const MAJOR = ["C♭", "G♭", "D♭", "A♭", "E♭", "B♭", "F", "C", "G", "D", "A", "E", "B", "F♯", "C♯"];
const MINOR = ["A♭", "E♭", "B♭", "F", "C", "G", "D", "A", "E", "B", "F♯", "C♯", "G♯", "D♯", "A♯"];

/** "E♭ major" of so many sharps (flats below 0). */
export const keyWords = (sharps, minor) => `${(minor ? MINOR : MAJOR)[sharps + 7]} ${minor ? "minor" : "major"}`;

/** Which mark says the meter of the piece: the second one where it begins with a pick-up, which is bar 0. @param {Piece} piece */
const mainMeter = ({ beats }) => (beats?.[0]?.[1] === 0 ? 1 : 0);

/** The tempo, meter (not that of a pick-up) and key that a piece begins with; key is null where none is marked. @param {Piece} piece */
export function opening(piece) {
  const { tempos, meters, keys } = piece;
  const [, tempo] = tempos[0] ?? [0, 120];
  const [, beats, unit] = meters[mainMeter(piece)] ?? [0, 4, 4];
  const key = keys[0] ? { sharps: keys[0][1], minor: Boolean(keys[0][2]) } : null;
  return { tempo, beats, unit, key };
}

/** A list of marks whose first one, from the beginning on, is another. */
const opened = (marks, ...values) => [[0, ...values], ...marks.slice(1)];

/**
 * The piece in another tempo: all that happens in it moves, so that every note keeps its beat. A
 * piece of several tempos gets faster or slower as a whole. @param {Piece} piece @returns {Partial<Operation>}
 */
export function faster(piece, tempo) {
  const factor = tempo / opening(piece).tempo;
  const at = (seconds) => seconds / factor;
  /** @type {(marks: any[]) => any[]} */
  const later = (marks) => marks.map(([time, ...rest]) => [at(time), ...rest]);
  /** @type {[number, number][]} */
  const tempos = piece.tempos.length ? piece.tempos.map(([time, of]) => [at(time), of * factor]) : [[0, tempo]];
  return {
    tempos, meters: later(piece.meters), keys: later(piece.keys), pedals: later(piece.pedals),
    fermatas: piece.fermatas.map(at),
    change: [...piece.notes.values()].map((note) => ({ ...note, start: at(note.start), end: at(note.end) })),
  };
}

/**
 * What makes a piece begin with another tempo, meter or key; null when nothing is different.
 * @param {Piece} piece
 * @param {{tempo: number, beats: number, unit: number, key: {sharps: number, minor: boolean} | null}} wish
 * @param {boolean} follow  notes keep their beats; else they keep their seconds, and only the grid moves
 * @returns {Operation | null}
 */
export function retimed(piece, wish, follow) {
  const now = opening(piece);
  /** @type {Operation} */
  const operation = { label: "" };
  const said = [];
  if (Math.abs(wish.tempo - now.tempo) > 1e-6) {
    Object.assign(operation, follow ? faster(piece, wish.tempo) : { tempos: [[0, wish.tempo]] });
    said.push(`tempo ${Math.round(wish.tempo * 10) / 10}`);
  }
  if (wish.beats !== now.beats || wish.unit !== now.unit) {
    const [marks, main] = [operation.meters ?? piece.meters, mainMeter(piece)];
    operation.meters = /** @type {any} */ (main ? marks.map((mark, i) => (i === main ? [mark[0], wish.beats, wish.unit] : mark)) : opened(marks, wish.beats, wish.unit));
    said.push(`${wish.beats}/${wish.unit}`);
  }
  const { key } = wish;
  if (key?.sharps !== now.key?.sharps || key?.minor !== now.key?.minor) {
    const later = (operation.keys ?? piece.keys).slice(1);
    operation.keys = /** @type {any} */ (key ? [[0, key.sharps, key.minor], ...later] : later);
    said.push(key ? keyWords(key.sharps, key.minor) : "no key");
  }
  operation.label = said.join(", ");
  return said.length ? operation : null;
}
