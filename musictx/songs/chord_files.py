"""Read text files with chords into a Score without notes, with the chords as markers.

Formats: iReal Pro links (:mod:`.ireal`), ChordPro, chords above lyrics, and bars between bar lines,
``| C | Am7 F |`` (:mod:`.chord_sheet`). In files without durations each chord lasts a bar.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import partial

import numpy as np

from musictx.beats import BPM
from musictx.chords import name_of, triad_name
from musictx.errors import ReadError
from musictx.notes import KEY, METER, TEMPO, Score
from musictx.songs.chord_sheet import MAX_BARS, TIMES, parse_bars, words_in
from musictx.songs.ireal import LINK, ChartBar, chart, chord_of

MAX_BYTES = 1_000_000
_DIRECTIVE = re.compile(
    r"\{\s*([a-z_]+)\s*:?\s*([^}]*)\}|(title|artist|key|tempo|time)\s*:\s*(.+)", re.IGNORECASE
)
_BRACKETED = re.compile(r"\[([^\]\[]+)\]")
_SYNONYMS = {
    "t": "title", "artist": "composer", "sot": "start_of_tab", "eot": "end_of_tab",
    "sov": "start_of_verse", "soc": "start_of_chorus", "sob": "start_of_bridge",
}  # fmt: skip
#: A directive or line that begins a section, with its name.
_SECTION = re.compile(r"start_of_(verse|chorus|bridge)|\[(\w[^\[\]]*)\]")


def is_chord_file(data: bytes) -> bool:
    """Whether these bytes are text with chords."""
    text = _text(data)
    if LINK.search(text):
        return True
    if re.search(r"^X:\s*\d+.*^K:", text, re.MULTILINE | re.DOTALL):
        return False  # ABC, whose notes are letters too
    return not text.lstrip().startswith("<") and len(_bars(text, {}, Counter())) > 1


def read(data: bytes, *, repeats: bool = True, repairs: Counter[str] | None = None) -> Score:
    """Read the chart in the bytes of a text file. What is left out or guessed is counted in
    ``repairs``. With ``repeats=False`` the repeats of iReal charts are not expanded. Raises
    :class:`ReadError` for a text without chords."""
    repairs = Counter() if repairs is None else repairs
    headings: dict[str, str] = {}
    text = _text(data)
    if LINK.search(text):
        bars = chart(text, headings, repeats, repairs)
    else:
        bars = _bars(text, headings, repairs)
    if not any(any(bar.chords) for bar in bars):
        raise ReadError(
            "no chords in this text; expected symbols such as C, F#m7 or Bbmaj7, "
            "not numbers or degrees",
            "no chords",
        )
    return _score(bars[:MAX_BARS], headings)


def _text(data: bytes) -> str:
    data = data[:MAX_BYTES]
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return data.decode("utf-16", "replace")
    if re.search(rb"[\0-\x08\x0e-\x1f]", data):
        return ""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("latin-1")


def _bars(text: str, headings: dict[str, str], repairs: Counter[str]) -> list[ChartBar]:
    """The bars of ChordPro or plain text. The title, tempo, ... are added to ``headings``."""
    lines: list[str] = []
    sections: dict[int, str] = {}  # number of the line with which it begins -> name
    in_tab = False
    for line in map(str.strip, text.splitlines()):
        if directive := _DIRECTIVE.fullmatch(line):
            name, value = directive.groups()[:2] if directive[1] else directive.groups()[2:]
            name = _SYNONYMS.get(name.lower(), name.lower())
            headings.setdefault(name, value.strip())
            if section := _SECTION.fullmatch(name):
                label = value.strip().removeprefix("label=").strip("\"'")
                sections[len(lines)] = label or section[1].capitalize()
            in_tab = name == "start_of_tab" or (in_tab and name != "end_of_tab")
            continue
        if in_tab or not line or re.match(r"#|[A-Ge]b?[|:]+-", line):  # a comment, or tablature
            continue
        match = TIMES.search(line)
        words = words_in(line[: match.start()] if match else line)
        symbols = [word for word in words if name_of(word)]
        bracketed = [word for word in _BRACKETED.findall(line) if name_of(word) or triad_name(word)]
        if not bracketed and (section := _SECTION.fullmatch(line)):
            sections[len(lines)] = section[2]
            continue
        if "|" in line and symbols and not bracketed:
            lines.append(line)
            continue
        chords = bracketed or (words if len(symbols) == len(words) else [])
        lines.append("|".join(chords) + (f" {match[0]}" if match else ""))
        # Text before the first chord is the title, unless it is the name of a section.
        if not any(lines) and not re.fullmatch(r"\[.*|.*:", line):
            headings.setdefault("title", line)
    match = re.match(r"(\d{1,2})/(\d{1,2})", headings.get("time", ""))
    meter = (int(match[1]) or 4, int(match[2]) or 4) if match else (4, 4)
    begins: list[int] = []
    bars = parse_bars("\n".join(lines), partial(chord_of, repairs=repairs), begins)
    names = {begins[line]: name[:200] for line, name in sections.items() if line < len(begins)}
    return [ChartBar(bar, meter, names.get(number, "")) for number, bar in enumerate(bars)]


def _score(bars: list[ChartBar], headings: dict[str, str]) -> Score:
    number = re.match(r"\d{1,3}(\.\d{1,3})?", headings.get("tempo", ""))
    bpm = float(number[0]) if number and float(number[0]) > 0 else BPM
    time = 0.0
    markers: list[tuple[float, str]] = []
    meters: list[tuple[float, int, int]] = []
    for bar in bars:
        numerator, denominator = bar.meter
        if not meters or bar.meter != meters[-1][1:]:
            meters.append((time, numerator, denominator))
        if bar.section:
            markers.append((time, bar.section))
        length = 4 * numerator / denominator * 60 / bpm
        for place, name in enumerate(bar.chords):
            if name:
                markers.append((time + length * place / len(bar.chords), name))
        time += length
    markers.append((time, "N"))  # ends the last chord
    keys = []
    if key := re.match(r"([A-G])([#b]?)(-|m(?!aj))?", headings.get("key", "")):
        is_minor = bool(key[3])
        sharps = "FCGDAEB".index(key[1]) - 1 + {"": 0, "#": 7, "b": -7}[key[2]]
        sharps -= 3 if is_minor else 0
        keys = [(0.0, max(-7, min(7, sharps)), is_minor)]
    return Score(
        tempos=np.array([(0.0, bpm)], TEMPO),
        meters=np.array(meters, METER),
        keys=np.array(keys, KEY),
        markers=tuple(markers),
        ticks_per_quarter=480,
        title=headings.get("title", "")[:200],
        composer=headings.get("composer", "")[:200],
    )
