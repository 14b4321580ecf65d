"""Charts of iReal Pro: ``irealb://`` and ``irealbook://`` links -> bars of chords.

A link has a title, composer, style, key and chart, separated by "=". Links of the newer kind,
``irealb://``, also have a tempo, and their chart is shuffled in blocks of fifty characters. A chart
is a sequence of cells: a chord takes one, a space prolongs it by another, a comma takes none.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from typing import NamedTuple
from urllib.parse import unquote

from musictx.chords import name_of, triad_name
from musictx.musicxml.repeats import Jump, RepeatError, RepeatSigns, playing_order
from musictx.songs.chord_sheet import SheetBar

#: A link: at the beginning of a text, the rest of the line; within HTML, up to a quote or bracket.
LINK = re.compile(r"^\s*ireal(b|book)://(.+)|ireal(b|book)://([^\"<>\r\n]+)")
#: How the chart of a link of the newer kind begins.
_SHUFFLED = "1r34LbKcu7"
#: (abbreviation, the characters that it stands for).
_ABBREVIATIONS = (("XyQ", "   "), ("Kcl", "| x"), ("LZ", " |"))
_TOKENS = re.compile(
    r"\*(?P<section>[A-Za-z])|T(?P<meter>\d\d)|N(?P<ending>\d)|<(?P<words>[^>]*)>|\([^)]*\)|"
    r"(?P<chord>[A-GW][#b]?(?:sus|alt|add|[-+^oh0-9#b])*(?:/[A-G][#b]?)?)|(?P<sign>[^,])"
)


class ChartBar(NamedTuple):
    """The chords of a bar, the (numerator, denominator) of its meter, and the section it opens."""

    chords: SheetBar
    meter: tuple[int, int] = (4, 4)
    section: str = ""


def chart(
    text: str, headings: dict[str, str], repeats: bool, repairs: Counter[str]
) -> list[ChartBar]:
    """The bars of the first song in ``text``, in the order of playing or, with ``repeats=False``,
    as written. Its title, composer, key and tempo are added to ``headings``, and what is left out
    is counted in ``repairs``."""
    links = [groups[:2] if groups[1] else groups[2:] for groups in LINK.findall(text)]
    kind, fields = links[0][0], unquote(html.unescape(links[0][1])).split("=")
    place = next((n for n, field in enumerate(fields) if field.startswith(_SHUFFLED)), None)
    if place is None:  # title, composer, style, key, "n", chart; then the next song
        place = min(5, len(fields) - 1)
        music, others = fields[place], len(fields[6:]) // 6
    else:
        music = _unshuffle(fields[place].removeprefix(_SHUFFLED))
        others = sum(field.startswith(_SHUFFLED) for field in fields[place + 1 :])
    if others := others + len(links) - 1:
        repairs["songs after the first"] += others
    headings |= {"title": fields[0], "composer": fields[1] if place > 1 else ""}
    headings["key"] = fields[place - 2] if place > 1 else ""
    if kind == "b":
        headings["tempo"] = next(iter(fields[place + 2 : place + 3]), "")
    bars, signs = _bars(music, repairs)
    if not repeats:
        return bars
    try:
        return [bars[number] for number in playing_order(signs)]
    except RepeatError as error:
        repairs[f"repeats not played, because their signs {error}"] += 1
        return bars


def chord_of(word: str, repairs: Counter[str]) -> str:
    """The name of a chord symbol, or of the nearest triad if its kind is unsupported; "" for other
    words. Nearest triads and other words are counted in ``repairs``."""
    if chord := name_of(word):
        return chord
    chord = triad_name(word)
    nearest_triads = "chord symbols of unknown kinds read as the nearest triads"
    repairs[nearest_triads if chord else "words among chords left out"] += 1
    return chord or ""


def _unshuffle(text: str) -> str:
    """The chart in its original order, without abbreviations. In each block of fifty characters
    with at least two after it, characters 0-4 and 10-23 were swapped with their mirror images."""
    blocks = []
    while len(text) > 51:
        block, text = list(text[:50]), text[50:]
        for n in (*range(5), *range(10, 24)):
            block[n], block[49 - n] = block[49 - n], block[n]
        blocks.append("".join(block))
    music = "".join([*blocks, text])
    for abbreviation, characters in _ABBREVIATIONS:
        music = music.replace(abbreviation, characters)
    return music


def _bars(music: str, repairs: Counter[str]) -> tuple[list[ChartBar], list[RepeatSigns]]:
    """The bars in written order, and the repeat signs of each."""
    bars: list[ChartBar] = []
    all_signs: list[RepeatSigns] = []
    cells: SheetBar = []
    signs, meter, section, symbol = RepeatSigns(), (4, 4), "", ""
    ending: tuple[int, ...] = ()
    back: list[int] = []  # of this bar and the next ones: the distances to the bars they repeat

    def close() -> None:
        nonlocal cells, signs, section
        if any(cells) or back:
            distance = back.pop(0) if back else 0
            chords = bars[-distance].chords if 0 < distance <= len(bars) else cells
            bars.append(ChartBar(chords, meter, section))
            all_signs.append(signs._replace(ending=ending))
            signs, section = RepeatSigns(), ""
        cells = []

    for token in _TOKENS.finditer(music):
        kind, text = token.lastgroup, token[token.lastgroup] if token.lastgroup else ""
        if kind == "section":
            section, ending = {"i": "Intro", "v": "Verse"}.get(text, text), ()
        elif kind == "meter":
            meter = (12, 8) if text == "12" else (int(text[0]) or 4, int(text[1]) or 4)
        elif kind == "ending":
            ending = (int(text),)
            signs = signs._replace(opens=True)
        elif kind == "words":
            signs = _with_direction(signs, text.lower())
        elif kind == "chord":
            # W: the previous chord, over another bass
            symbol = symbol.partition("/")[0] + text[1:] if text[0] == "W" else text
            cells.append(chord_of(symbol, repairs))
        elif text in (" ", "p"):
            if cells:
                cells.append("")
        elif text == "n":
            cells.append("N")
        elif text == "x" and bars:
            back = [1]
        elif text == "r":
            back = [2, 2]
        elif text == "S":
            signs = signs._replace(segno=("",))
        elif text == "Q":
            if any(bar_signs.to_coda for bar_signs in all_signs):
                signs = signs._replace(coda=("",))
            elif any(cells) or back or not bars:
                signs = signs._replace(to_coda=("",))
            else:  # at the beginning of a bar the sign belongs to the previous bar
                all_signs[-1] = all_signs[-1]._replace(to_coda=("",))
        elif text in tuple("|[]{}Z"):
            if text == "}":
                signs = signs._replace(backward=max(signs.backward, 2))
            close()
            if text in tuple("[]{}Z"):
                ending = ()
            if text == "{":
                signs = signs._replace(forward=True)
    close()
    return bars, all_signs


def _with_direction(signs: RepeatSigns, words: str) -> RepeatSigns:
    """``signs`` and the direction that the ``words`` above the bar give, such as "d.c. al fine"."""
    if jump := re.match(r"d\.?\s*([cs])\.?\s*(.*)", words):
        until = "coda" if "coda" in jump[2] else "fine" if "fine" in jump[2] else ""
        return signs._replace(jump=Jump(None if jump[1] == "c" else "", until))
    if "fine" in words:
        return signs._replace(fine=True)
    times = re.match(r"(\d)x", words)
    return signs._replace(backward=int(times[1])) if times else signs
