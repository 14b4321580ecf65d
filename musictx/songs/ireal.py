"""Charts of iReal Pro: ``irealb://`` and ``irealbook://`` links -> measures of chords.

A link is title, composer, style, key and chart, with "=" between them, and of the newer kind also a
tempo; its chart is then shuffled in blocks of fifty characters. A chart is a row of cells: a chord
takes one, a space holds it for one more, a comma takes none.
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

#: A link, from the beginning of a text to the end of the line, or in a page up to a quote.
LINK = re.compile(r"^\s*ireal(b|book)://(.+)|ireal(b|book)://([^\"<>\r\n]+)")
#: How the chart of a link of the newer kind begins.
_SHUFFLED = "1r34LbKcu7"
#: Abbreviations -> the characters that they stand for.
_SHORT = (("XyQ", "   "), ("Kcl", "| x"), ("LZ", " |"))
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
    text: str, headings: dict[str, str], repeats: bool, remarks: Counter[str]
) -> list[ChartBar]:
    """The measures of the first song in ``text``, in the order in which they are played.
    ``headings`` gets its title, composer, key and tempo, ``remarks`` what is left out."""
    links = [
        (line_kind or kind, line_link or link)
        for line_kind, line_link, kind, link in LINK.findall(text)
    ]
    kind, fields = links[0][0], unquote(html.unescape(links[0][1])).split("=")
    place = next((n for n, field in enumerate(fields) if field.startswith(_SHUFFLED)), None)
    if place is None:  # title, composer, style, key, n, chart
        place = min(5, len(fields) - 1)
        music = fields[place]
    else:
        music = _unshuffled(fields[place].removeprefix(_SHUFFLED))
    songs = len(links) - 1 + sum(field.startswith(_SHUFFLED) for field in fields[place + 1 :])
    remarks["songs after the first"] += songs
    headings |= {"title": fields[0], "composer": fields[1] if place > 1 else ""}
    headings["key"] = fields[place - 2] if place > 1 else ""
    if kind == "b":
        headings["tempo"] = next(iter(fields[place + 2 : place + 3]), "")
    measures, marks = _page(music, remarks)
    if not repeats:
        return measures
    try:
        return [measures[number] for number in playing_order(marks)]
    except RepeatError as error:
        remarks[f"repeats that are not taken, for their marks {error}"] += 1
        return measures


def chord_of(word: str, remarks: Counter[str]) -> str:
    """The name of a chord symbol, or of the nearest triad for a symbol of an unsupported kind; ""
    for other words. ``remarks`` counts the nearest triads and the other words."""
    if chord := name_of(word):
        return chord
    chord = triad_name(word)
    other = "chord symbols of other kinds read as the nearest triads"
    remarks[other if chord else "words among chords left out"] += 1
    return chord or ""


def _unshuffled(text: str) -> str:
    """The chart in its original order. In each block of fifty characters that at least two more
    follow, the characters 0 to 4 and 10 to 23 were exchanged with those as far from the end."""
    blocks = []
    while len(text) > 51:
        block, text = list(text[:50]), text[50:]
        for n in (*range(5), *range(10, 24)):
            block[n], block[49 - n] = block[49 - n], block[n]
        blocks.append("".join(block))
    music = "".join([*blocks, text])
    for short, written in _SHORT:
        music = music.replace(short, written)
    return music


def _page(music: str, remarks: Counter[str]) -> tuple[list[ChartBar], list[RepeatSigns]]:
    """The measures in written order, and the marks of repeats of each."""
    measures: list[ChartBar] = []
    marks: list[RepeatSigns] = []
    cells: SheetBar = []
    here, meter, section, latest = RepeatSigns(), (4, 4), "", ""
    ending: tuple[int, ...] = ()
    again = 0  # how many of the next bars repeat the bar two bars before

    def close() -> None:
        nonlocal cells, here, section
        if any(cells) or again:
            chords = measures[-2].chords if again and len(measures) > 1 else cells
            measures.append(ChartBar(chords, meter, section))
            marks.append(here)
            here, section = RepeatSigns(ending=ending), ""
        cells = []

    for token in _TOKENS.finditer(music):
        kind, text = token.lastgroup, token[token.lastgroup] if token.lastgroup else ""
        if kind == "section":
            section = {"i": "Intro", "v": "Verse"}.get(text, text)
        elif kind == "meter":
            meter = (12, 8) if text == "12" else (int(text[0]) or 4, int(text[1]) or 4)
        elif kind == "ending":
            ending = (int(text),)
            here = here._replace(ending=ending, opens=True)
        elif kind == "words":
            here = _directed(here, text.lower())
        elif kind == "chord":
            symbol = re.sub("^W", latest.partition("/")[0], text)
            latest = symbol
            cells.append(chord_of(symbol, remarks))
        elif text in (" ", "p"):
            cells += [""] * bool(cells)
        elif text == "n":
            cells.append("N")
        elif text == "x" and measures:
            cells = list(measures[-1].chords)
        elif text == "r":
            again = 2
        elif text == "S":
            here = here._replace(segno=("",))
        elif text == "Q":
            if any(mark.to_coda for mark in marks):
                here = here._replace(coda=("",))
            elif any(cells) or not marks:
                here = here._replace(to_coda=("",))
            else:  # at the beginning of a measure the sign belongs to the measure before
                marks[-1] = marks[-1]._replace(to_coda=("",))
        elif text in tuple("|[]{}Z"):
            if text == "}":
                here = here._replace(backward=max(here.backward, 2))
            last = bool(ending) and text in tuple("}]Z")
            count = len(measures)
            close()
            again -= again > 0 and len(measures) > count
            if last or (ending and max(ending) > 1 and len(measures) > count):
                ending = ()
                here = here._replace(ending=())
            if text == "{":
                here = here._replace(forward=True)
    close()
    return measures, marks


def _directed(here: RepeatSigns, words: str) -> RepeatSigns:
    """The marks of a measure, with those of repeats in its ``words``, such as "D.C. al Fine"."""
    if jump := re.match(r"d\.?\s*([cs])\.?\s*(.*)", words):
        until = "coda" if "coda" in jump[2] else "fine" if "fine" in jump[2] else ""
        return here._replace(jump=Jump(None if jump[1] == "c" else "", until))
    if "fine" in words:
        return here._replace(fine=True)
    times = re.match(r"(\d)x", words)
    return here._replace(backward=int(times[1])) if times else here
