"""Score -> PNG: a piano roll to read at a glance, drawn with Pillow.

Time runs to the right, counted in bars where the notes keep to their beats, else in seconds; pitch
upwards beside a keyboard. Each part has its colour, and louder notes are stronger in it. Long
pieces wrap into several systems like lines of a text. Drums have a lane of their own, one line for
each instrument of the kit. Everything is drawn at twice the size and scaled down, which smooths the
edges. The same Score gives the same bytes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from musictx.beats import Beats
from musictx.files import atomic
from musictx.grid import grid_of
from musictx.midi.names import DRUMS, part_names
from musictx.notes import Score

Colour = tuple[int, int, int]

SCALE = 2
LEFT, RIGHT, TOP, BOTTOM = 64, 24, 62, 14
#: Between systems, the line of times included.
AXIS, GAP = 22, 14
KEYBOARD = 26
PLOT_WIDTH = 1480
#: A second is between these many pixels wide, unless the piece would need more than MAX_SYSTEMS.
MIN_SECOND_PIXELS, MAX_SECOND_PIXELS = 42.0, 150.0
MAX_SYSTEMS = 12
DRUM_LINE, DRUM_GAP = 13, 8
#: Lines of time are so many pixels apart, on average; those with a label.
LINE_PIXELS, LABEL_PIXELS = 12, 64

PAPER: Colour = (255, 255, 255)
INK: Colour = (38, 42, 51)
FAINT: Colour = (120, 126, 138)
WHITE_ROW: Colour = (250, 251, 253)
BLACK_ROW: Colour = (241, 243, 248)
OCTAVE: Colour = (208, 213, 224)
GRID: Colour = (228, 231, 238)
FINE: Colour = (236, 238, 244)
TICK: Colour = (210, 214, 224)
SEAM: Colour = (214, 69, 80)
PRIMER_TINT: Colour = (252, 240, 236)
#: Told apart by colour-blind readers too, in the order in which parts come.
PALETTE: tuple[Colour, ...] = (
    (47, 93, 170),
    (214, 115, 30),
    (32, 138, 107),
    (168, 62, 134),
    (105, 85, 190),
    (176, 139, 18),
    (38, 147, 178),
    (190, 65, 60),
    (98, 122, 50),
    (110, 110, 120),
)
_BLACK = (1, 3, 6, 8, 10)


def draw(
    score: Score, path: str | Path, *, title: str | None = None, seam: float | None = None
) -> Path:
    """Write the piano roll of ``score`` as a PNG file; returns its path.

    ``title`` is the file's name if not given. ``seam`` marks the second at which a primer ends and
    its continuation begins. An empty Score gives an empty roll that says so. The file appears whole
    or not at all; :class:`~musictx.errors.WriteError` if it cannot be written.
    """
    path = Path(path)
    page = image(score, title=path.stem if title is None else title, seam=seam)
    with atomic(path) as beside:
        page.save(beside, format="PNG", optimize=True)
    return path


@dataclass(frozen=True)
class Layout:
    """Where things stand on the page, in pixels of the finished picture."""

    systems: int
    system_seconds: float
    second: float  # pixels
    semitone: float  # pixels
    low: int
    high: int
    drums: tuple[int, ...]  # the kit's pitches that occur, lowest first

    @classmethod
    def of(cls, score: Score) -> Layout:
        pitched = score.notes[~score.notes["drum"]]
        drums = tuple(int(p) for p in np.unique(score.notes["pitch"][score.notes["drum"]]))
        low, high = (
            (int(pitched["pitch"].min()), int(pitched["pitch"].max())) if len(pitched) else (60, 72)
        )
        low, high = low - 2, high + 2
        while high - low < 30:
            low, high = max(low - 1, 0), min(high + 1, 127)
        low, high = max(low, 0), min(high, 127)
        duration = max(score.duration, 1.0)
        systems = min(math.ceil(duration * MIN_SECOND_PIXELS / PLOT_WIDTH), MAX_SYSTEMS)
        seconds = max(
            math.ceil(duration / systems - 1e-9), math.ceil(PLOT_WIDTH / MAX_SECOND_PIXELS)
        )
        height = 400 if systems == 1 else 300
        semitone = min(max(height / (high - low + 1), 4.0), 11.0)
        semitone = math.floor(semitone * SCALE) / SCALE
        return cls(systems, float(seconds), PLOT_WIDTH / seconds, semitone, low, high, drums)

    @property
    def pitch_height(self) -> float:
        return (self.high - self.low + 1) * self.semitone

    @property
    def system_height(self) -> int:
        drums = len(self.drums) * DRUM_LINE + DRUM_GAP if self.drums else 0
        return math.ceil(self.pitch_height) + drums + AXIS + GAP

    @property
    def size(self) -> tuple[int, int]:
        height = TOP + self.systems * self.system_height - GAP + BOTTOM
        return LEFT + PLOT_WIDTH + RIGHT, height

    def x(self, seconds: float, system: int = 0) -> float:
        """From the left edge of the page."""
        return LEFT + (seconds - system * self.system_seconds) * self.second

    def y(self, pitch: int, drum: bool = False) -> float:
        """Upper edge of a pitch's line, from the top of its system."""
        if drum:
            line = len(self.drums) - 1 - self.drums.index(pitch)
            return math.ceil(self.pitch_height) + DRUM_GAP + line * DRUM_LINE
        return (self.high - pitch) * self.semitone

    def times(self, score: Score) -> list[tuple[float, str]]:
        """(second, label, "" for none) of the lines across the roll: bar lines, with the numbers of
        some bars, if the notes keep to the beats of ``score``, else round numbers of seconds."""
        length, clock = self.systems * self.system_seconds, Beats(score)
        bars = clock.bar_lines(float(clock.quarters(length)) + 1e-3)
        pixels = length * self.second / max(len(bars), 1)
        if grid_of(score).on_beats and pixels * 64 >= LABEL_PIXELS:
            every = next(n for n in (1, 2, 4, 8, 16, 32, 64) if n * pixels >= LABEL_PIXELS)
            lines = [
                (float(at), "" if n % every else f"bar {n + 1}")
                for n, at in enumerate(clock.seconds(bars), -clock.pickup)
                if not n % every or pixels >= LINE_PIXELS
            ]
            if clock.pickup and (lines[1][0] - lines[0][0]) * self.second < LABEL_PIXELS:
                lines[0] = (lines[0][0], "")  # no room before that of bar 1
            return lines
        round_numbers = (0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600)
        tick = next((n for n in round_numbers if n * self.second >= LABEL_PIXELS), 3600)
        return [(n * tick, _clock(n * tick, length)) for n in range(int(length / tick + 1e-9) + 1)]


