"""Idioms: how music is composed in each kind of tokens.

:class:`Idiom` works with any tokens, :mod:`.event_idiom` is for event tokens. A tokenizer may name
another class (``Tokenizer.idiom``).
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
from musictx.sampling.constants import LONGEST_SECONDS, SHORTEST_SECONDS, USUAL_SECONDS
from musictx.sampling.constraints import Penalty, RowPenalty, forbidding
from musictx.sampling.penalties import Opening, instruments, limits_pitches, pitch_set, refuse
from musictx.sampling.primer import Plan, Primer
from musictx.sampling.processors import Processor, of_sampling
from musictx.sampling.region import Region
from musictx.sampling.sample import Sample
from musictx.sampling.steer import has_controls, no_bars_message
from musictx.tokens.controls import control_prefix
from musictx.tokens.tokenizer import GrammarState, Tokenizer, programs_of_ids
from musictx.tokens.vocab import Vocabulary

#: The class for tokenizers of events that do not name a class.
EVENT_IDIOM = "musictx.sampling.event_idiom:EventIdiom"


class Idiom:
    """How music is composed in the tokens of ``tokenizer``."""

    #: The default of ``sampling.top_p``.
    top_p = 0.95
    #: The default of the option ``end`` for a new piece.
    end_of_new_piece = "cut"
    #: Whether each note is final when its id is drawn, not only when the piece is complete.
    notes_are_immediate = False
    #: (vocabulary, levels of the controls) -> the control tokens before a piece.
    prefix: Callable[[Vocabulary, Sequence[int]], np.ndarray] = staticmethod(control_prefix)
    #: ``module:function`` that fills gaps and accompanies, with the arguments of the default.
    infill = "musictx.apps.infill:compose_events"

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer

    # --------------------------------------------------------------------------------- requests

    def plan(self, bundle: Bundle, options: Mapping[str, Any]) -> Plan:
        """The plan of a new piece with the ``options``
        (:attr:`~musictx.config.GenerateConfig.plan`). Raises ``UserError`` for an option that these
        tokens cannot express."""
        for name, value in options.items():
            raise UserError(f"{name}={value}: {no_bars_message(self.tokenizer)}")
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
        ``is_restricted``: whether the caller adds penalties or processors. Raises ``UserError`` for
        a form that these tokens cannot express."""
        if request.form is not None:
            raise UserError(f"form={request.form}: {no_bars_message(self.tokenizer)}")
        return None

    def choose_parts(self, region: Region) -> Primer:
        """The primer of ``region``; for a new piece its plan may get the parts that play."""
        return region.primer

    def with_defaults(self, request: GenerateConfig, primers: Sequence[Primer]) -> GenerateConfig:
        """``request`` with the defaults for new pieces and continuations of ``primers``.

        end     ``cut``: the music ends at its length, and so do the notes that still sound;
                ``model``: the model may also end it earlier, after a new note;
                ``natural``: it comes to a close within its length, and no note is cut
                (:mod:`musictx.sampling.cadence`). The default is ``cut``; for songs
                ``natural`` (:func:`musictx.songs.new_pieces.closing`); for new pieces, which should
                not end in the middle of a phrase, ``natural`` in event tokens, unless the length is
                too short, and ``model`` in chorales
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
        """Yield ids of silence after ``ids``, up to the time ``until`` (seconds of the ids) or a
        little later. The caller advances ``state``, the state after ``ids``, by each id. Empty if
        these tokens cannot write silence."""
        return ()

    def without_bar_line(self, primer: Primer) -> Primer:
        """``primer``, which ends with a bar line, without the ids of that line if the model should
        write them."""
        return primer

    # ----------------------------------------------------------------- processors and penalties

    def processors(self, sampling: SamplingConfig) -> list[Processor]:
        """The temperatures and the top-p of ``sampling``."""
        return of_sampling(sampling, self.tokenizer.vocabulary, self.top_p)

    def rules(self, sampling: SamplingConfig) -> Sequence[Penalty]:
        """The rules of composition, such as voice leading; ``sampling.rules`` is the penalty for
        breaking one. Raises ``ConfigError`` if the option is set for tokens without rules."""
        refuse(sampling, ["rules"], f"on {self.tokenizer.name} tokens: they have no rules")
        return ()

    def pitch_penalties(self, region: Region) -> list[RowPenalty]:
        """Penalties that forbid pitches which ``region.sampling`` excludes, applied before all
        others."""
        if not limits_pitches(region.sampling):
            return []
        pitch_of = self.tokenizer.pitch_of
        pitches = pitch_set(region.sampling, region.primer, self.tokenizer)
        return [forbidding((pitch_of >= 0) & ~pitches[pitch_of])]

    def limits(self, region: Region) -> list[RowPenalty]:
        """The penalties of a row in all music: new, continued, or around given notes; by default
        none. Raises ``ConfigError`` if a density is requested that these tokens cannot have."""
        if not has_controls(self.tokenizer):
            where = f"on {self.tokenizer.name} tokens: they have no releases"
            refuse(region.sampling, ["density"], where)
        return []

    def penalties(self, region: Region, state: GrammarState) -> list[RowPenalty]:
        """The penalties of a row in a new piece or a continuation, in addition to :meth:`limits`.
        Their order: programs, feedback on the targets of controls, repetition. ``state`` is the
        state of the grammar after the primer."""
        return [*self.program_penalties(region), *self.feedback_penalties(region)]

    def program_penalties(self, region: Region) -> list[RowPenalty]:
        """The penalties on programs. A continuation has only the programs and drums of its primer.
        A new piece begins with a part that plays chords, or with any pitched part if the corpus has
        no such part, so that it is not only drums or a melody. This does not apply if its parts are
        planned, with ``habits=false``, or to tokens without drums."""
        program, primer, stats = programs_of_ids(self.tokenizer), region.primer, region.stats
        if len(primer.ids):
            has_programs = (program >= 0).any()
            return [instruments(self.tokenizer, frozenset(), primer)] if has_programs else []
        only_drums = stats.instruments is not None and stats.instruments <= {DRUMS}
        applies = region.sampling.habits and not only_drums and not primer.plan.parts
        if not applies or not (program == DRUMS).any():
            return []
        voices = cadence.CHORD_NOTES
        chordal = [n for n, habit in stats.parts.items() if n != DRUMS and habit.voices >= voices]
        may_open = np.isin(program, chordal) if chordal else (program >= 0) & (program != DRUMS)
        return [Opening(program, may_open)]

    def feedback_penalties(self, region: Region) -> list[RowPenalty]:
        """The penalties of a row that steer loudness, register and polyphony (with bar tokens, also
        density) towards their targets."""
        return []


def idiom_of(tokenizer: Tokenizer) -> Idiom:
    """The idiom of the tokens of ``tokenizer``."""
    path = tokenizer.idiom or (EVENT_IDIOM if tokenizer.note_events is not None else "")
    idiom: Idiom = registry.load(path)(tokenizer) if path else Idiom(tokenizer)
    return idiom
