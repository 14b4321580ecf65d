/** An index of notes by time, to find the visible notes and the note under a point. */

import { lowerBound } from "../core/numbers.js";

const EDGE = 6; // pixels at each end of a note that drag this end

export class NoteIndex {
  /** @param {Iterable<Note>} notes */
  constructor(notes) {
    this.notes = [...notes].sort((a, b) => a.start - b.start || a.pitch - b.pitch || a.id - b.id);
  }

  /** Return the number of notes that start before a time. */
  before(seconds) {
    return lowerBound(this.notes, seconds, (note) => note.start);
  }

  /** Return the notes that sound between two times, by start. @returns {Note[]} */
  between(begin, end) {
    return this.notes.slice(0, this.before(end)).filter((note) => note.end > begin);
  }

  /** Return the note after `from`, which has a note id or a time; with direction -1 the note before. */
  next(from, direction = 1) {
    const place = from.id === undefined ? -1 : this.notes.findIndex((note) => note.id === from.id);
    if (place >= 0) return this.notes[place + direction];
    const at = this.before(from.time + (direction > 0 ? -1e-6 : 1e-6));
    return direction > 0 ? this.notes[at] : this.notes[at - 1];
  }

  /** Return the note of a pitch that sounds at a time; of several, the one that started last. */
  under(seconds, pitch) {
    return this.between(seconds, seconds + 1e-6).filter((note) => note.pitch === pitch).at(-1);
  }

  /**
   * Return the topmost note under a point, and which part of it. Short notes have only a body, so that they can be moved.
   * `slack` is how many pixels a finger may miss; notes that `prefer` accepts go first.
   * @param {View} view @returns {{note: Note, part: "body" | "start" | "end"} | null}
   */
  hit(view, x, y, slack = 0, prefer = (_note) => false) {
    const reach = (slack + 3) / view.scale;
    const time = view.time(x);
    let best = null;
    for (const note of this.between(time - reach, time + reach)) {
      const left = view.x(note.start);
      const right = Math.max(view.x(note.end), left + 3);
      const upper = view.y(note.pitch);
      if (x < left - slack || x > right + slack || y < upper - slack || y > upper + view.row + slack) continue;
      if (!best || prefer(note) || !prefer(best)) best = note;
    }
    if (!best) return null;
    const left = view.x(best.start);
    const width = view.x(best.end) - left;
    const edge = Math.min(EDGE, width / 4);
    if (width < 10) return { note: best, part: "body" };
    const part = x > left + width - edge ? "end" : x < left + edge ? "start" : "body";
    return { note: best, part };
  }

  /** Return the notes that touch a rectangle of the roll. @param {View} view */
  inside(view, box) {
    const left = view.time(Math.min(box.x1, box.x2));
    const right = view.time(Math.max(box.x1, box.x2));
    const high = view.pitch(Math.min(box.y1, box.y2));
    const low = view.pitch(Math.max(box.y1, box.y2));
    return this.between(left, right).filter((note) => note.pitch >= low && note.pitch <= high);
  }
}
