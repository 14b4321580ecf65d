"""The base class of tokenizers that encode a stream of notes."""

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

    tracks         "piano": pitched instruments merged, without drums; "programs": all instruments
    low, high      lowest and highest MIDI pitch; other notes, except drums, are left out
    velocity_bins  maximal number of velocity bins
    sustain        whether the sustain pedal is folded into the ends of notes
    controls       whether the vocabulary has control tokens and marks. They are its last ids, so
                   other ids, and prepared corpora, do not depend on this option
    """

    #: The names of all options but ``controls``, for :meth:`to_config`.
    options: ClassVar[tuple[str, ...]]

    def __init__(
        self, tracks: str, low: int, high: int, velocity_bins: int, sustain: bool, controls: bool
    ) -> None:
        self.tracks, self.low, self.high = tracks, low, high
        self.velocity_bins, self.sustain, self.controls = velocity_bins, sustain, controls
        self.velocities = Velocities(velocity_bins)

    def _make_vocabulary(self, fields: Sequence[tuple[str, int, int]]) -> Vocabulary:
        """The vocabulary of ``fields``, and of controls and marks if the option is set."""
        return Vocabulary.of(*fields, *(FIELDS if self.controls else ()))

    def __repr__(self) -> str:
        name, size = type(self).__name__, self.vocabulary.size
        return f"{name}({size} ids, {self.tracks}, {self.low}..{self.high})"

    def to_config(self) -> dict[str, Any]:
        config = {"name": self.name} | {name: getattr(self, name) for name in self.options}
        if self.controls:
            config["controls"] = True
        return config

    @property
    def without_controls(self) -> Self:
        options = {name: getattr(self, name) for name in self.options}
        return type(self)(**options) if self.controls else self

    def stream(self, score: Score) -> tuple[NoteStream, Counter[str]]:
        """The notes of ``score`` on the grid; and {reason: number of notes left out}."""
        raise NotImplementedError

    def write(self, stream: NoteStream) -> np.ndarray:
        """The ids of a stream, (n,) uint16."""
        raise NotImplementedError

    def read(self, ids: np.ndarray | Sequence[int]) -> NoteStream:
        """The notes of any ids of the vocabulary. Raises ``ValueError`` for other ids."""
        raise NotImplementedError

    def score(self, stream: NoteStream) -> Score:
        """Convert a stream to a Score."""
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
        """How many fewer tracks the encoded ``score`` has: ``tracks="piano"`` merges all pitched
        tracks, ``tracks="programs"`` all tracks with the same program."""
        notes = score.notes
        if not len(notes) or notes["track"].min() == notes["track"].max():
            return 0
        if self.tracks == "piano":
            return max(len(np.unique(notes["track"][~notes["drum"]])) - 1, 0)
        key = program_key(notes)
        return len(np.unique(notes["track"] * np.int64(256) + key)) - len(np.unique(key))

    def fold_pedal(self, score: Score) -> Score:
        """``score`` with the sustain pedal folded into the ends of notes, if ``sustain``."""
        return pedal.fold_sustain(score) if self.sustain and len(score.pedals) else score

    def encodable_notes(self, score: Score) -> tuple[np.ndarray, Counter[str]]:
        """The notes of ``score`` in the vocabulary; and {reason: number of notes left out}."""
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
        """``notes`` of a score as notes of a stream, but with start and length 0."""
        stream_notes = np.zeros(len(notes), STREAM_NOTE)
        if self.tracks == "programs":
            stream_notes["part"] = program_key(notes)
        stream_notes["pitch"] = notes["pitch"]
        stream_notes["velocity_bin"] = self.velocities.bin(notes["velocity"].astype(np.int64))
        return stream_notes

    @cached_property
    def _pitches_and_roots(self) -> tuple[np.ndarray, np.ndarray]:
        """Two arrays (size,) bool: which ids are pitches, and which are roots of chords."""
        kinds = np.array(self.vocabulary.kinds)[self.vocabulary.kind_of]
        is_pitch = np.isin(kinds, ["note_on", "note_off", "pitch"])
        # The last root, 12, means "no chord".
        return is_pitch, (kinds == "root") & (self.vocabulary.value_of < 12)

    def transpose(self, ids: np.ndarray, semitones: int) -> np.ndarray | None:
        """``ids`` with transposed pitches and roots; ``None`` if a pitch leaves the range."""
        is_pitch, is_root = (mask[ids] for mask in self._pitches_and_roots)
        values = self.vocabulary.value_of[ids]
        pitches = values[is_pitch] + semitones
        if len(pitches) and not self.low <= pitches.min() <= pitches.max() <= self.high:
            return None
        root_change = (values + semitones) % 12 - values
        return ids + np.where(is_pitch, semitones, np.where(is_root, root_change, 0))

    def seconds(self, steps: Any) -> Any:
        """Convert steps of a stream to id time in seconds."""
        raise NotImplementedError

    def score_notes(self, notes: np.ndarray) -> np.ndarray:
        """``notes`` of a stream as notes of a score, with a track for each part."""
        score_notes = np.zeros(len(notes), NOTE)
        score_notes["start"] = self.seconds(notes["start"])
        score_notes["end"] = self.seconds(notes["start"] + notes["length"])
        score_notes["drum"] = notes["part"] == DRUMS
        score_notes["program"] = np.where(score_notes["drum"], 0, notes["part"])
        score_notes["pitch"] = notes["pitch"]
        score_notes["velocity"] = self.velocities.of_bin[notes["velocity_bin"]]
        score_notes["track"] = np.unique(notes["part"], return_inverse=True)[1].reshape(-1)
        return score_notes


def program_key(notes: np.ndarray) -> np.ndarray:
    """(n,) int64: the program of each note, :data:`~musictx.notes.DRUMS` for drums."""
    return np.where(notes["drum"], DRUMS, notes["program"]).astype(np.int64)
