"""Draw a Score as a piano roll, a PNG file: :func:`draw`.

Time runs from left to right; it is labelled in bars if the notes lie on a beat grid, else in
seconds. Pitch runs upwards along a keyboard. Each part has a colour; louder notes are darker. Long
pieces wrap into several systems, as in sheet music. The drums have a lane below, with a row for
each drum. The same Score always gives the same bytes.
"""

from __future__ import annotations

import math
from datetime import timedelta
from functools import cache, cached_property
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from musictx.files import atomic
from musictx.grid import grid_of
from musictx.midi.names import DRUM_NAMES, part_names
from musictx.notes import Score

Colour = tuple[int, int, int]
Part = tuple[int, int, bool]  # track, program (0 for drums), drum

#: Sizes in pixels. Below the roll of a system come AXIS, with the labels of time, and GAP before
#: the next system.
LEFT, RIGHT, TOP, AXIS, GAP = 64, 24, 62, 22, 14
PLOT_WIDTH, KEYBOARD, DRUM_ROW, DRUM_GAP = 1480, 26, 13, 8
#: Smallest and largest number of pixels per second, and the most systems. A piece that would need
#: more systems has fewer pixels per second.
MIN_SECOND_PIXELS, MAX_SECOND_PIXELS, MAX_SYSTEMS = 42.0, 150.0, 12
#: Largest height of the pitches of a page with one system, and of a system of several.
SINGLE_HEIGHT, SYSTEM_HEIGHT = 400, 300
#: Smallest and largest height of a semitone.
MIN_SEMITONE, MAX_SEMITONE = 4, 11
#: Smallest distance in pixels between two vertical lines, and between two labels.
LINE_PIXELS, LABEL_PIXELS = 12, 64

PAPER, INK, FAINT = (255, 255, 255), (38, 42, 51), (120, 126, 138)
#: Backgrounds of the rows of white and of black keys: in new music, and in given music.
ROWS, PRIMER_ROWS = ((250, 251, 253), (241, 243, 248)), ((252, 241, 238), (245, 242, 244))
#: Colours of lines: between octaves, of axes and keys, at labelled and at other times.
OCTAVE_LINE, AXIS_LINE = (208, 213, 224), (210, 214, 224)
LABELLED_LINE, FINE_LINE = (228, 231, 238), (236, 238, 244)
SEAM_COLOUR, BLACK_KEY, DRUM_COLOUR = (214, 69, 80), (70, 75, 88), (84, 90, 104)
#: Colours of the parts, in their order; colour-blind readers can tell them apart, too.
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


def draw(
    score: Score,
    path: str | Path,
    *,
    title: str | None = None,
    seam: float | None = None,
    end: float | None = None,
) -> Path:
    """Write the piano roll of ``score`` as a PNG file; return its path.

    The default ``title`` is the name of the file. New music begins at ``seam`` seconds, and ends at
    ``end`` seconds if it fills a gap. An empty Score gives an empty roll with the words "no notes".
    No partly written file is left. Raises :class:`~musictx.errors.WriteError` if the file cannot be
    written.
    """
    path = Path(path)
    page = image(score, title=path.stem if title is None else title, seam=seam, end=end)
    with atomic(path) as temporary:
        page.save(temporary, format="PNG", optimize=True)
    return path


def image(
    score: Score, *, title: str = "", seam: float | None = None, end: float | None = None
) -> Image.Image:
    """Return the page that :func:`draw` writes, as a Pillow image (RGB)."""
    layout = Layout(score)
    page = Image.new("RGB", layout.size, PAPER)
    _draw_header(ImageDraw.Draw(page), layout, title)
    for system in range(layout.systems):
        picture = _draw_system(layout, system, seam, end)
        page.paste(picture, (0, TOP + system * layout.system_height))
    return page


