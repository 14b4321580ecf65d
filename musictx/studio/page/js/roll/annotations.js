/** The annotations above the ruler: sections, chords and lyrics; a double click edits them. */

import { get, session } from "../core/api.js";
import { contextOf, FONT } from "../core/canvas.js";
import { h } from "../core/dom.js";
import { fetchOnChange } from "../document/fetch_on_change.js";
import { chordLabel, lyricLine, setLyrics, setText, textAt } from "../document/harmony.js";
import { notesById } from "../document/notes.js";
import { openForm } from "../shell/dialog.js";
import { positionWords, sentence, stretchWords } from "../document/words.js";

const ROW = 20; // pixels
const DELAY = 700; // milliseconds without an edit before implied chords are requested
const MAX_NOTES = 20_000; // longer pieces get no implied chords

export class Annotations {
  /** The chords that the notes imply, if the piece has none written. @type {Chord[]} */
  implied = [];

  /** @param {Roll} roll @param {HTMLCanvasElement} canvas */
  constructor(roll, canvas) {
    this.roll = roll;
    this.canvas = canvas;
    const { app } = roll;
    const needsChords = ({ music, notes, chords }) => music !== "free" && notes.size > 0 && notes.size <= MAX_NOTES && !chords.length;
    fetchOnChange(app, "chords?symbols=1", needsChords, (chords) => {
      if (String(chords ?? []) === String(this.implied)) return;
      this.implied = chords ?? [];
      app.emit("chords", null);
      roll.invalidate("over");
    }, DELAY);
    app.on("piece", () => document.documentElement.style.setProperty("--annotations-height", `${ROW * this.rows().length}px`));
    this.canvas.addEventListener("dblclick", (event) => {
      const row = this.rows()[Math.floor(event.offsetY / ROW)];
      const time = Math.max(0, roll.view.time(event.offsetX));
      if (row === "lyric") return this.writeLyrics(this.#timeOfText(row, event.offsetX) ?? time);
      this.write(row === "section" ? "section" : "chord", this.#timeOfText(row, event.offsetX) ?? app.beats.floor(time, 1));
    });
    this.canvas.addEventListener("pointerdown", (event) => event.preventDefault());
  }

  /** The rows of the strip, from the top. @returns {("section" | "chord" | "lyric")[]} */
  rows() {
    const { piece } = this.roll.app;
    return /** @type {("section" | "chord" | "lyric")[]} */ ([piece?.sections.length && "section", "chord", piece?.lyrics.length && "lyric"].filter(Boolean));
  }

  /** Does the piece have written chords? */
  get hasChords() {
    return Boolean(this.roll.app.piece?.chords.length);
  }

  /** The written chords, else those that the notes imply. */
  get chords() {
    return this.hasChords ? this.roll.app.piece.chords : this.implied;
  }

  /** Return the time of the text at an x, if there is one. */
  #timeOfText(row, x) {
    const { app, view } = this.roll;
    const all = { section: app.piece.sections, chord: app.piece.chords, lyric: app.piece.lyrics }[row];
    return all.findLast(([time]) => view.x(time) <= x && x < view.x(time) + 40)?.[0];
  }

  /** Open the dialog for the chord or section at a time. @param {"chord" | "section"} kind @param {number} time */
  write(kind, time) {
    const { app } = this.roll;
    const isChord = kind === "chord";
    const texts = /** @type {[number, ...string[]][]} */ (isChord ? this.chords : app.piece.sections);
    const help = isChord ? "Such as C, Am7, F#m7b5, Gsus4 or N.C.; empty: none here. It holds until the next." : "Such as Verse, Chorus or A; empty: none here.";
    this.#ask(isChord ? "Chord" : "Section", `at ${positionWords(app.beats, time)}`, String(textAt(texts, time)?.at(-1) ?? ""), help, async (text) => {
      const marker = isChord && text ? (await get(`${session(app.piece.id)}/chord?${new URLSearchParams({ text })}`)).name : text;
      return setText(app.piece, kind, time, marker, text);
    });
  }

  /** Open the dialog for the lyrics of the selected bars, else from a time on. @param {number} [time]  default: the selected note, or the cursor */
  writeLyrics(time) {
    const { app } = this.roll;
    const { piece, selection: { range, notes } } = app;
    const chosen = notesById(piece, notes).sort((a, b) => a.start - b.start)[0];
    const begin = time ?? range?.begin ?? chosen?.start ?? app.cursor.time;
    const track = range ? app.inputTrack?.id : chosen?.track ?? app.inputTrack?.id;
    const starts = this.roll.index.notes.filter((note) => note.track === track).map((note) => note.start);
    const stretch = time === undefined && range ? { begin, end: range.end } : { begin: starts.find((at) => at > begin - 0.03) ?? begin };
    const now = piece.lyrics.filter(([at]) => at > stretch.begin - 0.03 && at < (stretch.end ?? stretch.begin + 0.04) - 0.01);
    this.#ask("Words", stretch.end ? `of ${stretchWords(app.beats, begin, stretch.end)}` : `from ${positionWords(app.beats, stretch.begin)}`, lyricLine(now),
      "A syllable for each note from here on: Freu-de schö-ner. _ holds one over another note; empty: none here.",
      async (line) => setLyrics(piece, line, stretch, starts));
  }

  /** Open a dialog with one field. @param {string} kind @param {string} where @param {string} text  the present one @param {string} help @param {(text: string) => Promise<Operation | string | null>} write  returns an operation or an error message */
  #ask(kind, where, text, help, write) {
    const { app } = this.roll;
    const field = h("input", { type: "text", maxLength: kind === "Words" ? 2000 : 60, value: text, "aria-label": kind, spellcheck: false });
    const hint = h("p.hint", { role: "status" }, help);
    openForm(app, `${kind} ${where}`, "text-form", async () => {
      const operation = await write(field.value.trim()).catch((error) => sentence(error.message));
      if (typeof operation === "string") {
        hint.textContent = operation;
        hint.classList.add("wrong");
        return false;
      }
      app.change(operation);
      if (operation) app.announce(operation.label);
      return true;
    }, field, h("button.gold", { type: "submit" }, "Write"), hint);
    field.select();
  }

  draw() {
    const { app, view, colours } = this.roll;
    const ctx = contextOf(this.canvas);
    ctx.fillStyle = colours.panel;
    ctx.fillRect(0, 0, view.width, this.canvas.clientHeight);
    ctx.textBaseline = "middle";
    this.rows().forEach((row, i) => {
      const middle = (i + 0.5) * ROW + 1;
      if (row === "section") this.#sections(ctx, i * ROW, app.piece.sections);
      else if (row === "chord") {
        const [style, colour] = this.hasChords ? ["600", colours.ink] : ["italic", colours["ink-2"]];
        this.#texts(ctx, middle, this.chords.map(([time, , symbol]) => [time, chordLabel(symbol)]), `${style} 13px ${FONT}`, colour);
      } else this.#texts(ctx, middle, app.piece.lyrics, `12.5px ${FONT}`, colours["ink-2"]);
    });
  }

  /** Draw texts at their times, where there is room. @param {TimedText[]} texts */
  #texts(ctx, y, texts, font, colour) {
    const { view } = this.roll;
    ctx.font = font;
    ctx.fillStyle = colour;
    let free = -Infinity;
    texts.forEach(([time, text], i) => {
      const x = view.x(time);
      if (x > view.width || x < -200) return;
      const width = ctx.measureText(text).width;
      // A text whose time is scrolled away is shown at the left edge until the next one.
      const next = texts[i + 1] ? view.x(texts[i + 1][0]) : Infinity;
      const at = x < 3 && next > width + 8 ? 3 : x;
      if (at < free) return;
      ctx.fillText(text, at + 1, y);
      free = at + width + 5;
    });
  }

  /** Draw sections as bars, each up to the next. @param {TimedText[]} texts */
  #sections(ctx, y, texts) {
    const { view, colours } = this.roll;
    ctx.font = `600 12px ${FONT}`;
    for (const { mark: [, text], i, left, right } of view.spans(texts)) {
      ctx.fillStyle = i % 2 ? colours.sunk : colours.beat;
      ctx.fillRect(left, y + 1, right - left - 1, ROW - 2);
      ctx.fillStyle = colours.ink;
      ctx.save();
      ctx.beginPath();
      ctx.rect(left, y, right - left - 2, ROW);
      ctx.clip();
      ctx.fillText(text, left + 5, y + ROW / 2 + 1);
      ctx.restore();
    }
  }
}
