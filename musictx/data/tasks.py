"""Windows of pieces arranged as tasks: which notes are given, which are to be composed.

The windows of :mod:`musictx.data.layout` for three tasks:

infill     a span of some seconds is composed; what comes after it is given, and the ends of the
           notes that sound at its beginning. M lasts until the notes of the span have ended.
accompany  one voice is given, over all of M
steer      only the controls are given, and there is no ``here``

In infill one voice of the span may be given as well, as if its track were locked. Controls are
measured in the window itself and left out part of the time. In some windows P is read as a score
would have it, of one loudness and on a grid, and so is K in infill, while M stays as it was played.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from musictx.data import layout
from musictx.data.windows import UNSCORED, Row
from musictx.tokens import controls
from musictx.tokens import events as ev
from musictx.tokens.vocab import BOS, CUT, EOS, Vocabulary

#: The share of windows in which no control is given; in the others, of each that is not.
NO_CONTROLS_SHARE, DROPPED_SHARE = 0.15, 0.3
#: Infill, seconds: shortest and longest span, and how long M goes on after it at most; the share of
#: spans in which a voice is locked; where spans end at the latest, as a share of the window.
GAP_SECONDS, TAIL_SECONDS, LOCKED_SHARE, LATEST_SHARE = (1.0, 12.0), 4.0, 0.3, 0.85
#: The share of accompaniments from the beginning of their window; of voices that are the highest
#: notes, and, where there are several programs, those of one program.
FROM_THE_START_SHARE, SKYLINE_SHARE, PROGRAM_SHARE = 0.3, 0.5, 0.7
#: Windows of fewer tokens are left plain, and so are those whose K would have fewer.
FEWEST_TOKENS, FEWEST_KNOWN_TOKENS = 96, 8
#: Of windows arranged for training, the share whose past has one loudness and lies on a grid, as a
#: score does; that past is read but is no target.
FLAT_SHARE = 0.15
#: Of music as a score has it: tempi, quarter notes a minute; lines in a quarter; its one velocity,
#: as a share of the bins; how much of the window it is in steer.
TEMPI_BPM, LINES_OF_A_QUARTER = (60.0, 160.0), 4
VELOCITY_SHARES, PRIMER_SHARES = (0.4, 0.8), (0.1, 0.6)


class EventWindow(NamedTuple):
    """Music as events in order. ``owner`` (n,): the index of the strike that each event is or ends,
    -1 for the release of an older note; ``last``: the step at which the window ends."""

    events: np.ndarray
    owner: np.ndarray
    last: int

    @classmethod
    def of(cls, ids: np.ndarray, vocabulary: Vocabulary) -> EventWindow:
        events, last = ev.read(ev.as_ids(ids, vocabulary), vocabulary)
        partner, astray = ev.pair(events)
        owner = np.arange(len(events))
        ended = np.flatnonzero(partner >= 0)
        owner[partner[ended]] = ended
        owner[astray] = -1
        return cls(events, owner, last)

    @property
    def strikes(self) -> np.ndarray:
        """(n,) bool: the strikes of pitches and drums."""
        return ev.struck(self.events)

    def of_notes(self, strikes: np.ndarray) -> np.ndarray:
        """(n,) bool: the events of the notes whose ``strikes`` (n,) are marked."""
        return (self.owner >= 0) & strikes[self.owner]

    def ends(self) -> np.ndarray:
        """(n,) the step at which the note of each strike ends; of an open one ``last``."""
        ends = np.full(len(self.events), self.last)
        releases = np.flatnonzero((self.events["what"] == ev.OFF) & (self.owner >= 0))
        ends[self.owner[releases]] = self.events["step"][releases]
        return ends


class Arranged(NamedTuple):
    """The part of a window that is used, up to the step ``stop``; where ``here`` stands, None if
    nowhere; which events (n,) are given in K, None if no K is written."""

    stop: int
    here: int | None = None
    given: np.ndarray | None = None


class Tasks:
    """Arranges windows for the tokens of ``tokenizer``, which has control tokens.

    weights  task -> share of the windows; the others are plain
    melody   the voice given in accompany: "skyline" (the highest notes, or those above or below a
             random pitch, or of a random program), or the number of a program
    flat     share of the windows whose P is read as in a score
    """

    def __init__(
        self,
        tokenizer: Any,
        weights: Mapping[str, float],
        melody: str = "skyline",
        flat: float = 0,
    ) -> None:
        self.tokenizer = tokenizer
        self.vocabulary: Vocabulary = tokenizer.vocabulary
        self.weights, self.melody, self.flat = dict(weights), melody, flat
        self.per_second = 1000.0 / tokenizer.step_ms
        kinds = self.vocabulary.kinds
        self._controls = np.array([kinds.index(kind) for kind in controls.CONTROL_KINDS])

    def row(
        self,
        task: str,
        ids: np.ndarray,
        random: np.random.Generator,
        *,
        begins: bool,
        ends: bool,
        free: int,
        piece_id: int = 0,
    ) -> Row | None:
        """The window ``ids`` as a row of at most ``free`` places; None where it does not suit.

        begins  a piece begins with it;  ends  a piece ends with it

        Targets are all tokens but controls, marks and what is read as in a score.
        """
        room = free - layout.IDS_AROUND
        if room < FEWEST_TOKENS or len(ids) < FEWEST_TOKENS:
            return None
        window = EventWindow.of(ids[:room], self.vocabulary)
        flat = random.random() < self.flat
        arranged = self.arrange(task, window, random, room, flat=flat)
        if arranged is None:
            return None
        stop, here, given = arranged
        events, step = window.events, window.events["step"]
        inside = step <= stop
        levels = self._levels(events[inside], stop, random)
        before = inside if here is None else step < here
        as_read = as_score(window, here or 0, random, self) if flat else window.events
        ahead = as_read if task == "infill" else events
        made = layout.parts(
            self.vocabulary,
            levels,
            ev.ordered(as_read[before]),
            events[inside & ~before],
            stop=stop,
            here=here,
            known=None if given is None else ev.ordered(ahead[given]),
            free=free - 2,
        )
        if given is not None and len(made.front) < len(controls.CONTROLS) + 2 + FEWEST_KNOWN_TOKENS:
            return None
        closing = ends and task != "infill" and stop == window.last and len(ids) <= room
        closed = np.full(int(closing), EOS)
        sequence = np.concatenate([[BOS if begins else CUT], *made, closed])
        scored = ~np.isin(self.vocabulary.kind_of[sequence], self._controls)
        if flat:
            first = 1 + len(made.front)
            scored[(1 if task == "infill" else first) : first + len(made.past)] = False
        targets = np.where(scored, sequence, UNSCORED)[1:]
        return Row(sequence[:-1], targets, np.full(len(targets), piece_id, np.int64))

    def arrange(
        self,
        task: str,
        window: EventWindow,
        random: np.random.Generator,
        room: int,
        *,
        flat: bool = False,
    ) -> Arranged | None:
        """Where ``here`` stands, which events are given; None where the window is not suitable."""
        by_task = {"infill": self._infill, "accompany": self._accompany}
        return by_task.get(task, self._steer)(window, random, room, flat)

    def _infill(
        self, window: EventWindow, random: np.random.Generator, room: int, flat: bool
    ) -> Arranged | None:
        step = window.events["step"]
        length = np.exp(random.uniform(*np.log(GAP_SECONDS))) * self.per_second
        length = int(min(length, 0.6 * window.last))
        here = int(random.integers(max(int(LATEST_SHARE * window.last) - length, 0) + 1))
        span = window.strikes & (step >= here) & (step < here + length)
        if random.random() < LOCKED_SHARE:
            span &= ~self._voice(window, random)
        if not span.any():
            return None
        stop = max(here + length, int(window.ends()[span].max()))
        stop = min(stop, here + length + int(TAIL_SECONDS * self.per_second), window.last)
        return Arranged(stop, here, (step >= here) & ~window.of_notes(span))

    def _accompany(
        self, window: EventWindow, random: np.random.Generator, room: int, flat: bool
    ) -> Arranged | None:
        step = window.events["step"]
        from_the_start = random.random() < FROM_THE_START_SHARE and not flat
        here = 0 if from_the_start else int(random.integers(window.last // 2 + 1))
        given = window.of_notes(self._voice(window, random)) & (step >= here)
        stop = self._fitting(window.events, given, room)
        if stop <= here:
            return None
        return Arranged(stop, here, given & (step <= stop))

    def _steer(
        self, window: EventWindow, random: np.random.Generator, room: int, flat: bool
    ) -> Arranged | None:
        return Arranged(
            window.last, int(random.uniform(*PRIMER_SHARES) * window.last) if flat else None
        )

    def _fitting(self, events: np.ndarray, given: np.ndarray, room: int) -> int:
        """The latest step up to which the stream and its ``given`` events have ``room``."""

        def size(stop: int) -> int:
            inside = events["step"] <= stop
            both = (events[inside], events[inside & given])
            return sum(len(ev.write(one, self.vocabulary)) for one in both)

        steps = np.unique(events["step"])
        low, high = 0, len(steps)  # the first ``low`` of them fit
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if size(steps[middle - 1]) <= room else (low, middle - 1)
        return int(steps[low - 1]) if low else 0

    def _voice(self, window: EventWindow, random: np.random.Generator) -> np.ndarray:
        """(n,) bool: the strikes of one voice."""
        events = window.events
        notes = events["what"] == ev.ON
        programs = np.unique(events["program"][notes])
        if self.melody != "skyline":
            return notes & (events["program"] == int(self.melody))
        if len(programs) > 1 and random.random() < PROGRAM_SHARE:
            return notes & (events["program"] == random.choice(programs))
        if random.random() < SKYLINE_SHARE:
            return skyline(window)
        if not notes.any():
            return notes
        limit = np.quantile(events["pitch"][notes], random.uniform(0.25, 0.75))
        above = events["pitch"] >= limit
        return notes & (above if random.random() < 0.5 else ~above)

    def _levels(self, events: np.ndarray, stop: int, random: np.random.Generator) -> list[int]:
        """The levels of the controls of a stream, some of them left out."""
        notes = self.tokenizer.decode(ev.write(events, self.vocabulary, stop)).notes
        levels = controls.levels(controls.measured(notes, stop / self.per_second))
        dropped = random.random(len(levels)) < DROPPED_SHARE
        if random.random() < NO_CONTROLS_SHARE:
            dropped[:] = True
        return np.where(dropped, 0, levels).tolist()


def skyline(window: EventWindow) -> np.ndarray:
    """(n,) bool: the strikes of notes above which none sounds when they begin."""
    notes = np.flatnonzero(window.events["what"] == ev.ON)
    step, pitch = window.events["step"][notes], window.events["pitch"][notes]
    sounds = (step[:, None] <= step) & (window.ends()[notes][:, None] > step)  # (which, when)
    highest = ~(sounds & (pitch[:, None] > pitch)).any(0)
    highest_strikes = np.zeros(len(window.events), bool)
    highest_strikes[notes[highest]] = True
    return highest_strikes


def as_score(
    window: EventWindow, here: int, random: np.random.Generator, tasks: Tasks
) -> np.ndarray:
    """The events of ``window`` on a grid of a random tempo and of one loudness, each on its side of
    the step ``here``; in the order in which they came."""
    events = window.events.copy()
    line = tasks.per_second * 60.0 / random.uniform(*TEMPI_BPM) / LINES_OF_A_QUARTER
    step = np.floor(np.round(events["step"] / line) * line + 0.5).astype(np.int64)
    before, released = events["step"] < here, events["what"] == ev.OFF
    # A note lasts a step at least, on whichever side it ends.
    step = np.where(before, np.minimum(step, max(here - 2, 0)), np.maximum(step, here))
    owned = released & (window.owner >= 0)
    step[owned] = np.maximum(step[owned], step[window.owner[owned]] + 1)
    events["step"] = step
    events["order"][owned] = events["order"][window.owner[owned]]
    events["order"][released & ~owned] -= len(events) * 4
    first, stop = tasks.vocabulary.range("velocity")
    share = random.uniform(*VELOCITY_SHARES)
    events["bin"][~released] = 1 + int(share * (stop - first))
    return events
