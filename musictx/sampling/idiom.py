"""An idiom: the parts of composing that depend on the kind of tokens.

:class:`Idiom` does what is possible with any tokens, :mod:`.event_idiom` is for events. A tokenizer
may name a class of its own (``Tokenizer.idiom``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from musictx import registry
from musictx.bundle import Bundle
from musictx.config import GenerateConfig, SamplingConfig
from musictx.errors import UserError
from musictx.notes import DRUMS
from musictx.sampling import cadence
from musictx.sampling.constraints import Penalty, RowPenalty, never
from musictx.sampling.penalties import Opening, asks_pitches, instruments, pitch_set, refuse
from musictx.sampling.primer import Plan, Primer
from musictx.sampling.processors import Processor, of_sampling
from musictx.sampling.region import Region
from musictx.sampling.sample import Sample
from musictx.sampling.steer import counts_no_bars, has_controls
from musictx.sampling.strengths import LONGEST_SECONDS, SHORTEST_SECONDS, USUAL_SECONDS
from musictx.tokens.controls import control_prefix
from musictx.tokens.tokenizer import GrammarState, Tokenizer, programs_of_ids
from musictx.tokens.vocab import Vocabulary

#: The class for tokenizers of events that name none.
EVENT_IDIOM = "musictx.sampling.event_idiom:EventIdiom"


class Idiom:
    """How music is composed in the tokens of ``tokenizer``."""

    #: What ``sampling.top_p`` is unless it is given.
    top_p = 0.95
    #: What the option ``end`` is for a new piece unless it is given.
    end_of_new_piece = "cut"
    #: Whether each note is final when its id is drawn, not only when the piece is complete.
    notes_at_once = False
    #: (vocabulary, levels of the controls) -> the ids that give them, before a piece.
    prefix: Callable[[Vocabulary, Sequence[int]], np.ndarray] = staticmethod(control_prefix)
    #: ``module:function`` that fills gaps and accompanies; its arguments are those of
    #: ``compose_events`` there.
    infill = "musictx.apps.infill:compose_events"

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        # A tokenizer could have this, has_rules and soft_constraints before; until 1.1 it may.
        self.top_p = getattr(tokenizer, "top_p", self.top_p)

    # ---------------------------------------------------------------------- what is asked for

    def plan(self, bundle: Bundle, options: Mapping[str, Any]) -> Plan:
        """The plan of a new piece with the ``options``
        (:attr:`~musictx.config.GenerateConfig.plan`). ``UserError`` for an option that these
        tokens cannot express."""
        for name, value in options.items():
            raise UserError(f"{name}={value}: {counts_no_bars(self.tokenizer)}")
        return Plan()

    def composer(
        self,
        bundle: Bundle,
        primers: Sequence[Primer],
        request: GenerateConfig,
        is_restricted: bool,
    ) -> Callable[..., Sample] | None:
        """The function (primer, the music from which it was encoded, seed, progress, on_event) that
        composes one piece; ``None`` for pieces that are composed as continuations.
        ``is_restricted``: with further penalties or processors. ``UserError`` for a form that these
        tokens cannot express."""
        if request.form is not None:
            raise UserError(f"form={request.form}: {counts_no_bars(self.tokenizer)}")
        return None

    def choose_parts(self, region: Region) -> Primer:
        """The primer of ``region``, or for a new piece one whose plan has the parts that play."""
        return region.primer

    def with_defaults(self, request: GenerateConfig, primers: Sequence[Primer]) -> GenerateConfig:
        """``request`` with what it leaves open for new pieces and continuations of ``primers``.

        end     ``cut``: the music ends at its length, and so do the notes that still sound;
                ``model``: it may also end earlier, where the model ends it after a new note;
                ``natural``: it comes to a close within its length, and no note is cut
                (:mod:`musictx.sampling.cadence`). The default is ``cut``; for songs
                ``natural`` (:func:`musictx.songs.new_pieces.closing`); for a new piece, which
                should not end in the middle of a phrase, ``natural`` with events, if it has time
                for that, and ``model`` with chorales
        length  :data:`USUAL_SECONDS`; :data:`LONGEST_SECONDS` if the model ends the piece
        """
        end, seconds = request.end, request.seconds
        if end is None:
            end = "cut" if len(primers[0].ids) else self.end_of_new_piece
        if seconds is None and request.bars is None and request.tokens is None:
            seconds = LONGEST_SECONDS if end == "model" else USUAL_SECONDS
        if request.end is None and end == "natural" and (seconds or 0.0) < SHORTEST_SECONDS:
            end = "cut"
        return replace(request, end=end, seconds=seconds)

    def closing_bar(self, request: GenerateConfig, primer: Primer) -> cadence.ClosingBar | None:
        """The last bar of the continuation of ``primer`` if a rule writes that bar."""
        return None

    def silence(self, ids: np.ndarray, state: GrammarState, until: float) -> Iterable[int]:
        """Ids that follow ``ids`` and let time pass up to ``until``, seconds of the tokens, or a
        little more; ``state`` is after the ids that came out so far. None if these tokens cannot
        write silence."""
        return ()

    def before_bar_line(self, primer: Primer) -> Primer:
        """``primer``, which ends on a bar line, without the ids of that line if the model is to
        write them."""
        return primer

    # ----------------------------------------------------------------- processors and penalties

    def processors(self, sampling: SamplingConfig) -> list[Processor]:
        """The temperatures and the top-p of ``sampling``."""
        return of_sampling(sampling, self.tokenizer.vocabulary, self.top_p)

    def rules(self, sampling: SamplingConfig) -> Sequence[Penalty]:
        """The rules of composition, such as voice leading; ``sampling.rules`` is the penalty for
        breaking one. Raises ``ConfigError`` if it is given for tokens without rules."""
        if not getattr(self.tokenizer, "has_rules", False):
            where = f"on {self.tokenizer.name} tokens: they have no rules"
            refuse(sampling, ["rules"], where)
        former = getattr(self.tokenizer, "soft_constraints", None)
        return former(sampling) if former else ()

    def pitch_penalties(self, region: Region) -> list[RowPenalty]:
        """Penalties that forbid pitches which ``region.sampling`` does not allow; applied before
        all other penalties."""
        if not asks_pitches(region.sampling):
            return []
        pitch_of = self.tokenizer.pitch_of
        pitches = pitch_set(region.sampling, region.primer, self.tokenizer)
        return [never((pitch_of >= 0) & ~pitches[pitch_of])]

    def limits(self, region: Region) -> list[RowPenalty]:
        """The penalties of a row that apply to any music, new, continued or around given notes; by
        default none. Raises ``ConfigError`` for a density that has no effect with these tokens."""
        if not has_controls(self.tokenizer):
            where = f"on {self.tokenizer.name} tokens: they have no releases"
            refuse(region.sampling, ["density"], where)
        return []

    def penalties(self, region: Region, state: GrammarState) -> list[RowPenalty]:
        """The penalties of a row that begins a piece or continues one, without :meth:`limits`. In
        their order: programs, feedback to the targets of controls, repetition. ``state`` is the
        one after the primer."""
        return [*self.program_penalties(region), *self.feedback_penalties(region)]

    def program_penalties(self, region: Region) -> list[RowPenalty]:
        """The penalties on programs. A continuation keeps to the programs and drums of its primer.
        A new piece begins with a part that plays chords, or with any pitched one if the corpus has
        no such part, so that it is not drums or a melody alone; not where its parts are planned,
        with ``habits=false``, nor for tokens without programs."""
        program, primer, stats = programs_of_ids(self.tokenizer), region.primer, region.stats
        if len(primer.ids):
            has_programs = (program >= 0).any()
            return [instruments(self.tokenizer, frozenset(), primer)] if has_programs else []
        least = cadence.CHORD_NOTES
        full = [n for n, habit in stats.parts.items() if n != DRUMS and habit.voices >= least]
        may = np.isin(program, full) if full else (program >= 0) & (program != DRUMS)
        is_pitched = stats.instruments is None or stats.instruments - {DRUMS}
        habits = region.sampling.habits
        if primer.plan.parts or not (habits and is_pitched and (program == DRUMS).any()):
            return []
        return [Opening(program, may)]

    def feedback_penalties(self, region: Region) -> list[RowPenalty]:
        """The penalties that keep a row to its targets of loudness, register, polyphony (and
        density, in bars)."""
        return []


def idiom_of(tokenizer: Tokenizer) -> Idiom:
    """The idiom of these tokens."""
    path = tokenizer.idiom
    if not path and tokenizer.note_events is not None:
        path = EVENT_IDIOM
    idiom: Idiom = registry.load(path)(tokenizer) if path else Idiom(tokenizer)
    return idiom
