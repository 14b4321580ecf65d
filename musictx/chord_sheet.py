"""Chords as musicians write them: symbols such as ``Am7``, and sheets, ``| C | Am7 F | G |``.

Between two strokes stands a bar; several chords in it share it equally. ``%`` repeats the chord
before, or the bar before where it stands alone; ``N.C.`` is no chord. ``x4`` at the end plays all
of it four times.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from musictx.beats import Beats
from musictx.chord_search import search
from musictx.chords import NAMES, NONE, ROOTS, Chord, annotated, is_chart, recognised, symbol
from musictx.errors import UserError
from musictx.notes import Score

#: Bars in a sheet at most, repeats included.
MOST_BARS = 2000
#: How the qualities are written.
_WRITTEN = dict(zip(NAMES, ("", "", "m", "7", "maj7", "m7", "sus2", "sus4", "dim", "aug", "m7b5")))


def written(chord: Chord) -> str:
    """The symbol of a chord."""
    return "N.C." if chord == NONE else ROOTS[chord.root] + _WRITTEN[NAMES[chord.quality]]


def sheet(text: str, option: str = "chords") -> list[list[Chord]]:
    """The chords of each bar of a sheet; ``UserError`` naming ``option`` for what is none."""
    match = re.search(r"\bx\s*(\d{1,4})\s*$", text)
    times = int(match[1]) if match else 1
    body = text[: match.start()] if match else text
    bars: list[list[Chord]] = []
    for cell in body.replace("||", "|").replace("\n", "|").split("|"):
        words = cell.replace(",", " ").split()
        if not words:
            continue
        if words == ["%"] and bars:
            bars.append(bars[-1])
            continue
        bar: list[Chord] = []
        for word in words:
            before = bar[-1:] or [one for bar_before in bars[-1:] for one in bar_before[-1:]]
            found = before[0] if word == "%" and before else symbol(word)
            if found is None:
                raise UserError(
                    f"{option}: {word[:20]!r} is no chord; expected symbols such as C, F#m7, "
                    "Bbmaj7, Gsus4 or N.C., bars between strokes: | C | Am7 F | G |"
                )
            bar.append(found)
        bars.append(bar)
    if not bars or not times or len(bars) * times > MOST_BARS:
        raise UserError(
            f"{option}={text[:40]!r}: expected 1 to {MOST_BARS} bars of chords, such as "
            "| C | Am7 F | G |"
        )
    return bars * times


def laid(bars: Sequence[Sequence[Chord]], clock: Beats, first: int, stop: int) -> tuple:
    """Markers (seconds, name) of the chords of ``bars`` in the bars of a piece from number
    ``first``, from 0, to before ``stop``, over and over."""
    markers = []
    for number in range(first, stop):
        chords = bars[(number - first) % len(bars)]
        begin, end = (clock.bar_line(0.0, bar) for bar in (number, number + 1))
        places = np.linspace(begin, end, len(chords), endpoint=False)
        for place, chord in zip(places.tolist(), chords):
            markers.append((float(clock.seconds(place)), str(chord)))
    return tuple(markers)


def bars_of(score: Score) -> list[list[Chord]]:
    """The chords of each bar of ``score``, those of its markers, or else those that fit
    its melody or that its notes imply; a bar without a change has the chord in force."""
    found = annotated(score) or (search if score.one_voice else recognised)(score)
    clock = score.beats
    end = float(clock.quarters(score.duration)) - 1e-3
    if is_chart(score):  # up to where no chord stands any more, or through the bar of the last one
        time, last = found[-1]
        end = float(clock.quarters(time)) + (-1e-3 if last == NONE else 1e-3)
    count = clock.bar(end)[0] if found else 0
    bars: list[list[Chord]] = [[] for _ in range(count)]
    changes = [(clock.bar(float(clock.quarters(time)) + 1e-6), chord) for time, chord in found]
    force = NONE
    for number, bar in enumerate(bars, 1):
        mine = [(within, chord) for (at, within), chord in changes if at == number]
        if not mine or mine[0][0] > 0.25:
            bar.append(force)
        bar += [chord for _, chord in mine]
        force = bar[-1]
    return bars


def text_of(bars: Sequence[Sequence[Chord]], a_line: int = 4) -> str:
    """A sheet, so many bars in a line."""
    cells = [" ".join(written(chord) for chord in bar) for bar in bars]
    width = max(map(len, cells), default=0)
    lines = [cells[at : at + a_line] for at in range(0, len(cells), a_line)]
    return "\n".join("| " + " | ".join(cell.ljust(width) for cell in line) + " |" for line in lines)
