"""A region: a stretch of a piece that is composed, with the given notes around it.

New pieces and continuations (:mod:`.continuation`), gaps and accompaniments (:mod:`.event_infill`)
are regions. A region prepares the input of the engine (:meth:`Region.setup`);
:func:`.composer.compose_batch` draws its ids. Only ``harmonise`` draws ids elsewhere.
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
    """The given music of a piece and the ids composed so far. All regions of a batch have the same
    model, ``sampling`` and ``stats``.

    primer    the music before the new notes; for infilling only its ``score`` is set, to the given
              notes
    sampling  the options ``sampling.*``
    processors  functions that change the distribution of the next id, in order of application
    stats     statistics of the corpus, the defaults of options without a value
    steering  the controls
    seed      whole numbers that seed the drawing of ids
    context   the number of ids that the model attends to, as in its training
    row       the constraint on the ids of the region, with the state of its grammar
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
        """Arguments of :func:`.engine.generate` for a batch of ``regions``, one row each. A
        subclass adds at least prompt, constraint, penalties, seeds and max_tokens, and sets the
        ``row`` of each region."""
        first = regions[0]
        return {
            "model": first.model,
            "processors": first.processors,
            "context": first.context,
            "align": first.tokenizer.align,
        }

    def finish_notes(self, notes: np.ndarray) -> np.ndarray:
        """Convert ``notes`` decoded from the ids to those of the finished piece, in its seconds."""
        raise NotImplementedError

    def record(self, token: int) -> None:
        """Record an id; called after ``row`` has advanced by it."""
        raise NotImplementedError

    def emit(self, on_event: Callable[[Event], None], finish: FinishNotes | None = None) -> None:
        """From now on call ``on_event`` whenever a new note begins or ends. ``finish`` is applied
        to notes after :meth:`finish_notes`, before they are reported."""

        def apply(notes: np.ndarray) -> np.ndarray:
            notes = self.finish_notes(notes)
            return notes if finish is None else finish(notes)

        self.emitter = Emitter(apply, on_event)
