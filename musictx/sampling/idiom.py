"""An idiom: the parts of composing that depend on the kind of tokens.

:class:`Idiom` is for events (strikes and releases in seconds); for other tokens it does what is
possible with any. ``registry.IDIOMS`` names the subclasses of other tokenizers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from musictx import registry
from musictx.bundle import Bundle
from musictx.card import CorpusStats
from musictx.config import SamplingConfig
from musictx.errors import UserError
from musictx.notes import DRUMS
from musictx.sampling.cadence import CHORD_NOTES
from musictx.sampling.constraints import RowPenalty, never
from musictx.sampling.penalties import (
    EventFeedback,
    Opening,
    asks_pitches,
    instruments,
    pitch_set,
)
from musictx.sampling.primer import Plan, Primer
from musictx.sampling.repetition import MelodyRepetition, Reprise
from musictx.sampling.steer import counts_no_bars
from musictx.tokens import events as ev
from musictx.tokens.controls import HERE, control_prefix
from musictx.tokens.tokenizer import GrammarState, Tokenizer


class Idiom:
    """How music is composed in the tokens of ``tokenizer``."""

    #: Whether strokes of drums are composed around given notes.
    drums = False

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer

    # ---------------------------------------------------------------------- what is asked for

    def plan(self, bundle: Bundle, options: Mapping[str, Any]) -> Plan:
        """The plan of a new piece with the ``options``
        (:attr:`~musictx.config.GenerateConfig.plan`). ``UserError`` for an option that these
        tokens cannot express."""
        for name, value in options.items():
            raise UserError(f"{name}={value}: {counts_no_bars(self.tokenizer)}")
        return Plan()

    def cast(
        self, primer: Primer, stats: CorpusStats, sampling: SamplingConfig, seed: Sequence[int]
    ) -> Primer:
        """``primer``, or for a new piece one whose plan has the parts that play."""
        return primer

    def sampling(self, sampling: SamplingConfig, primers: Sequence[Primer]) -> SamplingConfig:
        """``sampling`` with what it leaves open for new pieces and continuations of ``primers``."""
        return sampling

    def prefix(self, levels: Sequence[int]) -> np.ndarray:
        """The ids before a piece that give the levels of its controls."""
        return control_prefix(self.tokenizer.vocabulary, levels)

    @property
    def marks(self) -> list[int]:
        """The ids between written music and what is composed after it, in steered pieces."""
        return [self.tokenizer.vocabulary.id(HERE)]

    def silence(self, ids: np.ndarray, state: GrammarState, until: float) -> Iterable[int]:
        """Ids that follow ``ids`` and let time pass up to ``until``, seconds of the tokens, or a
        little more; ``state`` is after the ids that came out so far."""
        if (events := self.tokenizer.note_events) is None:
            return ()
        steps = int(np.ceil((until - state.seconds) / events.step_seconds - 1e-6))
        return ev.write(np.empty(0, ev.EVENT), self.tokenizer.vocabulary, max(steps, 0)).tolist()

    # ----------------------------------------------------------------------------- penalties

    def pitches(self, primer: Primer, sampling: SamplingConfig) -> list[RowPenalty]:
        """Penalties that forbid pitches which ``sampling`` does not allow; applied before all other
        penalties."""
        if not asks_pitches(sampling):
            return []
        pitch_of = self.tokenizer.pitch_of
        return [never((pitch_of >= 0) & ~pitch_set(sampling, primer)[pitch_of])]

    def penalties(
        self,
        primer: Primer,
        state: GrammarState,
        sampling: SamplingConfig,
        stats: CorpusStats,
        targets: Mapping[str, float],
    ) -> list[RowPenalty]:
        """The penalties of a row that begins a piece or continues one, without those that apply to
        any music (:func:`.penalties.of_events`). In their order: programs, feedback to the
        ``targets`` of controls, repetition. ``state`` is the one after the primer, in which
        limits may be set, too."""
        penalties = [*self.programs(primer, sampling, stats), *self.feedback(targets)]
        if sampling.habits and self.tokenizer.note_events is not None:
            # A subject is of one part, and returns at its pitch.
            if "program" not in self.tokenizer.kinds and not asks_pitches(sampling):
                penalties.append(Reprise(self.tokenizer, primer.ids))
            penalties.append(MelodyRepetition(self.tokenizer))
        return penalties

    def programs(
        self, primer: Primer, sampling: SamplingConfig, stats: CorpusStats
    ) -> list[RowPenalty]:
        """The penalties on programs. A continuation keeps to the programs and drums of its primer.
        A new piece begins with a part that plays chords, or with any pitched one if the corpus has
        no such part, so that it is not drums or a melody alone; not where its parts are planned,
        with ``habits=false``, nor for tokens without programs."""
        program = self.tokenizer.program_of
        if len(primer.ids):
            has_programs = (program >= 0).any()
            return [instruments(self.tokenizer, frozenset(), primer)] if has_programs else []
        full = [n for n, habit in stats.parts.items() if n != DRUMS and habit.voices >= CHORD_NOTES]
        may = np.isin(program, full) if full else (program >= 0) & (program != DRUMS)
        is_pitched = stats.instruments is None or stats.instruments - {DRUMS}
        if primer.plan.parts or not (sampling.habits and is_pitched and (program == DRUMS).any()):
            return []
        return [Opening(program, may)]

    def feedback(
        self,
        targets: Mapping[str, float],
        *,
        given: bool = False,
        parts: Collection[int] | None = None,
    ) -> list[RowPenalty]:
        """The penalties that keep a row to its ``targets`` of loudness, register, polyphony (and
        density, in bars). ``given``: there are given notes around the new ones; ``parts``: whose
        notes count, by default all."""
        if self.tokenizer.note_events is None or not targets.keys() - {"density"}:
            return []
        return [EventFeedback(self.tokenizer, targets)]


def of(tokenizer: Tokenizer) -> Idiom:
    """The idiom of these tokens."""
    path = registry.IDIOMS.get(tokenizer.name)
    kind: type[Idiom] = registry.load(path) if path else Idiom
    return kind(tokenizer)
