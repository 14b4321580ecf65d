"""Builds the penalties of a batch, in the order in which they are applied.

A penalty (:data:`musictx.tokens.tokenizer.Penalty`) computes the nats that are taken off each
logit. Most penalties consist of one for each row (:class:`~musictx.sampling.constraints.EachRow`).
A model after a few hours of training forgets to end notes, strikes the same ones over and over, and
writes too many; penalties keep its music to the statistics of its corpus (:class:`CorpusStats`).
The grammar is always kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from musictx.card import CorpusStats
from musictx.config import SamplingConfig
from musictx.errors import ConfigError
from musictx.sampling import feedback, note_limits
from musictx.sampling.constraints import EachRow, apply_penalties
from musictx.sampling.note_limits import Sustain
from musictx.sampling.primer import Primer
from musictx.sampling.strengths import ASKED_GAIN, USUAL_GAIN
from musictx.tokens.tokenizer import GrammarState, Penalty, Tokenizer
from musictx.tokens.vocab import SPECIALS


def build(
    tokenizer: Tokenizer,
    sampling: SamplingConfig,
    stats: CorpusStats,
    primers: Sequence[Primer],
    density: float | None = None,
) -> list[Penalty]:
    """The penalties for the options ``sampling`` in any kind of region, and those of the tokenizer
    itself (its ``soft_constraints``).

    stats    statistics of the corpus: the targets of options without a value
    primers  the music that each row continues; if its density can be measured, it is the target in
             place of that of the corpus
    density  notes a second that the user asks for; 0 for no target, ``None`` for the usual one. It
             comes from :class:`~musictx.sampling.steer.Steering`; ``sampling.density`` is not read
             here

    Raises ``ConfigError`` for an option that has no effect with these tokens.
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
            f"on {tokenizer.name} tokens: they have no releases",
        )
        return penalties
    usual, rows = stats if sampling.habits else CorpusStats(), len(primers)
    penalties.insert(0, EachRow([Sustain(events, usual.most)] * rows))
    if stats.instruments is not None and (events.program >= 0).any():
        penalties.insert(0, note_limits.instruments(tokenizer, stats.instruments, primers))
    if sampling.habits:
        again = [feedback.Repetition(events, stats.repetition_rate) for _ in primers]
        penalties += [EachRow([note_limits.Silence(events)] * rows), EachRow(again)]
    if density or (density is None and sampling.habits):
        targets = [density or one.density or stats.density for one in primers]
        gain = ASKED_GAIN if density else USUAL_GAIN
        of_target = partial(feedback.Density, events, gain=gain, releases=bool(density))
        penalties.append(EachRow([None if one is None else of_target(one) for one in targets]))
    return penalties


def refuse(sampling: SamplingConfig, names: Sequence[str], where: str) -> None:
    """Raise ``ConfigError`` for the first of the options ``names`` that is set: it has no effect
    ``where``."""
    for name in names:
        if (asked := getattr(sampling, name)) and asked != getattr(SamplingConfig(), name):
            raise ConfigError(f"sampling.{name}={asked}: has no effect {where}; leave it out")


def combined(
    tokenizer: Tokenizer,
    penalties: Sequence[Penalty],
    allowed_now: Callable[[], np.ndarray] | None = None,
) -> Sequence[Penalty]:
    """The same penalties as one, which also forbids velocities if the penalties forbid every
    strike: after a velocity the grammar allows nothing but a strike.

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
