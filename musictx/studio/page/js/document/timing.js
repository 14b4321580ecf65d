/** Tempo, meter and key of a piece, and edits of them as operations. Pure functions. */

import { keyWords } from "./spelling.js";

/** Conversion between seconds and quarter notes by tempo marks. */
class Clock {
  /** @param {[number, number][]} tempos */
  constructor(tempos) {
    const marks = tempos.length ? tempos : [[0, 120]];
    /** @type {{time: number, quarters: number, bpm: number}[]} */
    this.marks = [];
    for (const [time, bpm] of marks) {
      const last = this.marks.at(-1);
      if (last && time <= last.time) last.bpm = bpm;
      else if (last) this.marks.push({ time, quarters: last.quarters + ((time - last.time) * last.bpm) / 60, bpm });
      else this.marks.push({ time: 0, quarters: 0, bpm });
    }
  }

  /** Return the quarter notes from the beginning to a time. */
  quarters(seconds) {
    const mark = this.marks.findLast(({ time }) => time <= seconds) ?? this.marks[0];
    return mark.quarters + ((seconds - mark.time) * mark.bpm) / 60;
  }

  /** Return the time of a number of quarter notes. @param {number} quarters */
  seconds(quarters) {
    const mark = this.marks.findLast((each) => each.quarters <= quarters) ?? this.marks[0];
    return mark.time + ((quarters - mark.quarters) * 60) / mark.bpm;
  }
}

const NEAR = 1e-3; // seconds that count as the same moment
/** Return the mark that holds at a time. @template {[number, ...any[]]} Mark @param {Mark[]} marks @returns {Mark | undefined} */
const markAt = (marks, time) => marks.findLast(([at]) => at <= time + NEAR) ?? marks[0];

/** Return the beats of the pick-up bar, or 0. A piece has one if its second meter begins before a bar of either meter is full (musictx/beats.py). @param {Piece} piece */
export function pickup({ meters, tempos }) {
  if (meters.length < 2) return 0;
  const [[, beats, unit], [time, above, below]] = meters;
  const first = new Clock(tempos).quarters(time);
  return first < (4 * above) / below - 1e-6 && first < (4 * beats) / unit + 1e-6 ? Math.round(first * unit * 25) / 100 : 0;
}

/** Return the tempo, meter and key at a time; key is null if none is marked. The meter of a pick-up bar is that of the bar after it. @param {Piece} piece @param {number} [time] */
export function timingAt(piece, time = 0) {
  const { tempos, meters, keys } = piece;
  const [, tempo] = markAt(tempos, time) ?? [0, 120];
  const [, beats, unit] = (pickup(piece) && time < meters[1][0] ? meters[1] : markAt(meters, time)) ?? [0, 4, 4];
  const mark = keys.findLast(([at]) => at <= time + NEAR) ?? (time ? undefined : keys[0]);
  const key = mark ? { sharps: mark[1], minor: Boolean(mark[2]) } : null;
  return { tempo, beats, unit, key };
}

/** Return the times after the beginning at which the tempo, meter or key changes. @param {Piece} piece */
export function changes(piece) {
  const first = pickup(piece) ? piece.meters[1][0] : 0;
  const times = [...piece.tempos, ...piece.meters, ...piece.keys].map(([time]) => time).filter((time) => time > first + NEAR);
  return [...new Set(times)].sort((a, b) => a - b).filter((time, i, all) => !i || time - all[i - 1] > NEAR);
}

/** Return the marks with the one at a time replaced, or deleted if no values are given. */
const withMark = (marks, time, ...values) =>
  [...marks.filter(([at]) => Math.abs(at - time) > NEAR), ...(values.length ? [[time, ...values]] : [])].sort((a, b) => a[0] - b[0]);

/** Apply a function to all times of a piece except those of its tempos. @param {Piece} piece @param {(seconds: number) => number} newTime @returns {Partial<Operation>} */
function mapTimes(piece, newTime) {
  const lists = ["meters", "keys", "pedals", "lyrics", "markers", "chords", "sections"];
  return {
    ...Object.fromEntries(lists.map((list) => [list, piece[list].map(([time, ...rest]) => [newTime(time), ...rest])])),
    fermatas: piece.fermatas.map(newTime),
    change: [...piece.notes.values()].map((note) => ({ ...note, start: newTime(note.start), end: newTime(note.end) })),
  };
}

/**
 * Replace the tempos; everything after `from` moves so that it keeps its beat.
 * @param {Piece} piece @param {[number, number][]} newTempos  [time before the change, bpm] @param {number} from @returns {Partial<Operation>}
 */
