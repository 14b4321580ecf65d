"""The penalties of a batch, in their order: what is rarer or likelier by more than the model says.

A penalty (:data:`musictx.tokens.vocab.Penalty`) gives the nats that are taken off each logit; most
are made of one of each row (:class:`~musictx.sampling.constraints.EachRow`). A model in its first
hours loses sight of notes it has struck, strikes the same ones over and over, and crowds time with
them; these hold it to what its corpus does (:class:`CorpusStats`) without ever leaving the grammar.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from musictx.card import CorpusStats
from musictx.config import SamplingConfig
from musictx.errors import ConfigError
from musictx.notes import DRUMS
from musictx.sampling import copying, feedback, pitches
from musictx.sampling.constraints import EachRow, apply_penalties
from musictx.sampling.note_limits import Instruments, OneMeter, Opening, Sustain, programs
from musictx.sampling.primer import Primer
from musictx.sampling.strengths import (
    ASKED_GAIN,
    FEWEST_NOTES,
    FULL_PART,
    LONGEST_LENGTHS,
    OPENING_NOTES,
    PART_SECONDS,
    PART_SHARE,
    TONALITY_SLACK,
    USUAL_GAIN,
)
from musictx.songs.bar_grammar import BarState
from musictx.songs.bar_tokens import BarTokenizer
from musictx.tokens.vocab import SPECIALS, GrammarState, NoteEvents, Penalty, Tokenizer


def of_pieces(
    tokenizer: Tokenizer,
    sampling: SamplingConfig,
    stats: CorpusStats,
    primers: Sequence[Primer],
    states: Sequence[GrammarState],
    *,
    targets: Sequence[Mapping[str, float]] = (),
    density: float | None = None,
    more: Sequence[Penalty] = (),
) -> Sequence[Penalty]:
    """The penalties of rows that begin a piece or continue one, those asked for with ``more`` among
    them. The pitches that ``sampling`` leaves come first, so that the others give way.

    states   after the primers
    targets  what is asked of the controls of each row

    The other arguments are those of :func:`build`.
    """
    penalties: list[Penalty] = []
    # In groups the grammar knows the pitches: :mod:`musictx.songs.group_limits`.
    if tokenizer.group == 1 and pitches.asked(sampling):
        inside = pitches.pitch_sets(sampling, primers)
        penalties = [EachRow([pitches.PitchSet(tokenizer.pitch_of, row) for row in inside])]
    return together(
        tokenizer,
        [
            *penalties,
            *more,
            *of_plans(tokenizer, primers),
            *of_the_primers(tokenizer, primers, sampling, stats),
            *feedback.of(tokenizer, targets),
            *copying.of(tokenizer, sampling, len(primers)),
            *of_parts(tokenizer, sampling, states, targets),
            *build(tokenizer, sampling, stats, primers, density),
        ],
    )


def of_the_primers(
    tokenizer: Tokenizer, primers: Sequence[Primer], sampling: SamplingConfig, stats: CorpusStats
) -> list[Penalty]:
    """What continues music keeps to its programs and drums. New pieces begin with a part of
    :data:`FULL_PART` notes at once, as an accompaniment is, or with any pitched one where the
    corpus has none: so they are not drums or a melody alone. Not if ``sampling`` leaves habits out,
    or for tokens that name no programs."""
    program = programs(tokenizer)
    if all(len(primer.ids) for primer in primers):
        some = (program >= 0).any() and tokenizer.group == 1  # see songs/group_limits.py
        return [_instruments(tokenizer, frozenset(), primers)] if some else []
    full = [one for one, habit in stats.parts.items() if one != DRUMS and habit.voices >= FULL_PART]
    may = np.isin(program, full) if full else (program >= 0) & (program != DRUMS)
    is_pitched = stats.instruments is None or stats.instruments - {DRUMS}
    held = sampling.habits and is_pitched and (program == DRUMS).any()
    # Where each note names its part, so many do: one alone is soon forgotten among drums.
    notes = OPENING_NOTES if tokenizer.group > 1 else 1
    return [EachRow([Opening(program, may, notes) for _ in primers])] if held else []


def of_plans(tokenizer: Tokenizer, primers: Sequence[Primer]) -> list[Penalty]:
    """Only the meter of the plans of new pieces, and none of their parts silent."""
    plans = [primer.plan for primer in primers]
    penalties: list[Penalty] = []
    if not isinstance(tokenizer, BarTokenizer):
        return []
    meters = [plan.meter and OneMeter(tokenizer.vocabulary, plan.meter) for plan in plans]
    if any(meters):
        penalties.append(EachRow(meters))
    if any(plan.parts for plan in plans):
        rows = [feedback.PartDensity(tokenizer, plan.parts or {}, True) for plan in plans]
        penalties.append(EachRow(rows))
    return penalties


def _instruments(tokenizer: Tokenizer, usual: frozenset[int], primers: Sequence[Primer]) -> EachRow:
    different = {id(primer): primer for primer in primers}
    made = {key: Instruments(tokenizer, usual, primer) for key, primer in different.items()}
    return EachRow([made[id(primer)] for primer in primers])


def of_parts(
    tokenizer: Tokenizer,
    sampling: SamplingConfig,
    states: Sequence[GrammarState],
    targets: Sequence[Mapping[str, float]],
) -> list[Penalty]:
    """The parts of a primer in bars that have :data:`FEWEST_NOTES` or more in the last seconds of
    ``states``, which are those after the primers, play on; not where ``sampling`` leaves habits
    out, or where a density is asked for."""
    if not isinstance(tokenizer, BarTokenizer) or not sampling.habits:
        return []
    least: list[dict[int, float]] = []
    for state, asked in zip(states, targets):
        assert isinstance(state, BarState)
        count = {} if "density" in asked else state.counts(PART_SECONDS)
        least.append({part: PART_SHARE * n for part, n in count.items() if n >= FEWEST_NOTES})
    rows = [feedback.PartDensity(tokenizer, one) for one in least]
    return [EachRow(rows)] if any(least) else []


def build(
    tokenizer: Tokenizer,
    sampling: SamplingConfig,
    stats: CorpusStats,
    primers: Sequence[Primer],
    density: float | None = None,
) -> list[Penalty]:
    """The penalties of ``sampling`` for these tokens around any music, those of the tokens
    included.

    stats   what is usual in the corpus, for the options that leave it to the corpus
    primers  what each row continues; its density and scale, if it has any, go before the corpus's
    density  notes a second that are asked for, 0 for no target; ``None``: as usual. It comes from
             :class:`~musictx.sampling.steer.Steering`; that of ``sampling`` is not read here

    Raises ``ConfigError`` for an option that asks for what these tokens cannot hold.
    """
    penalties: list[Penalty] = []
    if not tokenizer.has_rules:
        refuse(sampling, ["rules"], f"on {tokenizer.name} tokens: they have no rules")
    penalties += tokenizer.soft_constraints(sampling)
    events = tokenizer.note_events
    if events is None:
        refuse(
            replace(sampling, density=density),
            ["density"],
            f"on {tokenizer.name} tokens: they tell no ends of notes",
        )
        return penalties
    usual, rows = stats if sampling.habits else CorpusStats(), len(primers)
    sustain = Sustain(events, LONGEST_LENGTHS * usual.longest, usual.most)
    penalties.insert(0, EachRow([sustain] * rows))
    if stats.instruments is not None and (events.program >= 0).any():
        penalties.insert(0, _instruments(tokenizer, stats.instruments, primers))
    if sampling.habits:
        penalties += _habits(events, stats, primers)
    if density or (density is None and sampling.habits):
        targets = [density or one.density or stats.density for one in primers]
        gain = ASKED_GAIN if density else USUAL_GAIN
        of_target = partial(feedback.Density, events, gain=gain, releases=bool(density))
        penalties.append(EachRow([None if one is None else of_target(one) for one in targets]))
    return penalties


def _habits(events: NoteEvents, stats: CorpusStats, primers: Sequence[Primer]) -> list[Penalty]:
    """What holds notes to the corpus and the primers: repetition and scale."""
    again = [feedback.Repetition(events, stats.repetition_rate) for _ in primers]
    scales: list[feedback.Tonality | None] = []
    for primer in primers:
        # A few seconds keep to a scale more closely than the piece that they open.
        shares = [x for x in (primer.in_scale, stats.in_scale) if x]
        target = float(np.mean(shares)) - TONALITY_SLACK if shares else 0.0
        scales.append(feedback.Tonality(events, target, feedback.home(primer)) if shares else None)
    return [EachRow(again), EachRow(scales)]


def refuse(sampling: SamplingConfig, names: Sequence[str], where: str) -> None:
    """Raise ``ConfigError`` for the first of the options ``names`` that asks for something: it has
    no effect ``where``."""
    for name in names:
        if (asked := getattr(sampling, name)) and asked != getattr(SamplingConfig(), name):
            raise ConfigError(f"sampling.{name}={asked}: has no effect {where}; leave it out")


def together(
    tokenizer: Tokenizer,
    penalties: Sequence[Penalty],
    allowed_now: Callable[[], np.ndarray] | None = None,
) -> Sequence[Penalty]:
    """The same penalties, and where they leave no note to strike, no velocity is written either:
    otherwise a strike would have to follow that one of them forbids.

    allowed_now  which ids may come next, (B, V) bool; by default those that the grammar allows
    """
    events = tokenizer.note_events
    if events is None or not penalties:
        return penalties
    strikes = (events.release < 0) & (events.wait == 0) & ~events.lead
    strikes[: len(SPECIALS)] = False
    velocities = events.lead & (events.program < 0)

    def all_of_them(states: Sequence[GrammarState], past: np.ndarray) -> np.ndarray:
        if allowed_now is None:
            allowed = np.array([state.allowed() for state in states])
        else:
            allowed = allowed_now()
        allowed, total = apply_penalties(allowed, (one(states, past) for one in penalties))
        may_strike = (allowed & strikes).any(axis=1, keepdims=True)
        if not may_strike.all():
            allowed, _ = apply_penalties(allowed, [np.where(velocities & ~may_strike, np.inf, 0.0)])
        return np.where(allowed, total, np.inf)

    return [all_of_them]