def image(score: Score, *, title: str = "", seam: float | None = None) -> Image.Image:
    """The page that :func:`draw` writes, as a Pillow image (RGB)."""
    layout = Layout.of(score)
    page = Image.new("RGB", layout.size, PAPER)
    colours = _part_colours(score)
    page.paste(_header(layout, score, title, colours), (0, 0))
    times = layout.times(score)
    for system in range(layout.systems):
        picture = _System(layout, system, seam, times).drawn(score, colours)
        page.paste(picture, (0, TOP + system * layout.system_height))
    return page


def _part_colours(score: Score) -> dict[tuple[int, int, bool], Colour]:
    """(track, program, drum) -> colour, by track; drums are grey."""
    table = score.notes[["track", "program", "drum"]]
    parts = sorted({(int(t), int(p) * (not d), bool(d)) for t, p, d in np.unique(table).tolist()})
    pitched = [part for part in parts if not part[2]]
    colours = {part: PALETTE[i % len(PALETTE)] for i, part in enumerate(pitched)}
    return colours | {part: (84, 90, 104) for part in parts if part[2]}


def _mix(one: Colour, other: Colour, share: float) -> Colour:
    """``share`` of ``other`` in ``one``."""
    r, g, b = (round(a + (z - a) * share) for a, z in zip(one, other))
    return r, g, b


def _font(size: float) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size * SCALE)


