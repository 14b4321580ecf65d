"""Chords as musicians write them: symbols such as ``Am7``, and sheets, ``| C | Am7 F | G |``.

``|`` is a bar line. Several chords divide a bar into equal shares. A dot is a share in which the
previous chord continues, as it does in an empty bar. ``%`` alone repeats the previous bar; among
chords it is a dot. ``N.C.`` is no chord. ``|: C | F :|`` is played twice, ``|: C |1. F :|2. G``
with its endings; ``x4`` at the end plays the whole sheet four times. In a line without ``|`` or
dots each chord is a bar, with or without dashes between chords.

A bar is the list of its shares: chord names as in markers, such as ``A:min7``, or "" for a dot.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from musictx.beats import Beats
from musictx.chords import chord_markers, is_chart, name_changes, name_of, parse_chord, symbol_of
from musictx.config.checks import require
from musictx.notes import NOTE, Score
from musictx.songs.chord_estimation import estimate_chords

SheetBar = list[str]

#: The most bars in a sheet, including repeats.
MAX_BARS = 2000
_BAR_LINE = re.compile(r":?\|+:?")
#: Spaces and commas divide words, but not within parentheses.
_WORD = re.compile(r"(?:\([^()]*\)|[^\s,])+")
#: The number of times that a line is played, at the end of the line.
TIMES = re.compile(r"(?<![^\s|])\(?x\s?([1-9]\d?)\)?\s*$")
_ENDING = re.compile(r"\[?([1-9])\.?")
#: Words that prolong the previous chord; alone in a bar, "%" repeats the previous bar.
_HOLDS = ("%", ".", "/", "-")


def sheet(text: str) -> list[SheetBar]:
    """The bars of a sheet. Raises ``UserError`` about the option chords for an invalid sheet."""
    expected = f"1 to {MAX_BARS} bars of symbols such as F#m7 or N.C.: | C | Am7 F | G |"

    def to_name(word: str) -> str:
        name = name_of(word)
        require(name is not None, "chords", word, expected)
        return name or ""

    match = re.search(r"\bx\s*(\d{1,3})\s*$", text)
    times = int(match[1]) if match else 1
    bars = parse_bars(text[: match.start()] if match else text, to_name) * times
    require(bool(bars) and bars[0][0] != "" and len(bars) <= MAX_BARS, "chords", text, expected)
    return bars


def parse_bars(
    text: str, to_name: Callable[[str], str], line_begins: list[int] | None = None
) -> list[SheetBar]:
    """The bars of a sheet. A new line counts as a bar line; ``x2`` at its end plays a line twice.
    ``to_name`` returns the chord name of a word, or "" for a word that is not a chord. Such words
    are left out; a bar with only such words is a bar without a chord. The number of the bar with
    which each line begins, from 0, is added to ``line_begins``."""
    bars: list[SheetBar] = []
    repeated: list[SheetBar] = []  # the bars that the last repeat sign played again
    repeat_begin = 0
    first_ending: int | None = None  # the number of the bar with which it begins
    for line in text.splitlines():
        match = TIMES.search(line)
        line = line[: match.start()].rstrip() if match else line
        times = int(match[1]) if match else 1
        line_begin = len(bars)
        if line_begins is not None:
            line_begins.append(line_begin)
        if "|" not in line and not {"%", ".", "/"} & {*_words(line)}:
            line = "|".join(words_in(line))
        cells, bar_lines = _BAR_LINE.split(line), [*_BAR_LINE.findall(line), ""]
        for place, (cell, bar_line) in enumerate(zip(cells, bar_lines)):
            symbols = _words(cell)
            if len(symbols) > 1 and (number := _ENDING.fullmatch(symbols[0])):
                if number[1] == "1":
                    first_ending = len(bars)
                symbols = symbols[1:]
            names = [word if word in _HOLDS else to_name(word) for word in symbols]
            bar = ["" if name in _HOLDS else name for name in names if name]
            is_between_bar_lines = 0 < place < len(cells) - 1
            if names == ["%"] and bars:
                bars.append(bars[-1])
            elif bar:
                bars.append(bar)
            elif names and is_between_bar_lines:
                bars.append(["N"])
            elif bars and is_between_bar_lines and bar_lines[place - 1][0] == "|":
                bars.append([""])  # not between ":|" and "|:"
            if bar_line.startswith(":"):
                repeated = bars[repeat_begin:first_ending][:MAX_BARS]
                bars += repeated
                first_ending = None
            if ":" in bar_line:
                repeat_begin = len(bars)
        if line.endswith(":|"):
            bars += repeated * (times - 2)
        else:
            bars += bars[line_begin:] * (times - 1)
        if len(bars) > 2 * MAX_BARS:
            break
    return bars


def words_in(line: str) -> list[str]:
    """The words of a line of a sheet, without bar lines and the signs that prolong a chord."""
    return [word for word in _words(_BAR_LINE.sub(" ", line)) if word not in _HOLDS]


def _words(cell: str) -> list[str]:
    """The words of ``cell``, without parentheses around a whole word."""
    words = _WORD.findall(cell)
    return [word[1:-1] if word[0] == "(" and word[-1] == ")" else word for word in words]


def loop_markers(bars: Sequence[SheetBar], beats: Beats, first: int, stop: int) -> tuple:
    """Markers (seconds, name) of the chords of ``bars``, looped over the bars ``first`` to
    ``stop`` - 1 of a piece, counted from 0. Tracked beats may begin before the piece: of the chords
    up to its start, the last one is marked there."""
    looped = [bars[(number - first) % len(bars)] for number in range(first, stop)]
    spans = _chord_spans(looped, beats, first)
    return tuple({max(beats.seconds(begin), 0.0): name for begin, _, name in spans}.items())


def with_markers(score: Score, markers: Iterable[tuple[float, object]]) -> Score:
    """``score`` with further markers (seconds, text), such as chords."""
    added = [(float(time), str(text)) for time, text in markers]
    return replace(score, markers=tuple(sorted([*score.markers, *added])))


def without_chords(score: Score) -> Score:
    """``score`` without the markers that name chords."""
    chords = chord_markers(score)
    return replace(score, markers=tuple(m for m in score.markers if m[1] not in chords))


def _chord_spans(
    bars: Sequence[SheetBar], beats: Beats, first: int = 0
) -> Iterator[tuple[float, float, str]]:
    """Yield (begin, end, name) of the chords of ``bars``, in quarter notes. ``first`` is the number
    of the first bar, from 0. A chord ends where the next one begins, or with its bar."""
    for number, bar in enumerate(bars, first):
        bar_begin, bar_end = beats.bar_line(0.0, number), beats.bar_line(0.0, number + 1)
        places = np.linspace(bar_begin, bar_end, len(bar) + 1).tolist()
        chords = [(place, name) for place, name in zip(places, bar) if name]
        for (begin, name), (end, _) in zip(chords, [*chords[1:], (bar_end, "")]):
            yield begin, end, name


def chord_bars(score: Score) -> list[SheetBar]:
    """The chords of each bar of ``score``: those of its markers, or else those that fit its melody
    or that its notes imply. A bar that begins without a change begins with the chord in force."""
    chords = name_changes(score) or estimate_chords(score)
    if not chords:
        return []
    beats = score.beats
    bar_count = beats.bar_at(score.duration, ends=True)
    if is_chart(score):  # ends at a final "N", or else with the bar of the last chord
        symbols = chord_markers(score)
        end, last = [marker for marker in score.markers if marker[1] in symbols][-1]
        bar_count = beats.bar_at(end, ends=symbols[last].name == "N")
    bars: list[SheetBar] = []
    changes = [(beats.quarters(time) + 1e-6, name) for time, name in chords]
    in_force = "N"
    for number in range(bar_count):
        begin, end = beats.bar_line(0.0, number), beats.bar_line(0.0, number + 1)
        bar_chords = [(place - begin, name) for place, name in changes if begin <= place < end]
        if not bar_chords or bar_chords[0][0] > 0.25:
            bar_chords.insert(0, (0.0, in_force))
        bars.append(_divide_bar(bar_chords, end - begin))
        in_force = bar_chords[-1][1]
    return bars


def _divide_bar(chords: Sequence[tuple[float, str]], length: float) -> SheetBar:
    """A bar of ``length`` quarter notes with ``chords`` (quarter note, name), in the fewest equal
    shares, at most 16, such that each chord begins a share; if none fit, one share a chord."""
    for count in (1, 2, 3, 4, 6, 8, 12, 16):
        places = [place / length * count for place, _ in chords]
        shares = [round(place) for place in places]
        fits = all(abs(place - share) < 0.1 for place, share in zip(places, shares))
        if fits and len({*shares}) == len(shares) and max(shares) < count:
            bar = [""] * count
            for share, (_, name) in zip(shares, chords):
                bar[share] = name
            return bar
    return [name for _, name in chords]


def sheet_text(bars: Sequence[SheetBar]) -> str:
    """The text of a sheet, with four bars in a line."""
    cells = [" ".join(symbol_of(name) if name else "." for name in bar) for bar in bars]
    width = max(map(len, cells), default=0)
    lines = [cells[first : first + 4] for first in range(0, len(cells), 4)]
    return "\n".join("| " + " | ".join(cell.ljust(width) for cell in line) + " |" for line in lines)


def with_chord_notes(score: Score) -> Score:
    """``score``, a chart, with notes to play: each chord is struck again in every bar, with its
    bass in the octave from pitch 36 and its tones in the octave from pitch 55."""
    rows = []
    for begin, end, name in _chord_spans(chord_bars(score), score.beats):
        chord = parse_chord(name)
        if chord is None or not chord.step:
            continue
        pitches = [36 + chord.bass_class, *(55 + (tone - 55) % 12 for tone in chord.chord.classes)]
        times = score.beats.seconds(begin), score.beats.seconds(end)
        rows += [(*times, pitch, 72, 0, False, 0) for pitch in pitches]
    return score.with_notes(np.array(rows, NOTE))
