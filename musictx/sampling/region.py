"""A region of a piece that is composed: the one way from what is given to new notes.

New pieces and continuations (:mod:`.continuation`), gaps and accompaniments
(:mod:`.event_infill`) are regions. Each says what the engine is given to write on; ids are drawn
here, and nowhere else but for chorales that are harmonised.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Self

import numpy as np
from torch import Tensor

from musictx.card import CorpusStats
from musictx.config import SamplingConfig
from musictx.model.transformer import MusicTransformer
from musictx.sampling import engine, idiom
from musictx.sampling import processors as reshape
from musictx.sampling.constraints import Constraint
from musictx.sampling.events import Emitter, Event, Placed
from musictx.sampling.processors import Processor
from musictx.sampling.steer import Guidance, Steering
from musictx.tokens.sounding import Change
from musictx.tokens.tokenizer import Penalty, Tokenizer
from musictx.tokens.vocab import PAD


@dataclass(frozen=True)
class Setup:
    """What the engine is given to write on, a row for each region: see :func:`.engine.generate`."""

    prompt: np.ndarray
    constraint: Constraint
    penalties: Sequence[Penalty]
    groups: np.ndarray | Callable[[], Tensor]
    most: int | None
    head: int = 0


class Region:
    """What is given of a piece, and what is composed of it so far.

    seed      whole numbers by which ids are drawn
    steering  the controls; regions that are composed side by side have one guidance
    context   ids that the model looks back on; by default its own
    """

    def __init__(
        self,
        model: MusicTransformer,
        tokenizer: Tokenizer,
        steering: Steering,
        seed: Sequence[int] = (),
        context: int | None = None,
    ) -> None:
        self.model, self.tokenizer, self.steering = model, tokenizer, steering
        self.seed, self.context = list(seed), context or model.config.context
        self.emitter: Emitter | None = None

    @property
    def density(self) -> float | None:
        """Notes a second that penalties ask of strikes; ``None``: as usual."""
        return idiom.of(self.tokenizer).density(self.steering)

    def setup(
        self,
        regions: Sequence[Self],
        sampling: SamplingConfig,
        stats: CorpusStats,
        penalties: Sequence[Penalty] = (),
    ) -> Setup:
        """How ``regions``, of which this is the first, go on from where they are; ``penalties``
        come before those of ``sampling``."""
        raise NotImplementedError

    def seeds(self) -> list[int]:
        """What the next ids are drawn by."""
        return self.seed

    def written(self) -> np.ndarray:
        """The ids of what is given before the region and composed so far."""
        raise NotImplementedError

    def placed(self, notes: np.ndarray) -> np.ndarray:
        """``notes`` of these ids, where they stand in the piece, in its seconds."""
        raise NotImplementedError

    def take(self, token: int, changes: Sequence[Change] | None) -> None:
        """Take note of an id that was drawn, and what it does to notes."""
        raise NotImplementedError

    def emit(self, on_event: Callable[[Event], None], placed: Placed | None = None) -> None:
        """Call ``on_event`` as each new note begins and ends; ``placed`` is done to notes before,
        after :meth:`placed`."""

        def whole(notes: np.ndarray) -> np.ndarray:
            notes = self.placed(notes)
            return notes if placed is None else placed(notes)

        self.emitter = Emitter(whole, on_event)


def start(
    setup: Setup,
    regions: Sequence[Region],
    sampling: SamplingConfig,
    processors: Sequence[Processor] = (),
) -> Generator[Tensor, None, None]:
    """The ids of ``regions`` as they are drawn."""
    first = regions[0]
    rules = [*processors, *reshape.build(sampling, first.tokenizer)]
    if first.steering.guidance != 1:
        rules.insert(0, Guidance(first.steering.guidance))
    return engine.generate(
        first.model,
        setup.prompt,
        max_tokens=setup.most,
        processors=rules,
        constraint=setup.constraint,
        penalties=setup.penalties,
        groups=setup.groups,
        seeds=[one.seeds() for one in regions],
        context=first.context,
        align=first.tokenizer.align,
        head=setup.head,
    )


def write(
    regions: Sequence[Region],
    sampling: SamplingConfig,
    stats: CorpusStats,
    *,
    penalties: Sequence[Penalty] = (),
    processors: Sequence[Processor] = (),
) -> Generator[tuple[int, list[bool]], None, None]:
    """Write ``regions`` on, side by side, as far as the context reaches; after each id how many of
    them it went to, and which are done."""
    rows = [*regions] * len(regions[0].steering.rows)  # with guidance each again, unsteered
    setup = regions[0].setup(rows, sampling, stats, penalties)
    with closing(start(setup, rows, sampling, processors)) as steps:
        for ids in steps:
            for region, token, changes in zip(regions, ids.tolist(), setup.constraint.changes):
                if token != PAD:
                    region.take(token, changes)
            yield int((ids != PAD).sum()), setup.constraint.done().tolist()[: len(regions)]
