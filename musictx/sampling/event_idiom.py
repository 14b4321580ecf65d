"""The idiom of events (strikes and releases in seconds); see :mod:`.idiom`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from musictx.notes import Score
from musictx.pedal import fold_sustain
from musictx.sampling.cadence import CadencePlanner
from musictx.sampling.constraints import Constraint, EventConstraint, RowConstraint, RowPenalty
from musictx.sampling.idiom import Idiom
from musictx.sampling.penalties import (
    Density,
    EventFeedback,
    Repetition,
    Silence,
    Sustain,
    asks_pitches,
    instruments,
)
from musictx.sampling.region import Region
from musictx.sampling.repetition import MelodyRepetition, Reprise
from musictx.sampling.strengths import ASKED_GAIN, USUAL_GAIN
from musictx.tokens import events as ev
from musictx.tokens.tokenizer import GrammarState, NoteEvents, Tokenizer


class EventIdiom(Idiom):
    """The idiom of events."""

    notes_at_once = True
    #: All ids may be drawn, since the unlikely ones include the ends of long notes
    #: (scripts/LOG.md). Only pitches have a lower temperature.
    top_p = 1.0

    def __init__(self, tokenizer: Tokenizer) -> None:
        super().__init__(tokenizer)
        assert tokenizer.note_events is not None
        self.events: NoteEvents = tokenizer.note_events

    def targets(
        self,
        asked: Mapping[str, float],
        described: Mapping[str, float],
        around: Mapping[str, float],
    ) -> Mapping[str, float]:
        """Those of all notes, since :class:`.EventFeedback` measures the given notes, too."""
        return {n: value for n, value in around.items() if n != "density"} | {**described}

    def written_lengths(self, score: Score) -> Score:
        """The pedal sustains notes."""
        return fold_sustain(score)

    def silence(self, ids: np.ndarray, state: GrammarState, until: float) -> Iterable[int]:
        steps = int(np.ceil((until - state.seconds) / self.events.step_seconds - 1e-6))
        return ev.write(np.empty(0, ev.EVENT), self.tokenizer.vocabulary, max(steps, 0)).tolist()

    def constraint(self, rows: Sequence[RowConstraint]) -> Constraint:
        return EventConstraint(rows, self.events)

    def ending(
        self, begins: float, until: float, key: tuple[int, str] | None, low: int | None
    ) -> RowPenalty:
        return CadencePlanner(self.tokenizer, self.events, begins, until, key, low)

    def limits(self, region: Region) -> list[RowPenalty]:
        events, stats, targets = self.events, region.stats, region.steering.targets
        habits, result = region.sampling.habits, list[RowPenalty]()
        if stats.instruments is not None and (events.program >= 0).any():
            result.append(instruments(self.tokenizer, stats.instruments, region.primer))
        result.append(Sustain(events, stats.most_notes if habits else None))
        if habits:
            result += [Silence(events), Repetition(events, stats.repetition_rate)]
        if targets.get("density", habits):
            is_asked = "density" in targets
            target = targets["density"] if is_asked else region.primer.density or stats.density
            if target is not None:
                gain = ASKED_GAIN if is_asked else USUAL_GAIN
                result.append(Density(events, target, gain, releases=is_asked))
        return result

    def penalties(self, region: Region, state: GrammarState) -> list[RowPenalty]:
        result = super().penalties(region, state)
        if region.sampling.habits:
            # A subject is of one part, and returns at its pitch.
            table = self.tokenizer.vocabulary
            if "program" not in table.kinds and not asks_pitches(region.sampling):
                result.append(Reprise(table, self.events, region.primer.ids))
            result.append(MelodyRepetition(self.events))
        return result

    def feedback_penalties(self, region: Region, *, given: bool = False) -> list[RowPenalty]:
        targets = region.steering.targets
        if not targets.keys() - {"density"}:
            return []
        return [EventFeedback(self.tokenizer.vocabulary, self.events, targets)]
