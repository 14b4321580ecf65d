"""A pull back to what music has said before, once it has begun to say it again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from musictx.config import SamplingConfig
from musictx.tokens.controls import KNOWN
from musictx.tokens.group_ids import FIELDS_A_GROUP
from musictx.tokens.groups import GroupTokenizer
from musictx.tokens.vocab import GrammarState, NoteEvents, SoftConstraint, Tokenizer

#: The nearest and farthest distance in bars at which music comes back.
NEAREST_BARS, FARTHEST_BARS = 7, 32
#: Music has begun to come back where this share of so many last notes agrees with one distance.
LAST_NOTES, SHARE = 16, 0.5
#: Nats that what comes next there gains, and the fields of a group that gain: its place, its part
#: and its tone (scripts/LOG.md).
RETURN_PULL, FIELDS = 0.4, 3
#: In music of strikes: so many of the last strikes agree with those before another one that was
#: struck so many seconds ago or earlier, and it gains so many nats for each (scripts/LOG.md). So
#: many ids are looked back at.
LAST_STRIKES, AGREE, RETURN_SECONDS, STRIKE_PULL, REACH = 8, 3, 8.0, 0.9, 4096


class BarReturns:
    """Makes likelier what stood in the bars that the last notes repeat.

    Real songs say whole sections again; a model leaves them a little too soon at every note. Of the
    distances in bars that is taken at which most of the last :data:`LAST_NOTES` notes had the same
    place, part and pitch, the nearest if several do. Where these are a share of :data:`SHARE`, the
    group that comes next there gains :data:`RETURN_PULL` nats.
    """

    def __init__(self, tokenizer: GroupTokenizer) -> None:
        self._size, table = tokenizer.size, tokenizer.vocabulary
        self._place, self._line = table.range("place")[0], table.id("bar")
        self._chord = table.id("harmony")
        self._pieces = table.range("none")[1]  # ids from here on are no music
        self._ahead = table.id(KNOWN) if KNOWN in table.kinds else -1

    def __call__(self, states: Sequence[Any], past: np.ndarray) -> np.ndarray:
        costs = np.zeros((len(states), self._size))
        for row, state, ids in zip(costs, states, past):
            written = state.written
            if written >= FIELDS:
                continue
            groups = self._piece(ids[: len(ids) - written])
            then = self._then(groups)
            if then is not None and (then[:written] == ids[len(ids) - written :]).all():
                row[then[written]] = -RETURN_PULL
        return costs

    def _piece(self, ids: np.ndarray) -> np.ndarray:
        """(n, 5): the groups of the piece, without controls and what is known ahead."""
        groups = ids[len(ids) % FIELDS_A_GROUP :].reshape(-1, FIELDS_A_GROUP)
        first = groups[:, 0]
        opens = (first == self._line) | (first == self._ahead)
        opened = np.maximum.accumulate(np.where(opens, np.arange(len(groups)), 0))
        return groups[(first < self._pieces) & (first[opened] != self._ahead)]

    def _then(self, groups: np.ndarray) -> np.ndarray | None:
        """(5,): the group that comes next if the music goes on coming back; None if it does not
        come back."""
        is_line = groups[:, 0] == self._line
        bar = np.cumsum(is_line)
        place = np.where(is_line, 0, groups[:, 0] - self._place + 1)
        part = np.where(is_line | (groups[:, 1] == self._chord), 0, groups[:, 1])  # chords first
        tone = np.where(is_line, 0, groups[:, 2])
        keys = ((bar * self._size + place) * self._size + part) * self._size + tone
        last = keys[~is_line][-LAST_NOTES:]
        distances = np.arange(NEAREST_BARS, min(FARTHEST_BARS + 1, int(bar[-1]) if len(bar) else 0))
        if len(last) < LAST_NOTES or not len(distances):
            return None
        earlier = last - distances[:, None] * self._size**3
        found = keys[np.searchsorted(keys, earlier)]  # all are before the last key
        share = (found == earlier).mean(axis=1)
        best = int(share.argmax())
        if share[best] < SHARE:
            return None
        after = keys[-1] - distances[best] * self._size**3
        return groups[int(np.searchsorted(keys, after, side="right"))]


@dataclass(frozen=True)
class StrikeReturns:
    """Makes likelier the pitch that followed the last time that pitches like the last ones were
    struck: of all strikes :data:`RETURN_SECONDS` ago or earlier that before which most of the last
    :data:`LAST_STRIKES` pitches agree, the latest if several do, where :data:`AGREE` of them do."""

    events: NoteEvents

    def __call__(self, states: Sequence[GrammarState], past: np.ndarray) -> np.ndarray:
        costs, past = np.zeros((len(states), len(self.events.strike))), past[:, -REACH:]
        pitches = self.events.strike[past]
        seconds = np.cumsum(self.events.wait[past], axis=1) * (self.events.longest_wait or 0.0)
        for row, pitch, at in zip(costs, pitches, seconds):
            struck = np.flatnonzero(pitch >= 0)
            pitch, at = pitch[struck], at[struck]
            stop = int(np.searchsorted(at, at[-1] - RETURN_SECONDS, "right")) if len(at) else 0
            if stop <= LAST_STRIKES:
                continue
            agree = np.zeros(stop - LAST_STRIKES, int)
            for nth, last in enumerate(pitch[-LAST_STRIKES:].tolist()):
                agree += pitch[nth : nth + len(agree)] == last
            best = len(agree) - 1 - int(agree[::-1].argmax())
            if agree[best] >= AGREE:
                row[self.events.strike == pitch[best + LAST_STRIKES]] = -STRIKE_PULL * agree[best]
        return costs


def of(tokenizer: Tokenizer, sampling: SamplingConfig) -> list[SoftConstraint]:
    """The pull of these tokens; none for those whose time depends on the tempo or that are
    neither, and where ``sampling`` leaves habits out."""
    if isinstance(tokenizer, GroupTokenizer) and sampling.habits:
        return [BarReturns(tokenizer)]
    events = tokenizer.note_events
    if events is not None and events.longest_wait and sampling.habits:
        return [StrikeReturns(events)]
    return []
