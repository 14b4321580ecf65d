/** Tempo, meter and key of a piece: edits of its marks as operations. Pure. */

const MAJOR = ["C♭", "G♭", "D♭", "A♭", "E♭", "B♭", "F", "C", "G", "D", "A", "E", "B", "F♯", "C♯"];
const MINOR = ["A♭", "E♭", "B♭", "F", "C", "G", "D", "A", "E", "B", "F♯", "C♯", "G♯", "D♯", "A♯"];

/** "E♭ major" of so many sharps (flats below 0). */
export const keyWords = (sharps, minor) => `${(minor ? MINOR : MAJOR)[sharps + 7]} ${minor ? "minor" : "major"}`;

/** Marks of tempo as a clock: seconds there and quarter notes here. */
class Clock {
  /** @param {[number, number][]} tempos */
  constructor(tempos) {
    const marks = tempos.length ? tempos : [[0, 120]];
    /** @type {{time: number, at: number, bpm: number}[]} */
    this.marks = [];
    for (const [time, bpm] of marks) {
      const last = this.marks.at(-1);
      if (last && time <= last.time) last.bpm = bpm;
      else if (last) this.marks.push({ time, at: last.at + ((time - last.time) * last.bpm) / 60, bpm });
      else this.marks.push({ time: 0, at: 0, bpm });
    }
  }

  /** Quarter notes from the beginning. */
  quarters(seconds) {
    const mark = this.marks.findLast(({ time }) => time <= seconds) ?? this.marks[0];
    return mark.at + ((seconds - mark.time) * mark.bpm) / 60;
  }

  /** @param {number} quarters */
  seconds(quarters) {
    const mark = this.marks.findLast(({ at }) => at <= quarters) ?? this.marks[0];
    return mark.time + ((quarters - mark.at) * 60) / mark.bpm;
  }
}

const NEAR = 1e-3; // seconds that count as the same moment
/** The last of some marks until a moment. @template {[number, ...any[]]} Mark @param {Mark[]} marks @returns {Mark | undefined} */
const until = (marks, time) => marks.findLast(([at]) => at <= time + NEAR) ?? marks[0];

/** Beats of the pick-up bar, 0 without one: what comes before the second meter is then shorter than its bars, and one bar at most (musictx/beats.py). @param {Piece} piece */
export function pickup({ meters, tempos }) {
  if (meters.length < 2) return 0;
  const [[, beats, unit], [time, above, below]] = meters;
  const first = new Clock(tempos).quarters(time);
  return first < (4 * above) / below - 1e-6 && first < (4 * beats) / unit + 1e-6 ? Math.round(first * unit * 25) / 100 : 0;
}

/** The tempo, meter and key at a moment, of a piece with a pick-up those after it; key is null where none is marked. @param {Piece} piece @param {number} [time] */
export function timingAt(piece, time = 0) {
  const { tempos, meters, keys } = piece;
  const [, tempo] = until(tempos, time) ?? [0, 120];
  const [, beats, unit] = (pickup(piece) && time < meters[1][0] ? meters[1] : until(meters, time)) ?? [0, 4, 4];
  const mark = keys.findLast(([at]) => at <= time + NEAR) ?? (time ? undefined : keys[0]);
  const key = mark ? { sharps: mark[1], minor: Boolean(mark[2]) } : null;
  return { tempo, beats, unit, key };
}

/** Where something of these changes after the beginning: seconds. @param {Piece} piece */
export function changes(piece) {
  const first = pickup(piece) ? piece.meters[1][0] : 0;
  const times = [...piece.tempos, ...piece.meters, ...piece.keys].map(([time]) => time).filter((time) => time > first + NEAR);
  return [...new Set(times)].sort((a, b) => a - b).filter((time, i, all) => !i || time - all[i - 1] > NEAR);
}

/** Marks with another one at a moment, in the place of what stood there; without values that goes only. */
const withMark = (marks, time, ...values) =>
  [...marks.filter(([at]) => Math.abs(at - time) > NEAR), ...(values.length ? [[time, ...values]] : [])].sort((a, b) => a[0] - b[0]);

/**
 * All that happens in a piece in other seconds.
 * @param {Piece} piece @param {(seconds: number) => number} at @returns {Partial<Operation>}
 */
function shiftTimes(piece, at) {
  /** @type {(marks: any[]) => any[]} */
  const later = (marks) => marks.map(([time, ...rest]) => [at(time), ...rest]);
  return {
    meters: later(piece.meters), keys: later(piece.keys), pedals: later(piece.pedals),
    fermatas: piece.fermatas.map(at), lyrics: later(piece.lyrics),
    markers: later(piece.markers), chords: later(piece.chords), sections: later(piece.sections),
    change: [...piece.notes.values()].map((note) => ({ ...note, start: at(note.start), end: at(note.end) })),
  };
}

