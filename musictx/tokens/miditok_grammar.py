"""What may follow in a half-written MidiTok piece: its own graph of token types, and a clock.

MidiTok states which *types* of token may follow which. To that we add what a player needs: a
release only of what sounds, positions only forward within a bar, and an end only after a whole
note. Softer than the performance grammar: where all of these together would leave nothing, the
graph alone decides, and a prefix is taken as it comes, since MidiTok's graph does not know every
option of MidiTok.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field

import numpy as np

from musictx.tokens.sounding import DRUM, SoundingState
from musictx.tokens.vocab import BOS, CUT, EOS, SPECIALS

STRIKES = ("Pitch", "PitchDrum", "NoteOn", "DrumOn")
RELEASE_OF = {"NoteOn": "NoteOff", "DrumOn": "DrumOff"}
#: What a note consists of besides its strike; a piece cannot end before these.
_ATTRIBUTES = frozenset({"Velocity", "Duration"})
_NOTE_PARTS = _ATTRIBUTES | {*STRIKES, *RELEASE_OF.values()}
_OFFSET = len(SPECIALS)


@dataclass(frozen=True)
class TypeTable:
    """What all states of one tokenizer share.

    tokens      MidiTok's tokens in the order of our ids, as (type, value), without special ones
    graph       type -> types that may follow
    first       types that open a piece
    positions   positions in a beat;  default_bpm  tempo where none is written
    released    programs whose notes have an end, by duration or release (-1 = drums)
    every_note_ends  these are all programs
    """

    tokens: Sequence[tuple[str, str]]
    graph: Mapping[str, Set[str]]
    first: Set[str]
    positions: int
    default_bpm: float
    released: Set[int]
    every_note_ends: bool
    ids: dict[str, np.ndarray] = field(init=False)
    after: dict[str, np.ndarray] = field(init=False)
    whole: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        kinds = np.array([kind for kind, _ in self.tokens])
        ids = {kind: np.flatnonzero(kinds == kind) + _OFFSET for kind in dict.fromkeys(kinds)}
        object.__setattr__(self, "ids", ids)
        after = {kind: self._mask(self.graph.get(kind, set())) for kind in ids}
        after[""] = self._mask(self.first)
        object.__setattr__(self, "after", after)
        follow = {kind: set(self.graph.get(kind, ())) & ids.keys() for kind in ids}
        whole = {kind for kind in _NOTE_PARTS & ids.keys() if not follow[kind] & _ATTRIBUTES}
        if not self.every_note_ends:
            whole |= {kind for kind in _NOTE_PARTS & ids.keys() if follow[kind] - _ATTRIBUTES}
        object.__setattr__(self, "whole", frozenset(whole))

    @property
    def size(self) -> int:
        return len(self.tokens) + _OFFSET

    def _mask(self, kinds: Set[str]) -> np.ndarray:
        mask = np.zeros(self.size, dtype=bool)
        for kind in kinds & self.ids.keys():
            mask[self.ids[kind]] = True
        if not mask.any():  # no dead ends
            mask[_OFFSET:] = True
        return mask


class MidiTokState(SoundingState):
    """State of a piece in a MidiTok vocabulary; see :class:`musictx.tokens.vocab.GrammarState`.

    Time is counted in quarter notes through bars, positions, shifts and rests, and turned into
    seconds by the tempo tokens.
    """

    def __init__(self, table: TypeTable) -> None:
        super().__init__()
        self._table = table
        self._last = ""
        self._ended = False
        self._seconds = 0.0
        self._now = 0.0  # quarter notes from the start, like all times below
        self._bar_start: float | None = None
        self._last_end = 0.0
        self._position = -1
        self._bpm = table.default_bpm
        self._meter = (4, 4)

    @property
    def seconds(self) -> float:
        return self._seconds

    def advance(self, token_id: int) -> None:
        """Write one id. Raises ``ValueError`` if it is not allowed here."""
        if not 0 <= token_id < self._table.size or not self.allowed()[token_id]:
            raise ValueError(f"id {token_id} is not allowed after {self._last or 'start'}")
        self._take(token_id)

    def read(self, prefix: np.ndarray | Sequence[int]) -> None:
        """Take all of ``prefix`` as it comes; ``bos`` or ``cut`` before it is passed over."""
        for place, token_id in enumerate(np.asarray(prefix).reshape(-1).tolist()):
            if place == 0 and token_id in (BOS, CUT):
                continue
            if not _OFFSET <= token_id < self._table.size and token_id != EOS:
                raise ValueError(f"token {place}: id {token_id} is no event of this vocabulary")
            self._take(token_id)

    def _allowed(self) -> np.ndarray:
        table = self._table
        if self._ended:
            mask = np.zeros(table.size, dtype=bool)
            mask[EOS] = True
            return mask
        mask = table.after[self._last].copy()
        graph = mask.copy()
        if "Position" in table.ids:
            here = table.ids["Position"]
            places = np.arange(len(here))
            bar = self._meter[0] * table.positions
            mask[here] &= (places > self._position) & (places < bar)
        for release in RELEASE_OF.values():
            if release in table.ids:
                mask[table.ids[release]] = False
        for pitch in self.sounding.here():
            release, value = ("DrumOff", pitch - DRUM) if pitch >= DRUM else ("NoteOff", pitch)
            token_id = table.ids[release][0] + value - int(self._value(table.ids[release][0]))
            mask[token_id] = table.after[self._last][token_id]
        mask[EOS] = self._last in table.whole and not len(self.sounding)
        return mask if mask.any() else graph

    def _value(self, token_id: int) -> str:
        return self._table.tokens[token_id - _OFFSET][1]

    def _take(self, token_id: int) -> None:
        self._mask = None
        if token_id == EOS:
            self._ended = True
            return
        kind, value = self._table.tokens[token_id - _OFFSET]
        self._last = kind
        if kind in ("Bar", "Position", "TimeShift", "Rest", "TimeSig", "Tempo"):
            self._tick(kind, value)
        elif kind == "Duration":
            self._last_end = max(self._last_end, self._now + self._quarters(value))
        elif kind == "Program":
            self.sounding.program = int(value)
        drum = DRUM if kind in ("DrumOn", "DrumOff") else 0
        if kind in STRIKES:
            self._notes += 1
        if (
            RELEASE_OF.get(kind) in self._table.ids
            and self.sounding.program in self._table.released
        ):
            self.sounding.strike(int(value) + drum, self._seconds)
        elif kind in RELEASE_OF.values():
            self.sounding.release(int(value) + drum)

    def _tick(self, kind: str, value: str) -> None:
        numerator, denominator = self._meter
        beat = 4 / denominator
        start = self._bar_start or 0.0
        if kind == "Tempo":
            self._bpm = float(value)
        elif kind == "TimeSig":
            upper, lower = value.split("/")
            self._meter = int(upper), int(lower)
            self._position = -1
        elif kind == "Bar" and value != "End":
            if self._bar_start is not None:
                start += numerator * beat
            self._bar_start = start
            self._position = -1
            self._move(start)
        elif kind == "Position":
            self._bar_start = start
            self._position = int(value)
            self._move(start + self._position / self._table.positions * beat)
        elif kind in ("TimeShift", "Rest"):
            begin = max(self._now, self._last_end) if kind == "Rest" else self._now
            self._move(begin + self._quarters(value))
            while (
                kind == "Rest"
                and self._bar_start is not None
                and self._now >= self._bar_start + numerator * beat
            ):
                self._bar_start += numerator * beat
                self._position = -1

    def _move(self, to: float) -> None:
        self._seconds += (to - self._now) * 60 / self._bpm
        if to > self._now:
            self.sounding.wait()
        self._now = to

    def _quarters(self, value: str) -> float:
        """Quarter notes of a shift, rest or duration, written ``beats.parts.resolution``."""
        beats, parts, resolution = (int(v) for v in value.split("."))
        return (beats + parts / resolution) * 4 / self._meter[1]
