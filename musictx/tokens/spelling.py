"""What the spellings of notes share: which notes they keep, and the options that say so."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np

from musictx import pedal
from musictx.notes import DRUMS, Score
from musictx.tokens.controls import FIELDS
from musictx.tokens.velocities import Velocities
from musictx.tokens.vocab import Vocabulary, VocabularyTokenizer


class Spelling(VocabularyTokenizer):
    """Notes by part, pitch and velocity bin <-> ids.

    tracks      "piano" (pitched instruments merged, drums left out) or "programs" (all kept)
    low, high   lowest and highest MIDI pitch kept, of drums none; others are left out and counted
    velocity_bins  loudness levels;  sustain  fold the sustain pedal into note ends
    controls    tokens that say what the music is to be like, and what is known of it ahead. They
                are the last ids: the others keep theirs, and prepared corpora stay the same
    """

    #: The options but for ``controls``, as :meth:`to_config` has them.
    options: ClassVar[tuple[str, ...]]

    def __init__(
        self, tracks: str, low: int, high: int, velocity_bins: int, sustain: bool, controls: bool
    ) -> None:
        self.tracks, self.low, self.high = tracks, low, high
        self.velocity_bins, self.sustain, self.controls = velocity_bins, sustain, controls
        self.velocities = Velocities(velocity_bins)

    def _table(self, fields: Sequence[tuple[str, int, int]]) -> Vocabulary:
        """The vocabulary of these kinds, and of controls where they are asked for."""
        return Vocabulary.of(*fields, *(FIELDS if self.controls else ()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.size} ids, {self.tracks}, {self.low}..{self.high})"

    def to_config(self) -> dict[str, Any]:
        config = {"name": self.name} | {name: getattr(self, name) for name in self.options}
        return config | ({"controls": True} if self.controls else {})

    @property
    def events(self) -> Self:
        """The same without control tokens: what prepared corpora are written with."""
        options = {name: getattr(self, name) for name in self.options}
        return type(self)(**options) if self.controls else self

    def merged(self, score: Score) -> int:
        """How many tracks of ``score`` are lost where pitched ones are written as one ("piano",
        which leaves drums out) or as one for each program ("programs")."""
        notes = score.notes
        if not len(notes) or notes["track"].min() == notes["track"].max():
            return 0
        if self.tracks == "piano":
            return max(len(np.unique(notes["track"][~notes["drum"]])) - 1, 0)
        key = program_key(notes)
        return len(np.unique(notes["track"] * np.int64(256) + key)) - len(np.unique(key))

    def folded(self, score: Score) -> Score:
        """``score`` with its sustain pedal in the ends of its notes, if that is asked for."""
        return pedal.fold_sustain(score) if self.sustain and len(score.pedals) else score

    def writable(self, score: Score) -> tuple[np.ndarray, Counter[str]]:
        """The notes of ``score`` that can be written, and why how many others are left out."""
        notes, left_out = score.notes, Counter[str]()
        if self.tracks == "piano" and notes["drum"].any():
            left_out["drum notes left out"] = int(notes["drum"].sum())
            notes = notes[~notes["drum"]]
        inside = (notes["pitch"] >= self.low) & (notes["pitch"] <= self.high) | notes["drum"]
        if not inside.all():
            outside = f"notes outside pitches {self.low}..{self.high} left out"
            left_out[outside] = int((~inside).sum())
            notes = notes[inside]
        return notes, left_out


def program_key(notes: np.ndarray) -> np.ndarray:
    """(n,) int64: the program of each note, :data:`~musictx.notes.DRUMS` for drums."""
    return np.where(notes["drum"], DRUMS, notes["program"]).astype(np.int64)
