"""Chords as musicians write them: symbols such as ``Am7``, and sheets, ``| C | Am7 F | G |``.

A bar stands between two strokes. Several chords divide it into equal shares; a dot is a share in
which the chord before continues, as in an empty bar. ``%`` alone repeats the bar before, and among
chords it is a dot; ``N.C.`` is no chord. ``|: C | F :|`` is played twice, ``|: C |1. F :|2. G``
with its endings; ``x4`` at the end plays the whole sheet four times.

A bar is the list of its shares: chord names as in markers, such as ``A:min7``, or "" for a dot.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from musictx.beats import Beats
from musictx.chords import chord_markers, is_chart, name_changes, name_of, parse_chord, symbol_of
from musictx.errors import UserError
from musictx.notes import NOTE, Score
from musictx.songs.chord_estimation import implied

SheetBar = list[str]

#: The most bars in a sheet, repeats included.
MOST_BARS = 2000
_STROKE = re.compile(r":?\|+:?")
#: A comma divides words, but not within parentheses.
_WORD = re.compile(r"(?:\([^()]*\)|[^\s,])+")
#: The number of times that a line is played, at the end of the line.
TIMES = re.compile(r"(?<![^\s|])\(?x\s?([1-9]\d?)\)?\s*$")
_ENDING = re.compile(r"\[?([1-9])\.?")
#: Words that prolong the chord before; alone in a bar, "%" repeats the bar before.
_HOLDS = ("%", ".", "/", "-")


def sheet(text: str) -> list[SheetBar]:
    """The bars of a sheet. Raises ``UserError``, which names the option chords, for an invalid
    sheet."""

    def name(word: str) -> str:
        if chord := name_of(word):
            return chord
        raise UserError(
            f"chords: {word[:20]!r} is no chord; expected symbols such as C, F#m7, Bbmaj7, Gsus4 "
            "or N.C., bars between strokes: | C | Am7 F | G |"
        )

    match = re.search(r"\bx\s*(\d{1,4})\s*$", text)
    times = int(match[1]) if match else 1
    bars = bars_in(text[: match.start()] if match else text, name)
    if not bars or not bars[0][0] or not times or len(bars) * times > MOST_BARS:
        raise UserError(
            f"chords={text[:40]!r}: expected 1 to {MOST_BARS} bars of chords, such as "
            "| C | Am7 F | G |"
        )
    return bars * times


def bars_in(text: str, name: Callable[[str], str]) -> list[SheetBar]:
    """The bars of a sheet. A new line counts as a stroke; ``x2`` at its end plays a line twice.
    ``name`` returns the chord name of a word, or "" for a word that is no chord. Such words are
    left out; a bar with no other word is a bar without a chord."""
    bars: list[SheetBar] = []
    repeated: list[SheetBar] = []
    begin = 0  # of a repeat
    ending: int | None = None  # the number of the bar in which its first ending begins
    for line in text.splitlines():
        match = TIMES.search(line)
        line = line[: match.start()].rstrip() if match else line
        more = int(match[1]) - 1 if match else 0  # how often the line is repeated
        first = len(bars)
        cells, strokes = _STROKE.split(line), [*_STROKE.findall(line), ""]
        for place, (cell, stroke) in enumerate(zip(cells, strokes)):
            symbols = _words(cell)
            if len(symbols) > 1 and (number := _ENDING.fullmatch(symbols[0])):
                ending = len(bars) if number[1] == "1" else ending
                symbols = symbols[1:]
            words = [word if word in _HOLDS else name(word) for word in symbols]
            bar = ["" if word in _HOLDS else word for word in words if word]
            if words == ["%"] and bars:
                bars.append(bars[-1])
            elif bar:
                bars.append(bar)
            elif words and 0 < place < len(cells) - 1:
                bars.append(["N"])
            elif bars and 0 < place < len(cells) - 1 and strokes[place - 1][0] == "|":
                bars.append([""])  # not between ":|" and "|:"
            if stroke.startswith(":"):
                repeated = bars[begin:ending][:MOST_BARS]
                bars += repeated
                ending = None
            if ":" in stroke:
                begin = len(bars)
        if line.endswith(":|"):
            bars += repeated * (more - 1)
        else:
            bars += bars[first:] * more
        if len(bars) > 2 * MOST_BARS:
            break
    return bars


def words_in(line: str) -> list[str]:
    """The words of a line of a sheet, without strokes and the signs that prolong a chord."""
    return [word for word in _words(_STROKE.sub(" ", line)) if word not in _HOLDS]


def _words(cell: str) -> list[str]:
    """The words of a cell, without the parentheses around a word."""
    words = _WORD.findall(cell)
    return [word[1:-1] if word[0] == "(" and word[-1] == ")" else word for word in words]


def laid(bars: Sequence[SheetBar], clock: Beats, first: int, stop: int) -> tuple:
    """Markers (seconds, name) of the chords of ``bars``, repeated over and over in the bars of a
    piece from number ``first``, counted from 0, to before ``stop``."""
    looped = (bars[(number - first) % len(bars)] for number in range(first, stop))
    return tuple((clock.seconds(begin), name) for begin, _, name in _placed(looped, clock, first))


def with_markers(score: Score, markers: Iterable[tuple[float, object]]) -> Score:
    """``score`` with further markers (seconds, text), such as chords."""
    more = [(float(time), str(text)) for time, text in markers]
    return replace(score, markers=tuple(sorted([*score.markers, *more])))


def without_chords(score: Score) -> Score:
    """``score`` without the markers that name chords."""
    chords = chord_markers(score)
    return replace(score, markers=tuple(mark for mark in score.markers if mark[1] not in chords))


def _placed(
    bars: Iterator[SheetBar] | Sequence[SheetBar], clock: Beats, first: int = 0
) -> Iterator[tuple[float, float, str]]:
    """Yield (begin, end, name) of the chords in each bar, in quarter notes. A chord ends with its
    bar, or where the next chord begins."""
    for number, bar in enumerate(bars, first):
        begin, stop = clock.bar_line(0.0, number), clock.bar_line(0.0, number + 1)
        places = np.linspace(begin, stop, len(bar) + 1).tolist()
        chords = [(place, name) for place, name in zip(places, bar) if name]
        for (begin, name), (end, _) in zip(chords, [*chords[1:], (places[-1], "")]):
            yield begin, end, name


def bars_of(score: Score) -> list[SheetBar]:
    """The chords of each bar of ``score``: those of its markers, or else those that fit its melody
    or that its notes imply. A bar that begins without a change begins with the chord in force."""
    chords = name_changes(score) or [(time, str(chord)) for time, chord in implied(score)]
    clock = score.beats
    end, ends = score.duration, True
    if is_chart(score):  # up to a final "N", or else through the bar of the last chord
        symbols = chord_markers(score)
        end, last = [mark for mark in score.markers if mark[1] in symbols][-1]
        ends = symbols[last].name == "N"
    bars: list[SheetBar] = []
    placed = [(clock.quarters(time) + 1e-6, name) for time, name in chords]
    in_force = "N"
    for number in range(clock.bar_at(end, ends=ends) if chords else 0):
        begin, stop = (clock.bar_line(0.0, line) for line in (number, number + 1))
        inside = [(place - begin, name) for place, name in placed if begin <= place < stop]
        if not inside or inside[0][0] > 0.25:
            inside.insert(0, (0.0, in_force))
        bars.append(_shares(inside, stop - begin))
        in_force = inside[-1][1]
    return bars


def _shares(chords: Sequence[tuple[float, str]], length: float) -> SheetBar:
    """The bar of ``length`` quarter notes with ``chords`` (quarter note, name), in the fewest equal
    shares, up to 16, that place each chord; if no number of shares fits, one share a chord."""
    for count in (1, 2, 3, 4, 6, 8, 12, 16):
        places = [place / length * count for place, _ in chords]
        lines = [round(place) for place in places]
        near = all(abs(place - line) < 0.1 for place, line in zip(places, lines))
        if near and len({*lines}) == len(lines) and max(lines) < count:
            bar = [""] * count
            for line, (_, name) in zip(lines, chords):
                bar[line] = name
            return bar
    return [name for _, name in chords]


def text_of(bars: Sequence[SheetBar]) -> str:
    """The text of a sheet with four bars in a line."""
    cells = [" ".join(symbol_of(name) if name else "." for name in bar) for bar in bars]
    width = max(map(len, cells), default=0)
    lines = [cells[first : first + 4] for first in range(0, len(cells), 4)]
    return "\n".join("| " + " | ".join(cell.ljust(width) for cell in line) + " |" for line in lines)


def voiced(score: Score) -> Score:
    """A chart with notes, for playing: each chord is struck again in every bar, with its bass in
    the octave below pitch 48 and its tones in the octave from pitch 55 on."""
    rows = []
    clock = score.beats
    for begin, end, name in _placed(bars_of(score), clock):
        chord = parse_chord(name)
        if chord is None or not chord.step:
            continue
        tones = [36 + chord.bass_class, *(55 + (tone - 55) % 12 for tone in chord.chord.classes)]
        times = clock.seconds(begin), clock.seconds(end)
        rows += [(*times, pitch, 72, 0, False, 0) for pitch in tones]
    return score.with_notes(np.array(rows, NOTE))
