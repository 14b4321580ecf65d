"""Primers: the music that a model continues."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from musictx.errors import UserError
from musictx.notes import NOTE, Score
from musictx.sampling import timeline
from musictx.sampling.constants import FEWEST_NOTES, SHORTEST_SECONDS
from musictx.tokens.tokenizer import Clock, Tokenizer


@dataclass(frozen=True)
class Plan:
    """The requested properties of a new piece in bar tokens.

    score  a Score without notes, with the tempo of the piece and the meter of all of its bars; if
           it has no meter, the model chooses meters
    parts  the programs that play, 128 for drums; ``None``: any programs
    """

    score: Score = field(default_factory=Score)
    parts: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Primer:
    """Music that a model continues.

    ids      (n,) uint16, empty for a new piece
    seconds  the length of the ids in their own time, "seconds of the ids" (:class:`.Clock`)
    score    the music that was encoded, up to the end of the ids; ``None`` for a new piece
    notes    the notes of the ids (:data:`musictx.notes.NOTE`), in seconds of the ids
    plan     the requested properties of a new piece
    """

    ids: np.ndarray = field(default_factory=lambda: np.empty(0, np.uint16))
    seconds: float = 0.0
    score: Score | None = None
    notes: np.ndarray = field(default_factory=lambda: np.empty(0, NOTE), repr=False)
    plan: Plan = field(default_factory=Plan, repr=False)

    @classmethod
    def of(cls, tokenizer: Tokenizer, ids: np.ndarray, score: Score | None = None) -> Primer:
        """The primer with ``ids``, the encoding of ``score``."""
        return cls(ids, tokenizer.grammar(ids).seconds, score, tokenizer.decode(ids).notes)

    def clock(self, tokenizer: Tokenizer) -> Clock:
        """The clock that converts seconds of the ids to seconds of the score."""
        return tokenizer.clock(self.plan.score if self.score is None else self.score)

    @property
    def density(self) -> float | None:
        """The number of notes divided by ``seconds``; ``None`` if the primer is too short."""
        score = self.score
        if score is None or len(score) < FEWEST_NOTES or self.seconds < SHORTEST_SECONDS:
            return None
        return len(score) / self.seconds


#: The primer of a new piece.
NO_PRIMER = Primer()


def encode_primer(
    tokenizer: Tokenizer, score: Score, *, seconds: float | None = None, name: str = "primer"
) -> Primer:
    """Encode ``score``, or its first ``seconds`` seconds, counted from the first note.

    The ids are cut after a complete event, note or step of all voices. The model chooses the ends
    of notes that sound at the cut. Raises ``UserError`` with the reason if no note is left, or if
    the tokens cannot represent the music; ``name``, an option or a file, begins the message.
    """
    if len(score) == 0:
        raise UserError(f"{name}: the file has no notes; give one with music to continue")
    try:
        ids, left_out = tokenizer.encode_with_report(score)
    except UserError as error:
        raise UserError(f"{name}: {error}") from None
    if len(ids) == 0:
        reasons = ", ".join(f"{reason}: {count}" for reason, count in left_out.items() if count)
        raise UserError(
            f"{name}: none of its {len(score)} notes can be written in this model's tokens"
            + (f" ({reasons})" if reasons else "")
            + "; give a primer with other notes"
        )
    if seconds is None:
        return Primer.of(tokenizer, ids, score)
    state, clock, count = tokenizer.grammar(), tokenizer.clock(score), 0
    end = clock.time(clock.offset + seconds) + 1e-6
    for token_id in ids.tolist():
        state.advance(token_id)
        if state.seconds > end:
            break
        count += 1
    primer = Primer.of(tokenizer, ids[: count - count % tokenizer.align], score)
    starts, count = tokenizer.decode(ids).notes["start"], len(primer.notes)
    if count == 0:
        raise UserError(f"{name}: no note in its first {seconds} s; choose a longer primer_seconds")
    if count < len(starts):  # cut the score half-way between the last onset and the next
        middle = float(clock.seconds((starts[count - 1] + starts[count]) / 2)) + 1e-9
        primer = replace(primer, score=timeline.cut(score, middle))
    return primer
