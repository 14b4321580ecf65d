"""A region of a piece that is composed: how given notes become new ones.

New pieces and continuations (:mod:`.continuation`), gaps and accompaniments
(:mod:`.event_infill`) are regions. Each prepares the input of the engine (:meth:`Region.setup`);
:func:`.composer.compose_batch` draws ids for all of them. Only ``harmonise`` draws ids elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np

from musictx.bundle import Bundle
from musictx.config import SamplingConfig
from musictx.data.statistics import CorpusStats
from musictx.sampling.constraints import RowConstraint
from musictx.sampling.events import Emitter, Event, FinishNotes
from musictx.sampling.primer import Primer
from musictx.sampling.processors import Processor
from musictx.sampling.steer import Steering


class Region:
    """The given music of a piece and the ids composed so far. Regions that are composed in one
    batch have the same model, ``sampling`` and ``stats``.

    primer    the music before the new notes; around given notes its ``score`` alone
    sampling  the options of drawing
    processors  functions that change the distribution of the next id, in this order
    stats     statistics of the corpus, the targets of those options that have no value
    steering  the controls
    seed      whole numbers that seed the drawing of ids
    context   ids that the model attends to, as in its training
    row       the constraint on its ids, with the state of its grammar
    """

    primer: Primer
    sampling: SamplingConfig
    processors: Sequence[Processor]
    stats: CorpusStats
    steering: Steering
    row: RowConstraint

    def __init__(self, bundle: Bundle, seed: Sequence[int] = ()) -> None:
        self.model, self.tokenizer = bundle.model, bundle.tokenizer
        self.seed, self.context = list(seed), bundle.model.config.context
        self.emitter: Emitter | None = None

    @classmethod
    def setup(cls, regions: Sequence[Self]) -> dict[str, Any]:
        """Arguments of :func:`.engine.generate` for a batch of ``regions``, a row for each. A
        subclass adds prompt, constraint, penalties, seeds, max_tokens and prefix_size, and sets the
        ``row`` of each region."""
        first = regions[0]
        return {
            "model": first.model,
            "processors": first.processors,
            "context": first.context,
            "align": first.tokenizer.align,
        }

    def finish_notes(self, notes: np.ndarray) -> np.ndarray:
        """``notes`` decoded from the ids, with their times in seconds of the piece."""
        raise NotImplementedError

    def take(self, token: int) -> None:
        """Record an id that was drawn, after ``row`` has."""
        raise NotImplementedError

    def emit(self, on_event: Callable[[Event], None], finish: FinishNotes | None = None) -> None:
        """Call ``on_event`` as each new note begins and ends. The function ``finish`` is applied to
        notes after the method :meth:`finish_notes`, before they are reported."""

        def whole(notes: np.ndarray) -> np.ndarray:
            notes = self.finish_notes(notes)
            return notes if finish is None else finish(notes)

        self.emitter = Emitter(whole, on_event)
