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
from musictx.sampling.constraints import EachRow, never
from musictx.sampling.penalties import (
    EventFeedback,
    Opening,
    asks_pitches,
    instruments,
    pitch_sets,
)
from musictx.sampling.primer import Plan, Primer
from musictx.sampling.repetition import MelodyRepetition, Reprise
from musictx.sampling.steer import counts_no_bars
from musictx.tokens import events as ev
from musictx.tokens import layout
from musictx.tokens.controls import HERE
from musictx.tokens.tokenizer import GrammarState, Penalty, Tokenizer


class Idiom:
    """How music is composed in the tokens of ``tokenizer``."""

    #: Whether strokes of drums are composed around given notes.
    drums = False

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer

    # ---------------------------------------------------------------------- what is asked for

    def plan(self, bundle: Bundle, wanted: Mapping[str, Any]) -> Plan:
        """The plan of a new piece with the options ``wanted``
        (:attr:`~musictx.config.GenerateConfig.plan`). ``UserError`` for an option that these
        tokens cannot express."""
        for name, value in wanted.items():
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
        """The ids before a piece that say the levels of its controls."""
        return layout.control_prefix(self.tokenizer.vocabulary, levels)

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

    def penalties(
        self,
        primers: Sequence[Primer],
        states: Sequence[GrammarState],
        sampling: SamplingConfig,
        stats: CorpusStats,
        targets: Sequence[Mapping[str, float]],
        more: Sequence[Penalty],
    ) -> list[Penalty]:
        """The penalties of rows that begin a piece or continue one, without those that apply to any
        music (:func:`.penalties.build`). In their order: the pitches that ``sampling`` allows,
        ``more``, programs, feedback to the ``targets`` of the controls, repetition. ``states`` are
        the states after the primers, in which limits may be set, too."""
        penalties = list(more)
        if asks_pitches(sampling):
            of = self.tokenizer.pitch_of
            inside = pitch_sets(sampling, primers)
            penalties.insert(0, EachRow([never((of >= 0) & ~row[of]) for row in inside]))
        penalties += [*self.programs(primers, sampling, stats), *self.feedback(targets)]
        if sampling.habits and self.tokenizer.note_events is not None:
            # A subject is of one part, and returns at its pitch.
            if "program" not in self.tokenizer.kinds and not asks_pitches(sampling):
                penalties.append(EachRow([Reprise(self.tokenizer, one.ids) for one in primers]))
            penalties.append(EachRow([MelodyRepetition(self.tokenizer) for _ in primers]))
        return penalties

    def programs(
        self, primers: Sequence[Primer], sampling: SamplingConfig, stats: CorpusStats
    ) -> list[Penalty]:
        """The penalties on programs. Continuations keep to the programs and drums of their primers.
        New pieces begin with a part that plays chords, or with any pitched one if the corpus has no
        such part, so that they are not drums or a melody alone; not where their parts are planned,
        with ``habits=false``, nor for tokens without programs."""
        if all(len(primer.ids) for primer in primers):
            return self.same_programs(primers)
        program = self.tokenizer.program_of
        full = [n for n, habit in stats.parts.items() if n != DRUMS and habit.voices >= CHORD_NOTES]
        may = np.isin(program, full) if full else (program >= 0) & (program != DRUMS)
        is_pitched = stats.instruments is None or stats.instruments - {DRUMS}
        if not (sampling.habits and is_pitched and (program == DRUMS).any()):
            return []
        opening = Opening
        return [EachRow([None if p.plan.parts else opening(program, may) for p in primers])]

    def same_programs(self, primers: Sequence[Primer]) -> list[Penalty]:
        """No programs but those of the primers."""
        some = (self.tokenizer.program_of >= 0).any()
        return [instruments(self.tokenizer, frozenset(), primers)] if some else []

    def feedback(
        self,
        targets: Sequence[Mapping[str, float]],
        *,
        given: bool = False,
        parts: Collection[int] | None = None,
    ) -> list[Penalty]:
        """The penalties that keep each row to its ``targets`` of loudness, register, polyphony (and
        density, in bars). ``given``: there are given notes around the new ones; ``parts``: whose
        notes count, by default all."""
        if self.tokenizer.note_events is None or not any(targets):
            return []
        return [EachRow([EventFeedback(self.tokenizer, one) for one in targets])]


def of(tokenizer: Tokenizer) -> Idiom:
    """The idiom of these tokens."""
    path = registry.IDIOMS.get(tokenizer.name)
    kind: type[Idiom] = registry.load(path) if path else Idiom
    return kind(tokenizer)
