"""The base class of the tokenizers that encode a stream of notes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from musictx import pedal
from musictx.notes import DRUMS, NOTE, Score
from musictx.tokens.controls import FIELDS
from musictx.tokens.stream import STREAM_NOTE, NoteStream, Velocities
from musictx.tokens.tokenizer import Tokenizer
from musictx.tokens.vocab import Vocabulary


class StreamTokenizer(Tokenizer):
    """Converts a Score to a stream of notes, which subclasses write as ids, and back.

    tracks      "piano": pitched instruments are merged, drums are left out; "programs": all are
                kept
    low, high   lowest and highest MIDI pitch; notes outside are left out and counted, except drums
    velocity_bins  greatest number of velocity bins
    sustain     whether the sustain pedal is folded into the ends of notes
    controls    whether the vocabulary has control tokens and marks. They are the last ids, so that
                all other ids, and prepared corpora, do not depend on this option
    """

    #: The names of all options but ``controls``, for :meth:`to_config`.
    options: ClassVar[tuple[str, ...]]

    def __init__(
        self, tracks: str, low: int, high: int, velocity_bins: int, sustain: bool, controls: bool
    ) -> None:
        self.tracks, self.low, self.high = tracks, low, high
        self.velocity_bins, self.sustain, self.controls = velocity_bins, sustain, controls
        self.velocities = Velocities(velocity_bins)

    def _table(self, fields: Sequence[tuple[str, int, int]]) -> Vocabulary:
        """The vocabulary of ``fields`` and, if there are any, of the controls."""
        return Vocabulary.of(*fields, *(FIELDS if self.controls else ()))

    def __repr__(self) -> str:
        name, size = type(self).__name__, self.vocabulary.size
        return f"{name}({size} ids, {self.tracks}, {self.low}..{self.high})"

    def to_config(self) -> dict[str, Any]:
        config = {"name": self.name} | {name: getattr(self, name) for name in self.options}
        return config | ({"controls": True} if self.controls else {})

    @property
    def without_controls(self) -> Self:
        """The same tokenizer without control tokens, which encodes corpora."""
        options = {name: getattr(self, name) for name in self.options}
        return type(self)(**options) if self.controls else self

    def stream(self, score: Score) -> tuple[NoteStream, Counter[str]]:
        """The notes of ``score`` on the grid, and how many were left out for each reason."""
        raise NotImplementedError

    def write(self, stream: NoteStream) -> np.ndarray:
        """(n,) uint16 ids of a stream."""
        raise NotImplementedError

    def read(self, ids: np.ndarray | Sequence[int]) -> NoteStream:
        """The notes of any ids. Raises ``ValueError`` for an id outside the vocabulary."""
        raise NotImplementedError

    def score(self, stream: NoteStream) -> Score:
        """The music of a stream."""
        raise NotImplementedError

    def encode_with_report(self, score: Score) -> tuple[np.ndarray, Counter[str]]:
        stream, left_out = self.stream(score)
        return self.write(stream), left_out

    def decode(self, ids: np.ndarray | Sequence[int]) -> Score:
        return self.score(self.read(ids))

    def round_trip(self, score: Score) -> Score:
        """``decode(encode(score))``, computed without ids."""
        return self.score(self.stream(score)[0])

    def merged_tracks(self, score: Score) -> int:
        """By how many the number of tracks of ``score`` falls if all pitched tracks are merged
        (``tracks="piano"``), or all tracks of the same program (``tracks="programs"``)."""
        notes = score.notes
        if not len(notes) or notes["track"].min() == notes["track"].max():
            return 0
        if self.tracks == "piano":
            return max(len(np.unique(notes["track"][~notes["drum"]])) - 1, 0)
        key = program_key(notes)
        return len(np.unique(notes["track"] * np.int64(256) + key)) - len(np.unique(key))

    def folded(self, score: Score) -> Score:
        """``score`` with the sustain pedal folded into the ends of notes, if ``sustain``."""
        return pedal.fold_sustain(score) if self.sustain and len(score.pedals) else score

    def writable(self, score: Score) -> tuple[np.ndarray, Counter[str]]:
        """The notes of ``score`` that ids can encode, and how many are left out for each reason."""
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

    def as_stream_notes(self, notes: np.ndarray) -> np.ndarray:
        """``notes`` of a score as notes of a stream, except for their times."""
        table = np.zeros(len(notes), STREAM_NOTE)
        if self.tracks == "programs":
            table["part"] = program_key(notes)
        table["pitch"] = notes["pitch"]
        table["velocity_bin"] = self.velocities.bin(notes["velocity"].astype(np.int64))
        return table

    @cached_property
    def _moving(self) -> tuple[np.ndarray, np.ndarray]:
        """(size,) bool: the ids of pitches, and the ids of roots, which transposing changes."""
        kinds = np.array(self.vocabulary.kinds)[self.vocabulary.kind_of]
        pitched = np.isin(kinds, ["note_on", "note_off", "pitch"])
        # The last root, 12, means "no chord".
        return pitched, (kinds == "root") & (self.vocabulary.value_of < 12)

    def transposed(self, ids: np.ndarray, semitones: int) -> np.ndarray | None:
        """``ids`` with transposed pitches and roots; ``None`` if a pitch leaves the range."""
        is_pitch, is_root = (moves[ids] for moves in self._moving)
        value = self.vocabulary.value_of[ids]
        pitch = value[is_pitch] + semitones
        if len(pitch) and not self.low <= pitch.min() <= pitch.max() <= self.high:
            return None
        of_root = (value + semitones) % 12 - value
        return ids + np.where(is_pitch, semitones, np.where(is_root, of_root, 0))

    def seconds(self, steps: Any) -> Any:
        """Convert steps of a stream to seconds of its ids."""
        raise NotImplementedError

    def score_notes(self, notes: np.ndarray) -> np.ndarray:
        """Notes of a stream as notes of a score, with a track for each part."""
        rows = np.zeros(len(notes), NOTE)
        rows["start"] = self.seconds(notes["start"])
        rows["end"] = self.seconds(notes["start"] + notes["length"])
        rows["drum"] = notes["part"] == DRUMS
        rows["program"] = np.where(rows["drum"], 0, notes["part"])
        rows["pitch"] = notes["pitch"]
        rows["velocity"] = self.velocities.of_bin[notes["velocity_bin"]]
        rows["track"] = np.unique(notes["part"], return_inverse=True)[1].reshape(-1)
        return rows


#: The former name, until the next minor version.
Spelling = StreamTokenizer


def program_key(notes: np.ndarray) -> np.ndarray:
    """(n,) int64: the program of each note, :data:`~musictx.notes.DRUMS` for drums."""
    return np.where(notes["drum"], DRUMS, notes["program"]).astype(np.int64)