class Layout:
    """Sizes and positions on the page of ``score``, in pixels.

    colours         the colour of each part, in the order of the tracks, drums last
    systems         number of systems
    system_seconds  seconds in a system
    second_width    width of a second
    row_height      height of a semitone
    low, high       lowest and highest pitch on the page; 0 and -1 if there are only drums
    drums           pitches of the drums that occur, lowest first
    pitch_height    height of all pitches
    system_height   height of a system
    size            width and height of the page
    """

    def __init__(self, score: Score) -> None:
        self.score, self.colours = score, _part_colours(score)
        drum = score.notes["drum"]
        pitches = score.notes["pitch"][~drum].tolist() or [60, 72]
        low, high = min(pitches) - 2, max(pitches) + 2
        margin = max(0, 31 - (high - low)) // 2  # at least thirty semitones
        low, high = max(min(low - margin, 97), 0), min(max(high + margin, 30), 127)
        if len(drum) and drum.all():
            low, high = 0, -1  # no pitches
        self.low, self.high = low, high
        duration = max(score.duration, 1.0)
        systems = min(math.ceil(duration * MIN_SECOND_PIXELS / PLOT_WIDTH), MAX_SYSTEMS)
        seconds = math.ceil(max(duration / systems - 1e-9, PLOT_WIDTH / MAX_SECOND_PIXELS))
        self.systems, self.system_seconds = systems, float(seconds)
        self.second_width = PLOT_WIDTH / seconds
        height = SINGLE_HEIGHT if systems == 1 else SYSTEM_HEIGHT
        row_height = height // max(high - low + 1, 1)
        self.row_height = min(max(row_height, MIN_SEMITONE), MAX_SEMITONE)
        self.drums: list[int] = np.unique(score.notes["pitch"][drum]).tolist()
        self.pitch_height = (high - low + 1) * self.row_height
        drum_height = len(self.drums) * DRUM_ROW + DRUM_GAP if self.drums else 0
        self.system_height = self.pitch_height + drum_height + AXIS + GAP
        self.size = LEFT + PLOT_WIDTH + RIGHT, TOP + systems * self.system_height

    def x(self, seconds: float, system: int = 0) -> float:
        """Return the position of a time in a system, from the left edge of the page."""
        return LEFT + (seconds - system * self.system_seconds) * self.second_width

    def y(self, pitch: int, drum: bool = False) -> int:
        """Return the upper edge of the row of ``pitch``, from the top of its system."""
        if drum:
            row = len(self.drums) - 1 - self.drums.index(pitch)
            return self.pitch_height + DRUM_GAP + row * DRUM_ROW
        return (self.high - pitch) * self.row_height

    @cached_property
    def times(self) -> list[tuple[float, str]]:
        """(seconds, label or "") of each vertical line: bar lines if the notes lie on the beats of
        the score and bars are wide, else round numbers of seconds. A pick-up has no label."""
        length, beats = self.systems * self.system_seconds, self.score.beats
        bars = beats.bar_lines(float(beats.quarters(length)) + 1e-3)
        bar_width = length * self.second_width / max(len(bars), 1)
        # Bars from one label to the next.
        bar_step = next((n for n in (1, 2, 4, 8, 16, 32, 64) if n * bar_width >= LABEL_PIXELS), 0)
        if bar_step and grid_of(self.score).on_beats:
            return [
                (float(second), "" if n % bar_step or n < 0 else f"bar {n + 1}")
                for n, second in enumerate(beats.seconds(bars), -beats.pickup)
                if not n % bar_step or bar_width >= LINE_PIXELS
            ]
        steps = (0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800)
        step = next((n for n in steps if n * self.second_width >= LABEL_PIXELS), 3600)
        return [(n * step, _clock(n * step, length)) for n in range(int(length / step + 1e-9) + 1)]


@cache
def _font(size: float) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size)


def _part_colours(score: Score) -> dict[Part, Colour]:
    """Return a colour for each part, in the order of the tracks, drums last."""
    table = np.unique(score.notes[["track", "program", "drum"]]).tolist()
    parts = {(track, program * (not drum), drum) for track, program, drum in table}
    ordered = sorted(parts, key=lambda part: (part[2], part))
    return {p: DRUM_COLOUR if p[2] else PALETTE[i % len(PALETTE)] for i, p in enumerate(ordered)}


def _mix(first: Colour, second: Colour, share: float) -> Colour:
    """Mix two colours: ``share`` of ``second``, the rest of ``first``."""
    red, green, blue = (round(a + (b - a) * share) for a, b in zip(first, second))
    return red, green, blue


def _clock(seconds: float, duration: float) -> str:
    """Format a time in a piece of ``duration`` seconds: 2.5 s in a piece of less than a minute,
    0:02 in a piece of less than an hour, else 1:00:02."""
    if duration < 60:
        return f"{round(seconds, 1):g} s"
    text = str(timedelta(seconds=round(seconds)))
    return text if round(duration) >= 3600 else text.removeprefix("0:").removeprefix("0")


def _draw_header(pen: ImageDraw.ImageDraw, layout: Layout, title: str) -> None:
    """Draw the title, the number of notes, the length, and a legend of the parts."""
    width, score, parts = layout.size[0], layout.score, list(layout.colours)
    pen.text((LEFT, 30), " ".join(str(title).split())[:80], INK, _font(19), "ls")
    facts = f"{len(score):,} note{'' if len(score) == 1 else 's'}"
    facts = f"{facts} · {_clock(score.duration, score.duration)}"
    pen.text((LEFT, 48), facts, FAINT, _font(12.5), "ls")
    if len(parts) == 1:
        return
    x: float = width - RIGHT  # the legend runs from the right edge inwards
    names = part_names(parts, score.names)
    for part in reversed(parts[:8]):
        pen.text((x, 48), names[part], INK, _font(12.5), "rs")
        x -= pen.textlength(names[part], _font(12.5)) + 31
        pen.rectangle((x + 16, 39, x + 26, 48), layout.colours[part])


