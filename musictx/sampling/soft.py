"""Soft constraints: what single ids cost, by what sounds and what was struck of late.

Each is a :data:`musictx.tokens.vocab.SoftConstraint`: called with the half-written pieces and their
ids, it gives the nats to be taken off each logit. A model in its first hours loses sight of notes
it has struck, strikes the same ones over and over, and crowds time with them; these hold it to what
its corpus does (:class:`CorpusStats`) without ever leaving the grammar. They are for tokens that
write strikes and releases (``Tokenizer.note_events``).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from musictx.card import WINDOW_SECONDS, CorpusStats
from musictx.config import SamplingConfig
from musictx.errors import ConfigError
from musictx.notes import DRUMS
from musictx.sampling import pitches
from musictx.sampling.constraints import by_row, charged
from musictx.sampling.primer import Primer
from musictx.sampling.repetition import Patterns, Repetition, among
from musictx.tokens.vocab import (
    SPECIALS,
    GrammarState,
    NoteEvents,
    SoftConstraint,
    Tokenizer,
)

#: Notes end at the latest after so many times the length that is usual in their register.
TIMES_THE_USUAL_LENGTH = 2.0
#: How strongly a density is kept that is asked for, and one that is only usual: nats for each note
#: a second too many or too few (scripts/LOG.md).
ASKED_PULL, USUAL_PULL = 0.8, 0.1
#: What sounds longer than is usual in its register is pulled to its end by so many nats a second;
#: what strikes a pitch again within half a second, or leaves the scale, costs so many nats for each
#: such note of the last ones beyond what is usual (scripts/LOG.md).
RELEASE_PULL, REPETITION_COST, TONALITY_COST = 0.3, 0.5, 0.2
#: Only a share within a scale that lies so far below the usual one counts: performances differ as
#: much, and a model that keeps its key by itself is left alone (scripts/LOG.md).
TONALITY_SLACK = 0.1
#: A pattern that goes on for longer than is usual costs so many nats for each second.
PATTERN_COST = 3.0
#: Notes that open a new piece.
OPENING_NOTES = 8
#: Notes at once in a part that can accompany.
FULL = 3
#: So many ids are looked at before all of them.
RECENT = 64


@dataclass(frozen=True)
class Sustain:
    """Notes that sound: not struck again before their end, not for ever, not too many at once.

    longest   (128,) seconds after which a note of each pitch must end
    most      notes that may sound at once; ``None`` = any number

    The costs are infinite: such an id is drawn only if every other id is forbidden too.
    """

    events: NoteEvents
    longest: np.ndarray
    most: int | None

    def __call__(self, states: Sequence[GrammarState], past: np.ndarray) -> np.ndarray | None:
        return by_row([self._row(state) if len(state.sounding) else None for state in states])

    def _row(self, state: GrammarState) -> np.ndarray:
        events, sounding = self.events, state.sounding
        # Releases come before the strikes of their moment, so what is late waits for the next one.
        late = [] if sounding.struck else self._late(state)
        if late:
            here = [pitch for program, pitch in late if program == sounding.program]
            if here:
                return np.where(among(events.release, here), 0.0, np.inf)
            return np.where(among(events.program, [program for program, _ in late]), 0.0, np.inf)
        forbidden = among(events.strike, sounding.here())
        if self.most is not None and len(sounding) >= self.most:
            others = (events.strike < 0) & ~events.lead
            if not sounding.struck:  # a program with something to release may be chosen
                others |= among(events.program, [program for program, _ in sounding])
            forbidden |= ~others
        return np.where(forbidden, np.inf, 0.0)

    def _late(self, state: GrammarState) -> list[tuple[int, int]]:
        now = state.seconds
        return [
            (program, pitch)
            for (program, pitch), struck in state.sounding.notes.items()
            if pitch < 128 and now - struck[0] >= self.longest[pitch] - 1e-6
        ]


@dataclass(frozen=True)
class Release:
    """Notes that sound longer than is usual are pulled to their end: ``pull`` nats for each second
    beyond ``usual`` (128,) seconds."""

    events: NoteEvents
    usual: np.ndarray
    pull: float

    def __call__(self, states: Sequence[GrammarState], past: np.ndarray) -> np.ndarray | None:
        return by_row([self._row(state) for state in states])

    def _row(self, state: GrammarState) -> np.ndarray | None:
        costs, now, here = None, state.seconds, state.sounding.program
        for (program, pitch), struck in state.sounding.notes.items():
            if program == here and pitch < 128:
                over = now - struck[0] - self.usual[pitch]
                if over > 0:
                    costs = np.zeros(len(self.events.release)) if costs is None else costs
                    costs[self.events.release == pitch] = -self.pull * over
        return costs


@dataclass(frozen=True)
class Density:
    """Notes a second are fed back: strikes cost ``pull`` nats for each note a second that the last
    :data:`WINDOW_SECONDS` have above a row's target, and gain as much for each below; waiting gains
    what strikes cost, in proportion to its length. With ``releases`` these cost as much as strikes:
    otherwise notes would become short where many strikes are held back. A target of ``None`` leaves
    its row alone."""

    events: NoteEvents
    targets: Sequence[float | None]
    pull: float
    releases: bool = False

    def __call__(self, states: Sequence[GrammarState], past: np.ndarray) -> np.ndarray:
        excess = [0.0 if t is None else self._rate(s) - t for s, t in zip(states, self.targets)]
        return self.pull * (np.array(excess)[:, None] * self._weights)

    @cached_property
    def _weights(self) -> np.ndarray:
        events = self.events
        acts = (events.strike >= 0) | events.lead | (self.releases & (events.release >= 0))
        return acts - events.wait

    def _rate(self, state: GrammarState) -> float:
        span = min(max(state.seconds, 1.0), WINDOW_SECONDS)
        since = state.seconds - span - 1e-6
        # The last one comes first: so many began after `since`.
        return bisect_left(state.sounding.recent(), -since, key=lambda strike: -strike[0]) / span


@dataclass(frozen=True)
class Instruments:
    """No programs and drums but those ``known``, and of the primer of each row: a model gives each
    id that it has never seen a little probability. ``costs`` (rows, vocab)."""

    costs: np.ndarray

    @classmethod
    def of(
        cls, tokenizer: Tokenizer, known: frozenset[int], primers: Sequence[Primer]
    ) -> Instruments:
        program = _programs(tokenizer)
        rows = {}
        for ids in {primer.ids.tobytes(): primer.ids for primer in primers}.values():
            notes = tokenizer.decode(ids).notes
            heard = known | set(np.where(notes["drum"], DRUMS, notes["program"]).tolist())
            foreign = (program >= 0) & ~np.isin(program, sorted(heard))
            rows[ids.tobytes()] = np.where(foreign, np.inf, 0.0)
        return cls(np.stack([rows[primer.ids.tobytes()] for primer in primers]))

    def __call__(self, states: Sequence[GrammarState], past: np.ndarray) -> np.ndarray:
        return self.costs


def _programs(tokenizer: Tokenizer) -> np.ndarray:
    """(vocab,) the program that each id names, 128 for ids of drums, -1 for others."""
    events, table = tokenizer.note_events, tokenizer.vocabulary
    if events is not None:
        program = events.program.copy()
    elif table is not None and "program" in table.kinds:
        program = table.values("program").copy()
    else:
        return np.full(tokenizer.size, -1)
    for kind in {"drum", "drums"} & set(tokenizer.kinds):
        program[tokenizer.kind_of == tokenizer.kinds.index(kind)] = DRUMS
    return program


@dataclass(frozen=True)
class Opening:
    """The first ``notes`` are of those whose ids ``may`` (vocab,) open a piece; ``program``
    (vocab,) as of :func:`_programs`."""

    program: np.ndarray
    may: np.ndarray
    notes: int

    def __call__(self, states: Sequence[GrammarState], past: np.ndarray) -> np.ndarray | None:
        for some in past[:, -RECENT:], past:  # the last ids tell it most of the time
            begun = self.may[some].sum(axis=1, keepdims=True) >= self.notes
            if begun.all():
                return None
        return np.where(~begun & ~self.may & (self.program >= 0), np.inf, 0.0)


def of_the_primers(
    tokenizer: Tokenizer, primers: Sequence[Primer], sampling: SamplingConfig, stats: CorpusStats
) -> list[SoftConstraint]:
    """What continues music keeps to its programs and drums. New pieces begin with a part of
    :data:`FULL` notes at once, as an accompaniment is, or with any pitched one where the corpus has
    none: so they are not drums or a melody alone. Not if ``sampling`` leaves habits out, or for
    tokens that name no programs."""
    program = _programs(tokenizer)
    if all(len(primer.ids) for primer in primers):
        some = (program >= 0).any() and tokenizer.group == 1  # see :mod:`.group_limits`
        return [Instruments.of(tokenizer, frozenset(), primers)] if some else []
    full = [one for one, habit in stats.parts.items() if one != DRUMS and habit.voices >= FULL]
    may = np.isin(program, full) if full else (program >= 0) & (program != DRUMS)
    pitched = stats.instruments is None or stats.instruments - {DRUMS}
    held = sampling.habits and pitched and (program == DRUMS).any()
    # Where each note names its part, so many do: one alone is soon forgotten among drums.
    notes = OPENING_NOTES if tokenizer.group > 1 else 1
    return [Opening(program, may, notes)] if held else []


def of_pitches(
    tokenizer: Tokenizer, sampling: SamplingConfig, primers: Sequence[Primer]
) -> list[SoftConstraint]:
    """The pitches that ``sampling`` leaves, for tokens that write one note an id; it comes before
    all others, so that these give way. In groups the grammar knows them: :mod:`.group_limits`."""
    return pitches.build(tokenizer, sampling, primers) if tokenizer.group == 1 else []


def build(
    tokenizer: Tokenizer,
    sampling: SamplingConfig,
    stats: CorpusStats,
    primers: Sequence[Primer],
    density: float | None = None,
) -> list[SoftConstraint]:
    """The soft constraints of ``sampling`` for these tokens, the tokens' own ones included, but for
    :func:`of_pitches`.

    stats   what is usual in the corpus, for the options that leave it to the corpus
    primers  what each row continues; its density and scale, if known, go before the corpus's
    density  notes a second that are asked for, 0 for no target; ``None``: as usual. It comes from
             :class:`~musictx.sampling.steer.Steering`; that of ``sampling`` is not read here

    Raises ``ConfigError`` for an option that asks for what these tokens do not tell.
    """
    found: list[SoftConstraint] = []
    if not tokenizer.has_rules:
        refuse(sampling, ["rules"], f"on {tokenizer.name} tokens: they have no rules")
    found += tokenizer.soft_constraints(sampling)
    events = tokenizer.note_events
    if events is None:
        refuse(
            replace(sampling, density=density),
            ["density"],
            f"on {tokenizer.name} tokens: they tell no ends of notes",
        )
        return found
    usual = stats if sampling.habits else CorpusStats()
    found.insert(0, Sustain(events, TIMES_THE_USUAL_LENGTH * usual.longest, usual.most))
    if stats.instruments is not None and (events.program >= 0).any():
        found.insert(0, Instruments.of(tokenizer, stats.instruments, primers))
    if sampling.habits:
        found += _habits(events, stats, primers)
    if density or (density is None and sampling.habits):
        pull = ASKED_PULL if density else USUAL_PULL
        targets = [density or one.density or stats.density for one in primers]
        found.append(Density(events, targets, pull, releases=bool(density)))
    return found


def _habits(
    events: NoteEvents, stats: CorpusStats, primers: Sequence[Primer]
) -> list[SoftConstraint]:
    """What holds notes to the corpus and the primers: repetition, lengths, scale."""
    found: list[SoftConstraint] = []
    found.append(Release(events, stats.longest, RELEASE_PULL))
    found.append(Repetition(events, REPETITION_COST, stats.repetition_rate))
    found.append(Patterns(events, PATTERN_COST))
    # A few seconds keep to a scale more closely than the piece that they open.
    shares = [[x for x in (one.in_scale, stats.in_scale) if x] for one in primers]
    usual = [float(np.mean(some)) - TONALITY_SLACK if some else None for some in shares]
    found.append(pitches.Tonality(events, TONALITY_COST, usual, pitches.homes(primers)))
    return found


def refuse(sampling: SamplingConfig, names: Sequence[str], where: str) -> None:
    """Raise ``ConfigError`` for the first of the options ``names`` that asks for something: it has
    no effect ``where``."""
    for name in names:
        if (asked := getattr(sampling, name)) and asked != getattr(SamplingConfig(), name):
            raise ConfigError(f"sampling.{name}={asked}: has no effect {where}; leave it out")


def together(
    tokenizer: Tokenizer,
    constraints: Sequence[SoftConstraint],
    allowed_now: Callable[[], np.ndarray] | None = None,
) -> Sequence[SoftConstraint]:
    """The same constraints, and where they leave no note to strike, no velocity is written either:
    otherwise a strike would have to follow that one of them forbids.

    allowed_now  which ids may come next, (B, V) bool; by default those that the grammar allows
    """
    events = tokenizer.note_events
    if events is None or not constraints:
        return constraints
    strikes = (events.release < 0) & (events.wait == 0) & ~events.lead
    strikes[: len(SPECIALS)] = False
    velocities = events.lead & (events.program < 0)

    def all_of_them(states: Sequence[GrammarState], past: np.ndarray) -> np.ndarray:
        if allowed_now is None:
            allowed = np.array([state.allowed() for state in states])
        else:
            allowed = allowed_now()
        allowed, total = charged(allowed, (one(states, past) for one in constraints))
        may_strike = (allowed & strikes).any(axis=1, keepdims=True)
        if not may_strike.all():
            allowed, _ = charged(allowed, [np.where(velocities & ~may_strike, np.inf, 0.0)])
        return np.where(allowed, total, np.inf)

    return [all_of_them]
