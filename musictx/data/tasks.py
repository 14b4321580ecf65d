"""Arrange windows of pieces as tasks, in which some notes are given and others are composed.

infill     a gap is composed; the music after it is given, and sometimes a voice in it
accompany  some voices are given from some point on, sometimes the chords, or chords alone
vary       some bars are composed as a variation of similar earlier bars, which are given
steer      only the controls are given

Controls are measured in the window itself, and some are left out. Tasks are different for events in
seconds (:class:`EventTasks`), with all given notes before the music, and for notes in bars
(:mod:`musictx.songs.bar_tasks`), with given notes before each bar.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator

from musictx.config.train import TASKS
from musictx.data.windows import UNSCORED, Row
from musictx.errors import UserError
from musictx.notes import DRUMS, Score, top_notes
from musictx.tokens import controls
from musictx.tokens import events as ev
from musictx.tokens.controls import CONTROLS
from musictx.tokens.stream import OPEN, NoteStream
from musictx.tokens.vocab import BOS, CUT, EOS, Vocabulary

#: The share of windows in which each control is left out; of gaps in which a voice is given; of
#: accompaniments that begin with their window.
DROPPED_SHARE, LOCKED_SHARE, FROM_THE_START_SHARE = 0.3, 0.3, 0.3


class Tasks:
    """Arranges windows as tasks, for a ``tokenizer`` with control tokens.

    weights  task -> share of the windows; the rest are plain windows
    melody   the program whose notes are given: in every accompaniment of events, in bars more often
             than other programs; "skyline": no program
    """

    #: The share of windows in which no control is given.
    no_controls_share: float

    def __init__(
        self, tokenizer: Any, weights: Mapping[str, float], melody: str = "skyline"
    ) -> None:
        self.tokenizer, self.weights = tokenizer, dict(weights)
        self.melody = int(melody) if melody.isdigit() else None
        self.vocabulary: Vocabulary = tokenizer.vocabulary

    def choice(self, random: Generator) -> str | None:
        """The task of a window, by the shares ``weights``, or None for a plain window."""
        point = random.random()
        for task in TASKS:
            point -= self.weights.get(task, 0.0)
            if point < 0:
                return task
        return None

    def row(
        self,
        task: str,
        ids: np.ndarray,
        random: Generator,
        *,
        begins: bool,
        ends: bool,
        budget: int,
        piece_id: int = 0,
    ) -> Row | None:
        """Arrange the window ``ids`` as a row of at most ``budget`` places; ``None`` if it does not
        suit the task.

        begins, ends  whether a piece begins or ends with the window

        Targets are the tokens of the music, neither controls nor given notes before the music.
        """
        arranged = self.arranged(task, ids, random, begins, ends, budget)
        if arranged is None:
            return None
        sequence, scored = arranged
        targets = np.where(scored, sequence, UNSCORED)[1:]
        return Row(sequence[:-1], targets, np.full(len(targets), piece_id, np.int64))

    def arranged(
        self, task: str, ids: np.ndarray, random: Generator, begins: bool, ends: bool, budget: int
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """(n,) int64 ids of the whole window, and (n,) bool whether each is a target; ``None`` if
        the window does not suit the task."""
        raise NotImplementedError

    def _levels(self, music: Score, seconds: float, random: Generator) -> list[int]:
        """The levels of the controls of ``music``, of which some are left out (0)."""
        levels = controls.levels(controls.measured(music.notes, seconds))
        dropped = random.random(len(levels)) < DROPPED_SHARE
        if random.random() < self.no_controls_share:
            dropped[:] = True
        return np.where(dropped, 0, levels).tolist()


def draw_length(bounds: tuple[float, float], random: Generator) -> float:
    """A random length within ``bounds``; its logarithm is uniform."""
    return float(np.exp(random.uniform(*np.log(bounds))))


def draw_begin(size: int, random: Generator, *, inside: bool = False) -> int:
    """Where an accompaniment begins in a window of ``size`` steps or bars: at its beginning, unless
    ``inside``, or somewhere in its first half."""
    at_start = random.random() < FROM_THE_START_SHARE and not inside
    return 0 if at_start else int(random.integers(size // 2 + 1))


def draw_voice(
    notes: np.ndarray,
    among: np.ndarray,
    stop: np.ndarray,
    skyline_share: float,
    random: Generator,
) -> np.ndarray:
    """(n,) bool: a random voice of the pitched notes ``among`` (n,) bool: the skyline, or the notes
    above or below a random pitch. ``stop`` (n,) are the ends of the notes."""
    if not among.any():
        return among
    voice = np.zeros(len(notes), bool)
    if random.random() < skyline_share:
        candidates = notes[among]
        voice[among] = top_notes(candidates["start"], stop[among], candidates["pitch"])
        return voice
    limit = np.quantile(notes["pitch"][among], random.uniform(0.25, 0.75))
    above = notes["pitch"] >= limit
    voice[among] = (above if random.random() < 0.5 else ~above)[among]
    return voice


# ------------------------------------------------------------------------------- events in seconds

#: Shortest and longest gap in seconds; the most seconds of the window after a gap; the latest end
#: of a gap, as a share of the window.
GAP_SECONDS, TAIL_SECONDS, LATEST_SHARE = (1.0, 12.0), 4.0, 0.85
#: The share of voices that are the highest notes and, if there are several programs, the share of
#: voices that are one program.
SKYLINE_SHARE, PROGRAM_SHARE = 0.5, 0.7
#: Shorter windows, and windows with fewer given tokens, are left plain.
FEWEST_TOKENS, FEWEST_GIVEN_TOKENS = 96, 8
#: Deadpan music: tempi in quarter notes a minute; grid lines in a quarter note; its velocity, as a
#: share of the bins; its share of the window in steer.
TEMPI_BPM, LINES_OF_A_QUARTER = (60.0, 160.0), 4
VELOCITY_SHARES, PRIMER_SHARES = (0.4, 0.8), (0.1, 0.6)


class EventSpan(NamedTuple):
    """The part of a window that is composed.

    stop   the last step of the window that is used
    here   the step from which on music is composed; None: all of it
    given  (n,) bool, whether a note is given; None: no note is given
    """

    stop: int
    here: int | None = None
    given: np.ndarray | None = None


class EventTasks(Tasks):
    """Tasks of events in seconds, in the windows of :mod:`musictx.tokens.controls`."""

    no_controls_share = 0.15
    #: The share of windows whose past is deadpan: with one velocity and on a grid, as in a score.
    #: It is read but is not a target; the notes to compose are not changed.
    deadpan_share = 0.15

    def __init__(
        self, tokenizer: Any, weights: Mapping[str, float], melody: str = "skyline"
    ) -> None:
        super().__init__(tokenizer, weights, melody)
        if weights.get("vary"):
            raise UserError(
                f"data.tasks={self.weights}: vary is for music in bars, expected tokenizer=notes"
            )
        self.per_second = 1000.0 / tokenizer.step_ms
        kinds = self.vocabulary.kinds
        self._controls = np.array([kinds.index(kind) for kind in controls.CONTROL_KINDS])

    def arranged(
        self, task: str, ids: np.ndarray, random: Generator, begins: bool, ends: bool, budget: int
    ) -> tuple[np.ndarray, np.ndarray] | None:
        room = budget - controls.IDS_AROUND
        if room < FEWEST_TOKENS or len(ids) < FEWEST_TOKENS:
            return None
        window, write = self.tokenizer.read(ids[:room]), self.tokenizer.write
        deadpan, infill = random.random() < self.deadpan_share, task == "infill"
        span: EventSpan | None = EventSpan(window.stop)
        if infill:
            span = self._infill(window, random)
        elif task == "accompany":
            span = self._accompany(window, random, room, deadpan)
        elif deadpan:
            span = EventSpan(window.stop, int(random.uniform(*PRIMER_SHARES) * window.stop))
        if span is None:
            return None
        stop, here, given = span
        music = _up_to(window, 0, stop)
        decoded = self.tokenizer.decode(write(music))
        levels = self._levels(decoded, stop / self.per_second, random)
        read = self.as_deadpan(window, here or 0, random) if deadpan else window
        past = music if here is None else read.in_steps(0, here)
        rest = None if here is None else write(_up_to(window, here, stop), past)
        given_ids = None
        if given is not None:
            # Around a gap, the ends of notes that began before the window are given, too.
            source = read if infill else window._replace(ends=window.ends[:0])
            last = None if infill else stop + 1
            ahead = source._replace(notes=source.notes[given]).in_steps(here or 0, last)
            given_ids = write(ahead._replace(stop=0))
        made = controls.build_window(
            self.vocabulary, levels, write(past), rest, given_ids, budget=budget - 2
        )
        fewest = len(CONTROLS) + 2 + FEWEST_GIVEN_TOKENS
        if given is not None and len(made.prefix) < fewest:
            return None
        closes = ends and not infill and stop == window.stop and len(ids) <= room
        sequence = np.concatenate([[BOS if begins else CUT], *made, np.full(int(closes), EOS)])
        scored = ~np.isin(self.vocabulary.kind_of[sequence], self._controls)
        if deadpan:
            first = 1 + len(made.prefix)
            scored[(1 if infill else first) : first + len(made.past)] = False
        return sequence, scored

    def _infill(self, window: NoteStream, random: Generator) -> EventSpan | None:
        start = window.notes["start"]
        length = draw_length(GAP_SECONDS, random) * self.per_second
        length = int(min(length, 0.6 * window.stop))
        here = int(random.integers(max(int(LATEST_SHARE * window.stop) - length, 0) + 1))
        new = (start >= here) & (start < here + length)
        if random.random() < LOCKED_SHARE:
            new &= ~self._voice(window, random)
        if not new.any():
            return None
        stop = max(here + length, int(window.note_ends[new].max()))
        stop = min(stop, here + length + int(TAIL_SECONDS * self.per_second), window.stop)
        return EventSpan(stop, here, ~new)

    def _accompany(
        self, window: NoteStream, random: Generator, room: int, deadpan: bool
    ) -> EventSpan | None:
        here = draw_begin(window.stop, random, inside=deadpan)
        voice = self._voice(window, random)
        stop = self._fitting(window, voice, here, room)
        return None if stop <= here else EventSpan(stop, here, voice)

    def _fitting(self, window: NoteStream, voice: np.ndarray, here: int, room: int) -> int:
        """The latest step up to which the tokens of the window and, from ``here`` on, those of the
        voice fit into ``room``."""
        events = ev.events_of(window)
        given = ev.events_of(NoteStream(notes=window.notes[voice]))
        both = events, given[given["step"] >= here]

        def size(stop: int) -> int:
            return sum(len(ev.write(e[e["step"] <= stop], self.vocabulary)) for e in both)

        steps = np.unique(events["step"])
        fitting = bisect_right(steps, room, key=size)
        return int(steps[fitting - 1]) if fitting else 0

    def _voice(self, window: NoteStream, random: Generator) -> np.ndarray:
        """(n,) bool: the notes of one voice."""
        notes = window.notes
        pitched = notes["part"] != DRUMS
        parts = np.unique(notes["part"][pitched])
        if self.melody is not None:
            return pitched & (notes["part"] == self.melody)
        if len(parts) > 1 and random.random() < PROGRAM_SHARE:
            return pitched & (notes["part"] == random.choice(parts))
        return draw_voice(notes, pitched, window.note_ends, SKYLINE_SHARE, random)

    def as_deadpan(self, window: NoteStream, here: int, random: Generator) -> NoteStream:
        """Make ``window`` deadpan: quantise it to a grid of a random tempo, with one velocity. Each
        start and end of a note stays on its side of the step ``here``."""
        line = self.per_second * 60.0 / random.uniform(*TEMPI_BPM) / LINES_OF_A_QUARTER

        def on_grid(steps: np.ndarray) -> np.ndarray:
            near = np.floor(np.round(steps / line) * line + 0.5).astype(np.int64)
            # A note lasts at least a step on the side of its end.
            before = np.minimum(near, max(here - 2, 0))
            return np.where(steps < here, before, np.maximum(near, here))

        notes, ends = window.notes.copy(), window.ends.copy()
        is_open = notes["length"] == OPEN
        notes["start"] = on_grid(notes["start"])
        length = on_grid(window.note_ends) - notes["start"]
        notes["length"] = np.where(is_open, OPEN, np.maximum(length, 1))
        ends["stop"] = on_grid(ends["stop"])
        first, stop = self.vocabulary.range("velocity")
        notes["velocity_bin"] = 1 + int(random.uniform(*VELOCITY_SHARES) * (stop - first))
        return window._replace(notes=notes, ends=ends)


def _up_to(window: NoteStream, first: int, stop: int) -> NoteStream:
    """The window from the step ``first`` to ``stop``, both included."""
    return window.in_steps(first, stop + 1)._replace(stop=stop - first)
