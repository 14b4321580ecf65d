"""Arrange windows of pieces as tasks, in which some notes are given and others are composed.

infill     a gap is composed; the music after it is given, and sometimes a voice in it
accompany  some voices are given from some point on; with bar tokens also chords, or only chords
vary       some bars are composed as a variation of similar earlier bars, which are given
steer      only the controls are given

Controls are measured in the window itself, and some are left out. In windows of event tokens
(:class:`EventTasks`) all given notes precede the music; in windows of bar tokens
(:mod:`musictx.songs.bar_tasks`) some precede each bar.
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

#: The share of windows in which each control is left out.
DROPPED_SHARE = 0.3
#: The share of gaps in which a voice is given.
GIVEN_VOICE_SHARE = 0.3
#: The least share of accompaniments that begin with their window (see :func:`draw_begin`).
FROM_THE_START_SHARE = 0.3


class Tasks:
    """Arranges windows as tasks, for a ``tokenizer`` with control tokens.

    weights  task -> share of the windows; the rest are plain windows
    melody   the program of the given voice: always with event tokens, more often than other
             programs with bar tokens; "skyline": no program is preferred
    """

    #: The share of windows in which all controls are left out.
    no_controls_share: float
    #: The fewest tokens of a row that can have a task.
    fewest_ids: int

    def __init__(
        self, tokenizer: Any, weights: Mapping[str, float], melody: str = "skyline"
    ) -> None:
        self.tokenizer, self.weights = tokenizer, dict(weights)
        self.melody = int(melody) if melody.isdigit() else None
        self.vocabulary: Vocabulary = tokenizer.vocabulary

    def draw_task(self, random: Generator) -> str | None:
        """Draw the task of a window with the probabilities ``weights``; None for a plain window."""
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
        """Arrange the window ``ids`` as a row of at most ``budget`` tokens; ``None`` if it does not
        suit the task.

        begins, ends  whether a piece begins or ends with the window

        Controls and marks are not targets. Given notes are targets with event tokens, unless they
        are deadpan (:attr:`EventTasks.deadpan_share`), but not with bar tokens.
        """
        arrangement = self.arrange(task, ids, random, begins, ends, budget)
        if arrangement is None:
            return None
        sequence, scored = arrangement
        targets = np.where(scored, sequence, UNSCORED)[1:]
        return Row(sequence[:-1], targets, np.full(len(targets), piece_id, np.int64))

    def arrange(
        self, task: str, ids: np.ndarray, random: Generator, begins: bool, ends: bool, budget: int
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """The ids of the arranged window, (n,) int64, and whether each is a target, (n,) bool;
        ``None`` if the window does not suit the task."""
        raise NotImplementedError

    def _levels(self, music: Score, seconds: float, random: Generator) -> list[int]:
        """The level of each control in ``music``; 0 for controls that are left out at random."""
        levels = controls.control_levels(controls.measure_controls(music.notes, seconds))
        is_dropped = random.random(len(levels)) < DROPPED_SHARE
        if random.random() < self.no_controls_share:
            is_dropped[:] = True
        return np.where(is_dropped, 0, levels).tolist()


def draw_length(bounds: tuple[float, float], random: Generator) -> float:
    """Draw a length within ``bounds`` whose logarithm is uniform."""
    return float(np.exp(random.uniform(*np.log(bounds))))


def draw_begin(size: int, random: Generator, *, favour_start: bool = True) -> int:
    """Draw the step or bar at which an accompaniment begins in a window of ``size`` steps or bars.
    With ``favour_start``, it is 0 with the probability :data:`FROM_THE_START_SHARE`. Otherwise it
    is uniform from 0 to ``size // 2``."""
    at_start = random.random() < FROM_THE_START_SHARE and favour_start
    return 0 if at_start else int(random.integers(size // 2 + 1))


def draw_voice(
    notes: np.ndarray, mask: np.ndarray, ends: np.ndarray, skyline_share: float, random: Generator
) -> np.ndarray:
    """Draw a voice among the pitched notes ``notes[mask]``: their skyline, or the notes above or
    below a random pitch. Returns (n,) bool; ``ends`` (n,) are the ends of ``notes``."""
    if not mask.any():
        return mask
    if random.random() < skyline_share:
        voice, candidates = np.zeros(len(notes), bool), notes[mask]
        voice[mask] = top_notes(candidates["start"], ends[mask], candidates["pitch"])
        return voice
    limit = np.quantile(notes["pitch"][mask], random.uniform(0.25, 0.75))
    above = notes["pitch"] >= limit
    return mask & (above if random.random() < 0.5 else ~above)


# ------------------------------------------------------------------------------- events in seconds

#: The shortest and the longest gap in seconds; the longest as a share of the window.
GAP_SECONDS, GAP_SHARE = (1.0, 12.0), 0.6
#: The latest end of a gap as a share of the window; the most seconds of the window after a gap.
LATEST_SHARE, TAIL_SECONDS = 0.85, 4.0
#: If there are several programs, the share of voices that are one program. Of the other voices, the
#: share that are the highest notes.
PROGRAM_SHARE, SKYLINE_SHARE = 0.7, 0.5
#: The fewest tokens, and the fewest given tokens, of a window with a task.
FEWEST_TOKENS, FEWEST_GIVEN_TOKENS = 96, 8
#: Deadpan music: the range of tempi in quarter notes per minute, and grid lines per quarter note.
TEMPI_BPM, LINES_PER_QUARTER = (60.0, 160.0), 4
#: Deadpan music: the ranges of its velocity, as shares of the bins, and of its length in the task
#: steer, as shares of the window.
DEADPAN_VELOCITIES, DEADPAN_LENGTHS = (0.4, 0.8), (0.1, 0.6)


class EventSpan(NamedTuple):
    """The part of a window that is composed.

    stop   the last step of the window that is used
    here   the step at which composing begins; None: everything is composed
    given  (n,) bool, whether each note is given; None: no note is given
    """

    stop: int
    here: int | None = None
    given: np.ndarray | None = None


class EventTasks(Tasks):
    """Tasks for event tokens; :mod:`musictx.tokens.controls` defines the order of a window."""

    no_controls_share = 0.15
    #: The share of windows whose notes before ``here``, and given notes around a gap, are deadpan:
    #: on a grid and with one velocity, as in a score. Deadpan notes are inputs but not targets; the
    #: notes to compose are not changed.
    deadpan_share = 0.15
    fewest_ids = FEWEST_TOKENS + controls.IDS_AROUND

    def __init__(
        self, tokenizer: Any, weights: Mapping[str, float], melody: str = "skyline"
    ) -> None:
        super().__init__(tokenizer, weights, melody)
        if weights.get("vary"):
            raise UserError(
                f"data.tasks={self.weights}: vary needs music in bars; expected tokenizer=notes"
            )
        self.per_second = 1000.0 / tokenizer.step_ms
        kinds = self.vocabulary.kinds
        self._control_kinds = np.array([kinds.index(kind) for kind in controls.CONTROL_KINDS])

    def arrange(
        self, task: str, ids: np.ndarray, random: Generator, begins: bool, ends: bool, budget: int
    ) -> tuple[np.ndarray, np.ndarray] | None:
        room = budget - controls.IDS_AROUND
        if budget < self.fewest_ids or len(ids) < FEWEST_TOKENS:
            return None
        window, write = self.tokenizer.read(ids[:room]), self.tokenizer.write
        is_deadpan, is_infill = random.random() < self.deadpan_share, task == "infill"
        span: EventSpan | None = EventSpan(window.stop)
        if is_infill:
            span = self._infill(window, random)
        elif task == "accompany":
            span = self._accompany(window, random, room, is_deadpan)
        elif is_deadpan:
            span = EventSpan(window.stop, int(random.uniform(*DEADPAN_LENGTHS) * window.stop))
        if span is None:
            return None
        stop, here, given = span
        music = _between(window, 0, stop)
        decoded = self.tokenizer.decode(write(music))
        levels = self._levels(decoded, stop / self.per_second, random)
        source = self.as_deadpan(window, here or 0, random) if is_deadpan else window
        past = music if here is None else source.in_steps(0, here)
        rest = None if here is None else write(_between(window, here, stop), past)
        given_ids = None
        if given is not None:
            # Around a gap, the ends of notes that began before the window are given, too.
            given_source = source if is_infill else window._replace(ends=window.ends[:0])
            last = None if is_infill else stop + 1
            ahead = given_source._replace(notes=given_source.notes[given]).in_steps(here or 0, last)
            given_ids = write(ahead._replace(stop=0))  # stop=0: no silence after the last note
        parts = controls.build_window(
            self.vocabulary, levels, write(past), rest, given_ids, budget=budget - 2
        )  # 2: bos and eos
        fewest = len(CONTROLS) + 2 + FEWEST_GIVEN_TOKENS  # 2: the marks known and stream
        if given is not None and len(parts.prefix) < fewest:
            return None
        has_eos = ends and not is_infill and stop == window.stop and len(ids) <= room
        sequence = np.concatenate([[BOS if begins else CUT], *parts, np.full(int(has_eos), EOS)])
        scored = ~np.isin(self.vocabulary.kind_of[sequence], self._control_kinds)
        if is_deadpan:
            first = 1 + len(parts.prefix)
            scored[(1 if is_infill else first) : first + len(parts.past)] = False
        return sequence, scored

    def _infill(self, window: NoteStream, random: Generator) -> EventSpan | None:
        """Draw a gap, and sometimes a given voice in it; None if no note has to be composed."""
        start = window.notes["start"]
        length = draw_length(GAP_SECONDS, random) * self.per_second
        length = int(min(length, GAP_SHARE * window.stop))
        here = int(random.integers(max(int(LATEST_SHARE * window.stop) - length, 0) + 1))
        new = (start >= here) & (start < here + length)
        if random.random() < GIVEN_VOICE_SHARE:
            new &= ~self._voice(window, random)
        if not new.any():
            return None
        stop = max(here + length, int(window.note_ends[new].max()))
        stop = min(stop, here + length + int(TAIL_SECONDS * self.per_second), window.stop)
        return EventSpan(stop, here, ~new)

    def _accompany(
        self, window: NoteStream, random: Generator, room: int, is_deadpan: bool
    ) -> EventSpan | None:
        """Draw a given voice and the step at which it begins; None if the budget ends before it."""
        here = draw_begin(window.stop, random, favour_start=not is_deadpan)
        voice = self._voice(window, random)
        stop = self._latest_step(window, voice, here, room)
        return None if stop <= here else EventSpan(stop, here, voice)

    def _latest_step(self, window: NoteStream, voice: np.ndarray, here: int, room: int) -> int:
        """The latest step up to which the tokens of the window, and those of the voice from
        ``here`` on, together fit into ``room`` tokens; 0 if not even the first event fits."""
        events = ev.stream_events(window)
        given = ev.stream_events(NoteStream(notes=window.notes[voice]))
        tables = events, given[given["step"] >= here]

        def size(stop: int) -> int:
            return sum(len(ev.to_ids(e[e["step"] <= stop], self.vocabulary)) for e in tables)

        steps = np.unique(events["step"])
        count = bisect_right(steps, room, key=size)
        return int(steps[count - 1]) if count else 0

    def _voice(self, window: NoteStream, random: Generator) -> np.ndarray:
        """Draw a voice among the pitched notes: (n,) bool."""
        notes = window.notes
        pitched = notes["part"] != DRUMS
        parts = np.unique(notes["part"][pitched])
        if self.melody is not None:
            return pitched & (notes["part"] == self.melody)
        if len(parts) > 1 and random.random() < PROGRAM_SHARE:
            return pitched & (notes["part"] == random.choice(parts))
        return draw_voice(notes, pitched, window.note_ends, SKYLINE_SHARE, random)

    def as_deadpan(self, window: NoteStream, here: int, random: Generator) -> NoteStream:
        """Make ``window`` deadpan: quantise it to a grid of a random tempo, with one velocity.
        Starts and ends of notes before the step ``here`` stay before it, others stay after it."""
        interval = self.per_second * 60.0 / random.uniform(*TEMPI_BPM) / LINES_PER_QUARTER

        def on_grid(steps: np.ndarray) -> np.ndarray:
            nearest = np.floor(np.round(steps / interval) * interval + 0.5).astype(np.int64)
            # here - 2: a note of no steps is lengthened to one and must still end before ``here``.
            earlier = np.minimum(nearest, max(here - 2, 0))
            return np.where(steps < here, earlier, np.maximum(nearest, here))

        notes, ends = window.notes.copy(), window.ends.copy()
        is_open = notes["length"] == OPEN
        notes["start"] = on_grid(notes["start"])
        length = on_grid(window.note_ends) - notes["start"]
        notes["length"] = np.where(is_open, OPEN, np.maximum(length, 1))
        ends["stop"] = on_grid(ends["stop"])
        first, stop = self.vocabulary.range("velocity")
        notes["velocity_bin"] = 1 + int(random.uniform(*DEADPAN_VELOCITIES) * (stop - first))
        return window._replace(notes=notes, ends=ends)


def _between(window: NoteStream, first: int, stop: int) -> NoteStream:
    """The window from the step ``first`` to ``stop``, inclusive; steps count from ``first``."""
    return window.in_steps(first, stop + 1)._replace(stop=stop - first)