def _small(picture: Image.Image) -> Image.Image:
    width, height = picture.size
    return picture.resize((width // SCALE, height // SCALE), Image.Resampling.BOX)


def _header(
    layout: Layout, score: Score, title: str, colours: dict[tuple[int, int, bool], Colour]
) -> Image.Image:
    width = layout.size[0]
    picture = Image.new("RGB", (width * SCALE, TOP * SCALE), PAPER)
    pen = ImageDraw.Draw(picture)
    count = f"{len(score):,} note{'' if len(score) == 1 else 's'}"
    facts = f"{count} · {_clock(score.duration, score.duration)}"
    large, small = _font(19), _font(12.5)
    title = " ".join(str(title)[:200].split())  # more has no room, and is slow to measure
    while title and pen.textlength(title, large) > width * SCALE * 0.6:
        title = title[:-2].rstrip("…") + "…"
    pen.text((LEFT * SCALE, 30 * SCALE), title, INK, large, anchor="ls")
    pen.text((LEFT * SCALE, 48 * SCALE), facts, FAINT, small, anchor="ls")
    if len(colours) > 1:  # a legend, from the right edge inwards
        x = float((width - RIGHT) * SCALE)
        names = part_names(list(colours), score.names)
        shown = list(colours)[:8]
        if len(colours) > len(shown):
            more = f"and {len(colours) - len(shown)} more"
            x -= pen.textlength(more, small)
            pen.text((x, 48 * SCALE), more, FAINT, small, anchor="ls")
            x -= 16 * SCALE
        for part in reversed(shown):
            x -= pen.textlength(names[part], small)
            pen.text((x, 48 * SCALE), names[part], INK, small, anchor="ls")
            box = (x - 15 * SCALE, 39 * SCALE, x - 5 * SCALE, 48 * SCALE)
            pen.rounded_rectangle(box, 2 * SCALE, fill=colours[part])
            x -= 31 * SCALE
    return _small(picture)


def _clock(seconds: float, duration: float) -> str:
    """A moment of a piece: 2.5 s; in pieces of a minute and more 0:02, of an hour 1:00:02."""
    if duration < 60:
        return f"{round(seconds, 1):g} s"
    whole = round(seconds)
    minutes = f"{whole // 60 % 60}:{whole % 60:02}"
    return (
        minutes
        if round(duration) < 3600
        else f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"
    )


class _System:
    """One line of the page, drawn ``SCALE`` times as large."""

    def __init__(
        self, layout: Layout, system: int, seam: float | None, times: list[tuple[float, str]]
    ) -> None:
        self.layout, self.system, self.seam, self.times = layout, system, seam, times
        self.start = system * layout.system_seconds
        self.end = self.start + layout.system_seconds
        size = layout.size[0] * SCALE, layout.system_height * SCALE
        self.picture = Image.new("RGB", size, PAPER)
        self.pen = ImageDraw.Draw(self.picture)
        self.bottom = layout.system_height - AXIS - GAP

    def drawn(self, score: Score, colours: dict[tuple[int, int, bool], Colour]) -> Image.Image:
        self._stripes()
        self._times()
        self._keyboard()
        self._drum_names()
        self._notes(score, colours)
        self._seam()
        if not len(score):
            middle = (LEFT + PLOT_WIDTH / 2) * SCALE, self.layout.pitch_height / 2 * SCALE
            self.pen.text(middle, "no notes", FAINT, _font(16), anchor="mm")
        return _small(self.picture)

    def _box(self, left: float, top: float, right: float, bottom: float, colour: Colour) -> None:
        """A filled rectangle; Pillow counts the last pixel in, we do not."""
        corners = [round(v * SCALE) for v in (left, top, right, bottom)]
        if corners[2] > corners[0] and corners[3] > corners[1]:
            self.pen.rectangle(
                (corners[0], corners[1], corners[2] - 1, corners[3] - 1), fill=colour
            )

    def _primer_end(self) -> float:
        """Where the primer's tint ends on this line, seconds."""
        return self.start if self.seam is None else min(max(self.seam, self.start), self.end)

    def _stripes(self) -> None:
        layout = self.layout
        tinted = layout.x(self._primer_end(), self.system)
        lines = [
            (layout.y(pitch), layout.semitone, BLACK_ROW if pitch % 12 in _BLACK else WHITE_ROW)
            for pitch in range(layout.low, layout.high + 1)
        ]
        for i, pitch in enumerate(layout.drums):
            lines.append((layout.y(pitch, drum=True), DRUM_LINE, BLACK_ROW if i % 2 else WHITE_ROW))
        for top, height, colour in lines:
            self._box(LEFT, top, LEFT + PLOT_WIDTH, top + height, colour)
            if tinted > LEFT:
                shade = _mix(colour, PRIMER_TINT, 0.85) if colour == WHITE_ROW else colour
                shade = _mix(shade, PRIMER_TINT, 0.35)
                self._box(LEFT, top, tinted, top + height, shade)
        for pitch in range(layout.low, layout.high + 1):
            if pitch % 12 == 0:
                y = layout.y(pitch) + layout.semitone
                self._box(LEFT, y - 0.5, LEFT + PLOT_WIDTH, y + 0.5, OCTAVE)

    def _times(self) -> None:
        small = _font(11.5)
        for at, label in self.times:
            if not self.start - 1e-9 <= at <= self.end + 1e-9:
                continue
            x = self.layout.x(at, self.system)
            self._box(x - 0.5, 0, x + 0.5, self.bottom, GRID if label else FINE)
            if label:
                self._box(x - 0.5, self.bottom, x + 0.5, self.bottom + 4, TICK)
                where = (x * SCALE, (self.bottom + 7) * SCALE)
                self.pen.text(where, label, FAINT, small, anchor="ma")
        self._box(LEFT, self.bottom, LEFT + PLOT_WIDTH, self.bottom + 1, TICK)

    def _keyboard(self) -> None:
        layout, left = self.layout, LEFT - KEYBOARD - 2
        small = _font(11.5)
        self._box(left, 0, LEFT - 2, layout.pitch_height, PAPER)
        for pitch in range(layout.low, layout.high + 1):
            top = layout.y(pitch)
            if pitch % 12 in _BLACK:
                right = left + KEYBOARD * 0.62
                self._box(left, top, right, top + layout.semitone, (70, 75, 88))
                middle = top + layout.semitone / 2
                self._box(right, middle - 0.25, LEFT - 2, middle + 0.25, TICK)
            elif pitch % 12 in (0, 5):  # white neighbours without a black key between them
                bottom = top + layout.semitone
                self._box(left, bottom - 0.25, LEFT - 2, bottom + 0.25, TICK)
            if pitch % 12 == 0:
                where = ((left - 5) * SCALE, (top + layout.semitone / 2) * SCALE)
                self.pen.text(where, f"C{pitch // 12 - 1}", FAINT, small, anchor="rm")
        for edge in (left, LEFT - 2):
            self._box(edge - 0.5, 0, edge + 0.5, layout.pitch_height, TICK)

    def _drum_names(self) -> None:
        small = _font(10)
        for pitch in self.layout.drums:
            middle = self.layout.y(pitch, drum=True) + DRUM_LINE / 2
            name = DRUMS.get(pitch, f"drum {pitch}")
            where = (LEFT - 9) * SCALE, middle * SCALE
            self.pen.text(where, name, FAINT, small, anchor="rm")

    def _notes(self, score: Score, colours: dict[tuple[int, int, bool], Colour]) -> None:
        notes = score.notes
        here = notes[(notes["start"] < self.end) & (notes["end"] >= self.start)]
        if self.system:  # what ends at the line's first moment was drawn on the line before
            here = here[(here["end"] > self.start) | (here["start"] >= self.start)]
        for start, end, pitch, velocity, program, drum, track in here.tolist():
            base = colours[track, program * (not drum), drum]
            # Louder is fuller: from a light tint to the part's colour a little darkened. Most
            # music lies between 20 and 110, so that is where the colours are spent.
            strength = min(max((velocity - 20) / 90, 0.0), 1.0)
            fill = _mix(_mix(base, PAPER, 0.7), _mix(base, (0, 0, 0), 0.12), strength)
            edge = _mix(base, (0, 0, 0), 0.1 + 0.3 * strength)
            if drum:
                self._drum(start, pitch, fill, edge)
            else:
                self._note(start, end, pitch, fill, edge)

    def _note(self, start: float, end: float, pitch: int, fill: Colour, edge: Colour) -> None:
        layout = self.layout
        left = layout.x(max(start, self.start), self.system)
        right = layout.x(min(end, self.end), self.system)
        right = max(right - 0.5, left + 2)  # repeated notes stay apart, the shortest visible
        top = layout.y(pitch)
        box = [round(v * SCALE) for v in (left, top, right, top + layout.semitone)]
        box[2] -= 1
        box[3] -= 1
        radius = min(2.5 * SCALE, (box[2] - box[0]) / 2, (box[3] - box[1]) / 2)
        self.pen.rounded_rectangle(box, radius, fill=fill, outline=edge, width=SCALE // 2)

    def _drum(self, start: float, pitch: int, fill: Colour, edge: Colour) -> None:
        """A diamond: a stroke has a moment, not a length."""
        x = self.layout.x(max(start, self.start), self.system) * SCALE
        y = (self.layout.y(pitch, drum=True) + DRUM_LINE / 2) * SCALE
        r = 4.2 * SCALE
        points = [(x - r, y), (x, y - r), (x + r, y), (x, y + r)]
        self.pen.polygon(points, fill=fill, outline=edge)

    def _seam(self) -> None:
        if self.seam is None or not self.start <= self.seam <= self.end:
            return
        x = self.layout.x(self.seam, self.system)
        self._box(x - 1, 0, x + 1, self.bottom, SEAM)
        small = _font(11.5)
        for text, anchor, at in (("primer", "rt", x - 6), ("continuation", "lt", x + 6)):
            where = (at * SCALE, 5 * SCALE)
            left, top, right, bottom = self.pen.textbbox(where, text, small, anchor=anchor)
            pad = 3 * SCALE
            self.pen.rounded_rectangle(
                (left - pad, top - pad, right + pad, bottom + pad), 3 * SCALE, fill=PAPER
            )
            self.pen.text(where, text, SEAM, small, anchor=anchor)