function changeTempos(piece, newTempos, from) {
  const old = new Clock(piece.tempos);
  const tempos = /** @type {[number, number][]} */ ([]);
  for (const [time, bpm] of newTempos) tempos.push([tempos.length ? new Clock(tempos).seconds(old.quarters(time)) : 0, bpm]);
  const clock = new Clock(tempos);
  return { tempos, ...mapTimes(piece, (seconds) => (seconds < from ? seconds : clock.seconds(old.quarters(seconds)))) };
}

/** Return the change to a new tempo from a time on; from the beginning it scales all tempos of the piece. @param {Piece} piece @returns {Partial<Operation>} */
function setTempo(piece, bpm, keepBeats, from) {
  const tempos = /** @type {[number, number][]} */ (piece.tempos.length ? piece.tempos : [[0, 120]]);
  if (from || !keepBeats) {
    const changed = from ? withMark(tempos, from, bpm) : [[0, bpm]];
    return keepBeats ? changeTempos(piece, changed, from) : { tempos: changed };
  }
  const factor = bpm / timingAt(piece).tempo;
  return changeTempos(piece, tempos.map(([time, old]) => [time, old * factor]), 0);
}

/** Return the meters with a new one from a time on; from the beginning with a pick-up bar of `short` beats, `before` in `piece`. @param {Piece} piece */
function metersWith({ meters, tempos }, { beats, unit }, before, short, from) {
  if (from) return withMark(meters.length ? meters : [[0, 4, 4]], from, beats, unit);
  const later = meters.slice(before ? 2 : 1);
  if (!short) return [[0, beats, unit], ...later];
  if (short === before) return [meters[0], [meters[1][0], beats, unit], ...later];
  return [[0, short, unit], [new Clock(tempos).seconds((4 * short) / unit), beats, unit], ...later];
}

/** Return the keys with a new one from a time on; null: none. */
function keysWith(keys, key, from) {
  const values = key ? [key.sharps, key.minor] : [];
  return from ? withMark(keys, from, ...values) : [...(key ? [[0, ...values]] : []), ...keys.slice(1)];
}

/**
 * Change the tempo, meter or key from a time on; null if nothing would change.
 * @param {Piece} piece
 * @param {{tempo: number, beats: number, unit: number, key: {sharps: number, minor: boolean} | null, pickup?: number}} wish
 * @param {boolean} keepBeats  notes keep their beats; else they keep their seconds, and only the grid moves
 * @param {number} [from]  a bar line, in seconds; only at 0 can the pick-up change
 * @returns {Operation | null}
 */
export function changeTiming(piece, wish, keepBeats, from = 0) {
  const now = timingAt(piece, from);
  const before = pickup(piece);
  const short = from ? before : Math.min(wish.pickup ?? before, wish.beats - 1);
  const isOtherMeter = wish.beats !== now.beats || wish.unit !== now.unit;
  /** @type {Partial<Operation>} */
  const operation = {};
  const parts = [];
  if (Math.abs(wish.tempo - now.tempo) > 1e-6) {
    Object.assign(operation, setTempo(piece, wish.tempo, keepBeats, from));
    parts.push(`tempo ${Math.round(wish.tempo * 10) / 10}`);
  }
  const moved = /** @type {Piece} */ ({ ...piece, ...operation });
  if (isOtherMeter || short !== before) operation.meters = metersWith(moved, wish, before, short, from);
  if (isOtherMeter) parts.push(`${wish.beats}/${wish.unit}`);
  if (short !== before) parts.push(short ? `pick-up of ${short}` : "no pick-up");
  const { key } = wish;
  if (key?.sharps !== now.key?.sharps || key?.minor !== now.key?.minor) {
    operation.keys = keysWith(moved.keys, key, from);
    parts.push(key ? keyWords(key.sharps, key.minor) : "no key");
  }
  return parts.length ? { ...operation, label: parts.join(", ") } : null;
}

/** Delete the changes of tempo, meter and key at a time; notes keep their beats. @param {Piece} piece @param {number} from @returns {Operation} */
export function removeTiming(piece, from) {
  const others = withMark(piece.tempos, from);
  /** @type {Partial<Operation>} */
  const operation = others.length < piece.tempos.length ? changeTempos(piece, others, from) : {};
  // Later marks may have moved, but the deleted one is still at `from`.
  for (const name of ["meters", "keys"]) operation[name] = withMark(operation[name] ?? piece[name], from);
  return { ...operation, label: "change of tempo, meter or key taken away" };
}
