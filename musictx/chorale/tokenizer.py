"""Four-part chorales: one token a voice and sixteenth, soprano, alto, tenor, bass in turn.

The serialisation of Huang et al. (2018), section 4.1: the token at place 4 t + v of a piece is the
pitch that voice v sounds in step t, or silence. Nothing else is written: which voice a token
belongs to follows from its place, so windows of a piece begin at whole steps (``align``).

The published data (Boulanger-Lewandowski et al. 2012) do not distinguish held notes from repeated
ones. With ``ties=True`` a held one is written ``tie`` instead of its pitch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from musictx.chorale import grid as four
from musictx.chorale.grid import PER_QUARTER, SILENCE, STEP_SECONDS, VELOCITY, VOICES, Grid
from musictx.chorale.rules import Written, ending_costs, fault_costs
from musictx.config import SamplingConfig, TokenizerConfig
from musictx.notes import Score
from musictx.tokens.grammar import Change
from musictx.tokens.tokenizer import Clock, GrammarState, Penalty, Tokenizer
from musictx.tokens.vocab import EOS, SPECIALS, Vocabulary


class ChoraleTokenizer(Tokenizer):
    """Four-part Score <-> ids.

    low, high  lowest and highest MIDI pitch; other notes are left out (silence) and counted
    ties       write held notes as ``tie``; otherwise equal pitches in a row are one note

    Raises :class:`musictx.errors.ConfigError` for an option that cannot be.
    """

    name = "chorale"
    voices = len(VOICES)
    beats = True
    top_p = 0.9
    has_rules = True

    def __init__(self, *, low: int = 30, high: int = 88, ties: bool = False) -> None:
        TokenizerConfig("chorale", low=low, high=high)
        self.low, self.high, self.ties = low, high, ties
        tie = [("tie", 0, 0)] if ties else []
        self.vocabulary = Vocabulary.of(("silence", 0, 0), *tie, ("pitch", low, high))
        self.silence = self.vocabulary.id("silence")
        self._tie = self.vocabulary.id("tie") if ties else -1
        self._first = self.vocabulary.range("pitch")[0]

    def __repr__(self) -> str:
        return f"ChoraleTokenizer({self.size} ids, {self.low}..{self.high}, ties={self.ties})"

    def to_config(self) -> dict[str, Any]:
        return {"name": self.name, "low": self.low, "high": self.high, "ties": self.ties}

    def soft_constraints(self, sampling: SamplingConfig) -> Sequence[Penalty]:
        """Where a piece may end; the rules of voice leading, if ``sampling.rules`` gives them
        weight."""

        def penalty(states: Sequence[GrammarState], past: np.ndarray) -> np.ndarray:
            written = self.written(past[:, 1:])
            costs = ending_costs(written, [state.seconds for state in states])
            return costs + sampling.rules * fault_costs(written) if sampling.rules else costs

        return [penalty]

    def clock(self, score: Score) -> Clock:
        beats = four.beats(score)
        return Clock(beats, float(beats.seconds(four.first_step(score) / PER_QUARTER)), four.BPM)

    def encode_with_report(self, score: Score) -> tuple[np.ndarray, Counter[str]]:
        """As ``encode``, and what was left out: reason -> number of notes. Raises ``UserError`` for
        music that is not in four voices (:func:`musictx.chorale.grid.read`)."""
        grid, left_out = four.read(score)
        outside = (grid.pitches >= 0) & ((grid.pitches < self.low) | (grid.pitches > self.high))
        if outside.any():
            struck = int((outside & ~grid.tied).sum())
            left_out[f"notes outside pitches {self.low}..{self.high} left out"] = struck
        return self.encode_grid(grid), left_out

    def encode_grid(self, grid: Grid) -> np.ndarray:
        """(4 T,) uint16 ids of a Grid; pitches out of range are silence."""
        pitches = grid.pitches
        inside = (pitches >= self.low) & (pitches <= self.high)
        ids = np.where(inside, pitches - self.low + self._first, self.silence)
        if self.ties:
            ids[grid.tied & inside] = self._tie
        return ids.reshape(-1).astype(np.uint16)

    def decode(self, ids: np.ndarray | Sequence[int]) -> Score:
        """Any ids -> four tracks, at 100 quarter notes a minute; special ids are skipped."""
        return four.write(self.decode_grid(ids))

    def decode_grid(self, ids: np.ndarray | Sequence[int]) -> Grid:
        """Any ids -> Grid. In a last step that is not complete the other voices are held; a tie
        after silence, or at the beginning, is silence."""
        array = np.asarray(ids, dtype=np.int64).reshape(-1)
        if len(array) and not 0 <= array.min() <= array.max() < self.size:
            raise ValueError(f"ids: expected 0 to {self.size - 1}")
        array = array[array >= len(SPECIALS)]
        count = -(-len(array) // len(VOICES))
        flat = np.full(count * len(VOICES), -2, np.int64)  # -2: not written
        flat[: len(array)] = array
        table = flat.reshape(count, len(VOICES))
        pitches = np.where(table >= self._first, table - self._first + self.low, SILENCE)
        held = (table == self._tie) & self.ties | (table == -2)
        since = np.maximum.accumulate(np.where(held, 0, np.arange(count)[:, None]))
        pitches = np.take_along_axis(pitches, since, axis=0)
        return Grid(pitches, held & (pitches >= 0)) if self.ties else Grid.joined(pitches)

    def written(self, ids: np.ndarray) -> Written:
        """Half-written pieces side by side, ids (B, n) without ``bos``."""
        count, length = ids.shape
        step, voice = divmod(length, len(VOICES))
        places = len(VOICES) * (step + (voice > 0))
        table = np.full((count, places), SILENCE, np.int64)
        table[:, :length] = self.pitch_of[ids]
        table = table.reshape(count, -1, len(VOICES))
        if self.ties:
            begins = np.ones((count, places), bool)
            begins[:, :length] = ids != self._tie
            at = np.arange(table.shape[1])[:, None]
            since = np.maximum.accumulate(np.where(begins.reshape(table.shape), at, 0), axis=1)
            table = np.take_along_axis(table, since, axis=1)
        before = table[:, step - 1, voice, None] if step else np.full((count, 1), SILENCE)
        tie = np.arange(self.size) == self._tie
        choices = np.where(tie, before, self.pitch_of)
        repeated = tie if self.ties else choices == before
        return Written(step, voice, table, choices, (choices >= 0) & ~repeated)

    def state(self) -> ChoraleState:
        return ChoraleState(self)

    def augment(
        self, ids: np.ndarray, *, semitones: int = 0, stretch: float = 1.0
    ) -> np.ndarray | None:
        """A window transposed; ``None`` if a pitch would leave the vocabulary, or a voice its range
        (:data:`musictx.chorale.grid.RANGES`) further than it does already. The window begins with a
        soprano. These tokens know no tempo: ``stretch`` changes nothing."""
        if semitones == 0:
            return ids
        array = np.asarray(ids)
        pitched = array >= self._first
        moved = array[pitched].astype(np.int64) + semitones
        if len(moved) and (moved.min() < self._first or moved.max() >= self.size):
            return None
        low, high = (np.array(four.RANGES) - self.low + self._first).T
        for voice in range(len(VOICES)):
            of_voice = array[voice :: len(VOICES)].astype(np.int64)
            of_voice = of_voice[of_voice >= self._first]
            if not len(of_voice):
                continue
            if semitones > 0 and of_voice.max() + semitones > max(high[voice], of_voice.max()):
                return None
            if semitones < 0 and of_voice.min() + semitones < min(low[voice], of_voice.min()):
                return None
        result = array.astype(np.uint16)
        result[pitched] = moved
        return result


class ChoraleState(GrammarState):
    """A half-written chorale; see :class:`musictx.tokens.tokenizer.GrammarState`.

    Any voice may sound any pitch or be silent; a tie needs a note before it; ``eos`` stands after
    whole steps only.
    """

    def __init__(self, tokenizer: ChoraleTokenizer) -> None:
        super().__init__(tokenizer.vocabulary)
        self._tokenizer = tokenizer
        self._count = 0
        self._ended = False
        self._last = [tokenizer.silence] * len(VOICES)

    @property
    def seconds(self) -> float:
        return self._count // len(VOICES) * STEP_SECONDS

    @property
    def voice(self) -> int:
        """The voice to be written next, 0 (soprano) to 3 (bass)."""
        return self._count % len(VOICES)

    def _allowed(self) -> np.ndarray:
        tokens = self._tokenizer
        mask = np.zeros(tokens.size, dtype=bool)
        if self._ended:
            mask[EOS] = True
            return mask
        mask[tokens._first :] = True
        mask[tokens.silence] = True
        mask[EOS] = self.voice == 0 and self._count > 0
        if tokens.ties:
            mask[tokens._tie] = self._last[self.voice] >= tokens._first
        return mask

    def _take(self, kind: str, value: int) -> list[Change]:
        if kind == "eos":
            self._ended = True
            return []
        changes, last = list[Change](), self._last[self.voice]
        token_id = self._vocabulary.id(kind, value)
        if kind != "tie" and (self._tokenizer.ties or token_id != last):
            before, pitch = self._vocabulary.token(last)
            if before == "pitch":
                changes.append(Change(self.seconds, False, pitch, 0, self.voice))
            if kind == "pitch":
                changes.append(Change(self.seconds, True, value, VELOCITY, self.voice))
                self.notes += 1
            self._last[self.voice] = token_id
        self._count += 1
        return changes

    def copy(self) -> Self:
        other = super().copy()
        other._last = list(self._last)
        return other
