"""Four-part chorales: one token per voice and sixteenth, with interleaved voices S A T B.

The serialisation of Huang et al. (2018), section 4.1: token 4 t + v of a piece is the pitch of
voice v in step t, or silence. There are no other tokens. The voice of a token follows from its
position, so windows of a piece begin at whole steps (``align``).

The published data (Boulanger-Lewandowski et al. 2012) do not distinguish held notes from repeated
notes. With ``ties=True`` a held note is written as the token ``tie`` instead of its pitch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from musictx.chorale import grid as grids
from musictx.chorale.grid import PER_QUARTER, SILENCE, STEP_SECONDS, VELOCITY, VOICES, Grid
from musictx.config import TokenizerConfig
from musictx.notes import Score
from musictx.tokens.grammar import NoteChange
from musictx.tokens.tokenizer import Clock, GrammarState, Tokenizer
from musictx.tokens.vocab import EOS, SPECIALS, Vocabulary


class ChoraleTokenizer(Tokenizer):
    """Four-part Score <-> ids.

    low, high  lowest and highest MIDI pitch; other notes become silence and are counted
    ties       write held notes as ``tie``; otherwise successive equal pitches are one note

    Raises :class:`musictx.errors.ConfigError` for an invalid option.
    """

    name = "chorale"
    voices = len(VOICES)
    beats = True
    idiom = "musictx.chorale.rules:ChoraleIdiom"

    def __init__(self, *, low: int = 30, high: int = 88, ties: bool = False) -> None:
        TokenizerConfig("chorale", low=low, high=high)  # checks the options
        self.low, self.high, self.ties = low, high, ties
        tie = [("tie", 0, 0)] if ties else []
        self.vocabulary = Vocabulary.of(("silence", 0, 0), *tie, ("pitch", low, high))
        self.silence = self.vocabulary.id("silence")
        self.tie = self.vocabulary.id("tie") if ties else -1
        self._first_pitch_id = self.vocabulary.id("pitch", low)

    def __repr__(self) -> str:
        size = self.vocabulary.size
        return f"ChoraleTokenizer({size} ids, {self.low}..{self.high}, ties={self.ties})"

    def to_config(self) -> dict[str, Any]:
        return {"name": self.name, "low": self.low, "high": self.high, "ties": self.ties}

    def clock(self, score: Score) -> Clock:
        beats = grids.beats(score)
        return Clock(beats, beats.seconds(grids.first_step(score) / PER_QUARTER), grids.BPM)

    def encode_with_report(self, score: Score) -> tuple[np.ndarray, Counter[str]]:
        """Return the ids and {reason: number of notes left out}. Raises ``UserError`` for music
        that is not in four voices (:func:`musictx.chorale.grid.read`)."""
        grid, left_out = grids.read(score)
        outside = (grid.pitches >= 0) & ((grid.pitches < self.low) | (grid.pitches > self.high))
        if outside.any():
            count = int((outside & ~grid.tied).sum())
            left_out[f"notes outside pitches {self.low}..{self.high} left out"] = count
        return self.encode_grid(grid), left_out

    def encode_grid(self, grid: Grid) -> np.ndarray:
        """(4 T,) uint16: the ids of ``grid``; pitches out of range become silence."""
        pitches = grid.pitches
        inside = (pitches >= self.low) & (pitches <= self.high)
        ids = np.where(inside, pitches - self.low + self._first_pitch_id, self.silence)
        if self.ties:
            ids[grid.tied & inside] = self.tie
        return ids.reshape(-1).astype(np.uint16)

    def decode(self, ids: np.ndarray | Sequence[int]) -> Score:
        """Convert any ids to four tracks at 100 quarter notes a minute; skip special ids."""
        return grids.write(self.decode_grid(ids))

    def decode_grid(self, ids: np.ndarray | Sequence[int]) -> Grid:
        """Convert any ids to a Grid; skip special ids. If the last step is incomplete, its missing
        voices hold their notes. A tie after silence, or at the beginning, is silence."""
        array = self.vocabulary.as_ids(ids)
        array = array[array >= len(SPECIALS)]
        missing, shape = -len(array) % len(VOICES), (-1, len(VOICES))
        tied = np.pad(array == self.tie, (0, missing), constant_values=True).reshape(shape)
        pitches = np.pad(self.pitch_of[array], (0, missing), constant_values=SILENCE)
        pitches = grids.fill_ties(pitches.reshape(shape), tied)
        return Grid(pitches, tied & (pitches >= 0)) if self.ties else Grid.from_pitches(pitches)

    def state(self) -> ChoraleState:
        return ChoraleState(self)

    def augment(
        self, ids: np.ndarray, *, semitones: int = 0, stretch: float = 1.0
    ) -> np.ndarray | None:
        """Transpose a window that begins with the soprano.

        Return ``None`` if a note would leave the vocabulary or the range of its voice
        (:data:`musictx.chorale.grid.RANGES`), or move further away from that range. ``stretch`` has
        no effect, since these tokens have no tempo.
        """
        array = np.array(ids, np.int64)
        pitched = np.flatnonzero(array >= self._first_pitch_id)
        low, high = np.clip(grids.RANGES, self.low, self.high)[pitched % len(VOICES)].T
        pitches = self.pitch_of[array[pitched]] + semitones
        if semitones and (pitches > high if semitones > 0 else pitches < low).any():
            return None
        array[pitched] += semitones
        return array.astype(np.uint16)


class ChoraleState(GrammarState):
    """The grammar of chorales; see :class:`musictx.tokens.tokenizer.GrammarState`.

    Any voice may have any pitch or be silent; a tie must follow a note of its voice; ``eos`` must
    follow a complete step.
    """

    def __init__(self, tokenizer: ChoraleTokenizer) -> None:
        super().__init__(tokenizer.vocabulary)
        self._tokenizer = tokenizer
        self._count = 0
        self._ended = False
        #: The id of each voice's pitch or silence, that of the next voice first.
        self._current = (tokenizer.silence,) * len(VOICES)

    @property
    def seconds(self) -> float:
        return self._count // len(VOICES) * STEP_SECONDS

    @property
    def voice(self) -> int:
        """The voice of the next token, 0 (soprano) to 3 (bass)."""
        return self._count % len(VOICES)

    def _allowed(self) -> np.ndarray:
        tokens = self._tokenizer
        mask = np.zeros(self.table.size, dtype=bool)
        mask[EOS] = self._ended or (self.voice == 0 and self._count > 0)
        if not self._ended:
            mask[len(SPECIALS) :] = True
            if tokens.ties:
                mask[tokens.tie] = self._current[0] != tokens.silence
        return mask

    def _take(self, kind: str, value: int) -> list[NoteChange]:
        if kind == "eos":
            self._ended = True
            return []
        token_id = self.table.id(kind, value)
        current, *other_voices = self._current
        is_held = kind == "tie" if self._tokenizer.ties else token_id == current
        changes = []
        if not is_held:
            if current != self._tokenizer.silence:
                pitch = self.table.token(current)[1]
                changes.append(NoteChange(self.seconds, False, pitch, velocity=0, part=self.voice))
            if kind == "pitch":
                changes.append(NoteChange(self.seconds, True, value, VELOCITY, self.voice))
                self.notes += 1
            current = token_id
        self._current = (*other_voices, current)
        self._count += 1
        return changes