def _draw_system(
    layout: Layout, system: int, seam: float | None, gap_end: float | None
) -> Image.Image:
    """Draw the system with the number ``system``."""
    picture = Image.new("RGB", (layout.size[0], layout.system_height), PAPER)
    pen = ImageDraw.Draw(picture)
    bottom, right = layout.system_height - AXIS - GAP, LEFT + PLOT_WIDTH
    start, end = system * layout.system_seconds, (system + 1) * layout.system_seconds
    new_left, new_right = (
        round(layout.x(min(max(second, start), end), system))
        for second in (start if seam is None else seam, end if gap_end is None else gap_end)
    )
    _draw_rows(pen, layout, new_left, new_right)
    for second, label in layout.times:
        if start - 1e-9 <= second <= end + 1e-9:
            x = round(layout.x(second, system))
            pen.line((x, 0, x, bottom), LABELLED_LINE if label else FINE_LINE)
            if label:
                pen.line((x, bottom, x, bottom + 4), AXIS_LINE)
                pen.text((x, bottom + 7), label, FAINT, _font(11.5), "ma")
    pen.line((LEFT, bottom, right, bottom), AXIS_LINE)
    _draw_notes(pen, layout, system)
    labels = ("primer", "continuation") if gap_end is None else ("", "new")
    if seam is not None and start <= seam <= end:
        pen.line((new_left, 0, new_left, bottom), SEAM_COLOUR, 2)
        for text, anchor, x in zip(labels, ("rt", "lt"), (-6, 6)):
            pen.text((new_left + x, 5), text, SEAM_COLOUR, _font(11.5), anchor)
    if gap_end is not None and start <= gap_end <= end:
        pen.line((new_right, 0, new_right, bottom), SEAM_COLOUR, 2)
    if not len(layout.score):
        middle = (LEFT + right) / 2, layout.pitch_height / 2
        pen.text(middle, "no notes", FAINT, _font(16), "mm")
    return picture


def _draw_rows(pen: ImageDraw.ImageDraw, layout: Layout, new_left: float, new_right: float) -> None:
    """Draw the rows of pitches and drums, tinted left of ``new_left`` and right of ``new_right``,
    with the keyboard and the names of the drums on the left."""
    left, right, plot_right = LEFT - KEYBOARD - 2, LEFT - 2, LEFT + PLOT_WIDTH
    row = layout.row_height

    def stripe(top: int, height: int, *, dark: bool) -> None:
        bottom = top + height - 1
        pen.rectangle((LEFT, top, plot_right, bottom), PRIMER_ROWS[dark])
        pen.rectangle((new_left, top, new_right, bottom), ROWS[dark])

    for pitch in range(layout.low, layout.high + 1):
        top, is_black = layout.y(pitch), pitch % 12 in (1, 3, 6, 8, 10)
        middle, bottom = top + row // 2, top + row - 1
        stripe(top, row, dark=is_black)
        if is_black:
            pen.line((left, middle, right, middle), AXIS_LINE)
            pen.rectangle((left, top, left + KEYBOARD * 0.62, bottom), BLACK_KEY)
        elif pitch % 12 in (0, 5):  # C and F: no black key separates them from the key below
            pen.line((left, bottom, right, bottom), AXIS_LINE)
        if pitch % 12 == 0:
            pen.line((LEFT, bottom, plot_right, bottom), OCTAVE_LINE)
            pen.text((left - 5, middle), f"C{pitch // 12 - 1}", FAINT, _font(11.5), "rm")
    for x in (left, right):
        pen.line((x, 0, x, layout.pitch_height), AXIS_LINE)
    for number, pitch in enumerate(layout.drums):
        top = layout.y(pitch, drum=True)
        stripe(top, DRUM_ROW, dark=number % 2 == 1)
        name = DRUM_NAMES.get(pitch, f"drum {pitch}")
        pen.text((LEFT - 9, top + DRUM_ROW / 2), name, FAINT, _font(10), "rm")


def _draw_notes(pen: ImageDraw.ImageDraw, layout: Layout, system: int) -> None:
    """Draw the notes that sound in the system with the number ``system``."""
    system_start, system_end = (n * layout.system_seconds for n in (system, system + 1))
    notes = layout.score.notes[layout.score.notes["start"] < system_end]
    # Pitched notes continue in the next system; drum hits have no length.
    begins_here = notes["start"] >= system_start
    continues = (notes["end"] > system_start) & ~notes["drum"]
    notes = notes[begins_here | continues]
    for start, end, pitch, velocity, program, drum, track in notes.tolist():
        colour = layout.colours[track, program * (not drum), drum]
        # Louder notes are darker: from a light tint of the part's colour to a slightly darkened
        # one. Most velocities lie between 20 and 110, so the tints cover this range.
        strength = min(max((velocity - 20) / 90, 0.0), 1.0)
        fill = _mix(_mix(colour, PAPER, 0.7), _mix(colour, (0, 0, 0), 0.12), strength)
        edge = _mix(colour, (0, 0, 0), 0.1 + 0.3 * strength)
        left, top = layout.x(max(start, system_start), system), layout.y(pitch, drum)
        if drum:
            pen.regular_polygon((left, top + DRUM_ROW / 2, 5), 4, 45, fill, edge)
        else:
            right = layout.x(min(end, system_end), system)
            right = max(right - 1.5, left + 1)  # separates repeated notes, shows the shortest ones
            pen.rectangle((left, top, right, top + layout.row_height - 1), fill, edge)