/**
 * The piece with other tempos, at the seconds where they stand now; from a moment on all that happens moves, so
 * that every note keeps its beat. @param {Piece} piece @param {[number, number][]} wanted @param {number} from @returns {Partial<Operation>}
 */
function changeTempos(piece, wanted, from) {
  const old = new Clock(piece.tempos);
  const tempos = /** @type {[number, number][]} */ ([]);
  for (const [time, bpm] of wanted) tempos.push([tempos.length ? new Clock(tempos).seconds(old.quarters(time)) : 0, bpm]);
  const clock = new Clock(tempos);
  return { tempos, ...shiftTimes(piece, (seconds) => (seconds < from ? seconds : clock.seconds(old.quarters(seconds)))) };
}

/**
 * What gives a piece another tempo, meter or key from a moment on; null when nothing is different. In another
 * tempo from the beginning a piece of several gets faster or slower as a whole.
 * @param {Piece} piece
 * @param {{tempo: number, beats: number, unit: number, key: {sharps: number, minor: boolean} | null, pickup?: number}} wish
 * @param {boolean} follow  notes keep their beats; else they keep their seconds, and only the grid moves
 * @param {number} [from]  seconds: a bar line; 0 is the beginning, where a pick-up may stand
 * @returns {Operation | null}
 */
export function changeTiming(piece, wish, follow, from = 0) {
  const now = timingAt(piece, from);
  /** @type {Operation} */
  const operation = { label: "" };
  const parts = [];
  if (Math.abs(wish.tempo - now.tempo) > 1e-6) {
    const tempos = piece.tempos.length ? piece.tempos : [[0, 120]];
    const scaled = tempos.map(([time, bpm]) => [time, (bpm * wish.tempo) / now.tempo]); // as a whole
    if (follow) Object.assign(operation, changeTempos(piece, from ? withMark(tempos, from, wish.tempo) : scaled, from));
    else operation.tempos = from ? withMark(tempos, from, wish.tempo) : [[0, wish.tempo]];
    parts.push(`tempo ${Math.round(wish.tempo * 10) / 10}`);
  }
  const before = pickup(piece);
  const short = from ? before : Math.min(wish.pickup ?? before, wish.beats - 1);
  if (wish.beats !== now.beats || wish.unit !== now.unit || short !== before) {
    const meters = operation.meters ?? piece.meters;
    if (from) operation.meters = withMark(meters.length ? meters : [[0, 4, 4]], from, wish.beats, wish.unit);
    else {
      const clock = new Clock(operation.tempos ?? piece.tempos);
      const at = short === before ? meters[before ? 1 : 0]?.[0] ?? 0 : short ? clock.seconds((4 * short) / wish.unit) : 0;
      const first = short ? [short === before ? meters[0] : [0, short, wish.unit]] : [];
      operation.meters = [...first, [short ? at : 0, wish.beats, wish.unit], ...meters.slice(before ? 2 : 1)];
    }
    if (wish.beats !== now.beats || wish.unit !== now.unit) parts.push(`${wish.beats}/${wish.unit}`);
    if (short !== before) parts.push(short ? `pick-up of ${short}` : "no pick-up");
  }
  const { key } = wish;
  if (key?.sharps !== now.key?.sharps || key?.minor !== now.key?.minor) {
    const keys = operation.keys ?? piece.keys;
    if (from) operation.keys = key ? withMark(keys, from, key.sharps, key.minor) : withMark(keys, from);
    else operation.keys = [...(key ? [[0, key.sharps, key.minor]] : []), ...keys.slice(1)];
    parts.push(key ? keyWords(key.sharps, key.minor) : "no key");
  }
  operation.label = parts.join(", ");
  return parts.length ? operation : null;
}

/** Takes away what changes at a moment; notes keep their beats. @param {Piece} piece @param {number} from @returns {Operation} */
export function removeTiming(piece, from) {
  const others = withMark(piece.tempos, from);
  /** @type {Partial<Operation>} */
  const operation = others.length < piece.tempos.length ? changeTempos(piece, others, from) : {};
  // From there on the seconds of other marks may be others; this one is not moved.
  for (const name of ["meters", "keys"]) operation[name] = withMark(operation[name] ?? piece[name], from);
  return { ...operation, label: "change of tempo, meter or key taken away" };
}
