"""The base class of tokenizers by notes: the options that say which notes are kept, and the way
from a Score to a stream of notes and back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from musictx import pedal
from musictx.notes import DRUMS, Score
from musictx.notes import NOTE as SCORE_NOTE
from musictx.tokens.controls import FIELDS
from musictx.tokens.stream import NOTE, NoteStream, Velocities
from musictx.tokens.tokenizer import Tokenizer
from musictx.tokens.vocab import Vocabulary


class Spelling(Tokenizer):
    """Notes by part, pitch and velocity bin <-> ids.

    tracks      "piano" (pitched instruments merged, drums left out) or "programs" (all kept)
    low, high   lowest and highest MIDI pitch kept, except for drums; notes outside are left out and
                counted
    velocity_bins  number of loudness levels
    sustain     whether the sustain pedal is folded into the ends of notes
    controls    whether there are also control tokens, and marks before given notes. They are the
                last ids, so the others, and prepared corpora, stay the same without them
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
        """The same tokenizer without control tokens, by which prepared corpora are written."""
        options = {name: getattr(self, name) for name in self.options}
        return type(self)(**options) if self.controls else self

    def stream(self, score: Score) -> tuple[NoteStream, Counter[str]]:
        """``score`` on the grid, in the order of writing, and what was left out: reason -> number
        of notes."""
        raise NotImplementedError

    def write(self, stream: NoteStream) -> np.ndarray:
        """(n,) uint16 ids of a stream in order."""
        raise NotImplementedError

    def read(self, ids: np.ndarray | Sequence[int]) -> NoteStream:
        """Any ids of the vocabulary -> its notes. Raises ``ValueError`` for other ids."""
        raise NotImplementedError

    def score(self, stream: NoteStream) -> Score:
        """The music of a stream."""
        raise NotImplementedError

    def encode_with_report(self, score: Score) -> tuple[np.ndarray, Counter[str]]:
        """As ``encode``, and what was left out: reason -> number of notes."""
        stream, left_out = self.stream(score)
        return self.write(stream), left_out

    def decode(self, ids: np.ndarray | Sequence[int]) -> Score:
        return self.score(self.read(ids))

    def quantise(self, score: Score) -> Score:
        """What survives writing and reading back: ``decode(encode(score)) == quantise(score)``."""
        return self.score(self.stream(score)[0])

    def merged(self, score: Score) -> int:
        """By how many the tracks of ``score`` become fewer when its pitched tracks are merged into
        one (``tracks="piano"``), or those of each program into one (``tracks="programs"``)."""
        notes = score.notes
        if not len(notes) or notes["track"].min() == notes["track"].max():
            return 0
        if self.tracks == "piano":
            return max(len(np.unique(notes["track"][~notes["drum"]])) - 1, 0)
        key = program_key(notes)
        return len(np.unique(notes["track"] * np.int64(256) + key)) - len(np.unique(key))

    def folded(self, score: Score) -> Score:
        """``score`` with its sustain pedal folded into the ends of its notes, if ``sustain``."""
        return pedal.fold_sustain(score) if self.sustain and len(score.pedals) else score

    def writable(self, score: Score) -> tuple[np.ndarray, Counter[str]]:
        """The notes of ``score`` that can be written, and how many are left out for each reason."""
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

    def table(self, notes: np.ndarray) -> np.ndarray:
        """``notes`` of a score as those of a stream, but for their times."""
        table = np.zeros(len(notes), NOTE)
        if self.tracks == "programs":
            table["part"] = program_key(notes)
        table["pitch"] = notes["pitch"]
        table["velocity_bin"] = self.velocities.bin(notes["velocity"].astype(np.int64))
        return table

    @cached_property
    def _moving(self) -> tuple[np.ndarray, np.ndarray]:
        """(size,) bool: the ids of pitches, and those of roots, which transposing changes."""
        kinds = np.array(self.kinds)[self.kind_of]
        pitched = np.isin(kinds, ["note_on", "note_off", "pitch"])
        # The last root, 12, means "no chord".
        return pitched, (kinds == "root") & (self.vocabulary.value_of < 12)

    def transposed(self, ids: np.ndarray, semitones: int) -> np.ndarray | None:
        """``ids`` with other pitches and roots of chords; None if a pitch leaves the range."""
        pitched, root = (some[ids] for some in self._moving)
        value = self.vocabulary.value_of[ids]
        pitch = value[pitched] + semitones
        if len(pitch) and not self.low <= pitch.min() <= pitch.max() <= self.high:
            return None
        turned = (value + semitones) % 12 - value
        return ids + np.where(pitched, semitones, np.where(root, turned, 0))

    def seconds(self, steps: Any) -> Any:
        """The length of ``steps`` of a stream in seconds of its ids."""
        raise NotImplementedError

    def sounding(self, notes: np.ndarray) -> np.ndarray:
        """Notes of a stream as those of a score, on a track for each part."""
        rows = np.zeros(len(notes), SCORE_NOTE)
        rows["start"] = self.seconds(notes["start"])
        rows["end"] = self.seconds(notes["start"] + notes["length"])
        rows["drum"] = notes["part"] == DRUMS
        rows["program"] = np.where(rows["drum"], 0, notes["part"])
        rows["pitch"] = notes["pitch"]
        rows["velocity"] = self.velocities.of_bin[notes["velocity_bin"]]
        rows["track"] = np.unique(notes["part"], return_inverse=True)[1].reshape(-1)
        return rows


def program_key(notes: np.ndarray) -> np.ndarray:
    """(n,) int64: the program of each note, :data:`~musictx.notes.DRUMS` for drums."""
    return np.where(notes["drum"], DRUMS, notes["program"]).astype(np.int64)
