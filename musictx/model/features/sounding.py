"""The notes that sound while a token is read.

In a stream of events the start and the end of a note are far apart, an earlier event sets its
loudness, and its time is a sum over all earlier events. Which notes sound, since when and how loud
follows from the tokens, but is hard to learn: early in training a model ends notes that do not
sound, never ends others, and repeats notes that it has just struck. This feature adds to each token

- the state of every pitch: sounding or silent again, by classes of the time since it was struck;
- the loudness in force, the time since the last note began, and pitch, loudness and distance in
  time of the last few notes;

and it scores each candidate for the next start or end of a note by the state of its pitch, and by
its intervals to what sounds or has just sounded: a learned number for a difference, the same in
every key, as in ``intervals.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from musictx.attention.positions.coordinates import ranges
from musictx.config.checks import option
from musictx.model.features.base import NativeForm, Options, events_of
from musictx.model.features.pitches import NEVER, TIMES, PitchFeature, class_of, history, latest
from musictx.tokens.tokenizer import Tokenizer

#: Classes of time since a pitch was struck, by their upper bounds in steps, the last without one:
#: while it sounds,
AGE_STEPS = (4, 16, 64, 200)
#: and when it is silent again. Later it has no state.
AFTER_STEPS = (10, 30, 100, 400)
STATES = len(AGE_STEPS) + 1 + len(AFTER_STEPS)


class SoundingState(NamedTuple):
    """The state after each of (B, T) tokens, all int64.

    pitches   (B, T, pitches): 0 for no state, else 1 + the state
    rows      (B, T, K): rows of the table ``Sounding.context``: loudness, time, last notes
    """

    pitches: Tensor
    rows: Tensor


@dataclass
class SoundingOptions(Options):
    prefix = "model.features.sounding"

    recent: int = option(
        0, "how many of the last notes are given one by one, with pitch and loudness", low=0
    )
    chords: int = option(
        0,
        "number of learned weightings by which a candidate is scored for its intervals to what "
        "sounds",
        low=0,
    )


class Sounding(PitchFeature):
    """Embeddings of what sounds, and scores of what may come next; for tokens of events.

    loudness  ranges of ids as in ``coordinates.ranges``: the loudness that they set for what
              follows
    resets    ids after which no pitch has a state, as at the beginning of a piece
    recent    how many of the last notes are given one by one
    events    the other arguments of :class:`PitchFeature`

    At first the feature has no effect: a trained model to which it is added computes the same
    logits as before.
    """

    name = "sounding"
    options = SoundingOptions
    interval_kinds = (0, 0, 1, 1, 1, 2, 2, 2, 2)  # struck just now, sounding, silent

    def __init__(
        self,
        size: int,
        width: int,
        *,
        loudness: list[list[int]],
        resets: Sequence[list[int]] = (),
        recent: int = 0,
        **events: Any,
    ) -> None:
        super().__init__(size, width, **events)
        self.recent = recent
        loud = ranges("loudness", size, loudness, 0)
        self.levels = int(loud.max()) + 1
        self.register_tables(
            loud=loud,
            resets=ranges("resets", size, list(resets), -1) >= 0,
            state_of=_states(),
        )
        self.note_rows = self.pitches + 1 + self.levels + TIMES
        self.states = nn.Parameter(torch.zeros(self.pitches * STATES, width))
        self.context = nn.Parameter(
            torch.zeros(self.levels + TIMES + recent * self.note_rows, width)
        )
        self.state_scores = nn.Parameter(torch.zeros(2 * STATES, width))

    @classmethod
    def of_tokens(cls, tokenizer: Tokenizer) -> dict[str, Any]:
        return events_of(tokenizer, cls.name)

    @torch.no_grad()
    def read(self, ids: Tensor, earlier: Tensor, places: Tensor) -> SoundingState:
        """The state after each of ``ids``; see :meth:`Feature.read`."""
        every, index, begins, new = history(ids, earlier, places)
        rows, total = every.shape
        again = torch.where(self.resets[every], index, 0).cummax(1).values
        begins = torch.maximum(begins, again)[:, new]
        time = self.steps[every].cumsum(1)
        starts = self.starts[every]
        pitches = self._pitches(starts, self.ends[every], time, index, begins, new)

        # The loudness in force: the last one set, if it was set in this piece.
        level = self.loud[every]
        set_at = torch.where(level > 0, index, 0).cummax(1).values
        level = level.gather(1, set_at)
        context_rows = [torch.where(set_at[:, new] >= begins, level[:, new], 0)]

        # The last notes. onset_of[:, n] is the index of the token that starts note n = 1, 2, ...
        struck = starts >= 0
        number = struck.cumsum(1)
        onset_of = index.new_zeros(rows, total + 1)
        onset_of.scatter_(1, torch.where(struck, number, 0), index)
        later = time[:, new]
        first = self.levels + TIMES
        for back in range(max(self.recent, 1)):
            note = number[:, new] - back
            onset = onset_of.gather(1, note.clamp(min=0))
            exists = (note > 0) & (onset >= begins)
            onset_time = time.gather(1, onset)
            gap = class_of(torch.where(exists, later - onset_time, NEVER), self.time_class)
            later = onset_time
            if back == 0:
                context_rows.append(self.levels + gap)
            if back < self.recent:
                has_level = exists & (set_at.gather(1, onset) >= begins)
                context_rows.append(first + torch.where(exists, starts.gather(1, onset) + 1, 0))
                first += self.pitches + 1
                context_rows.append(first + torch.where(has_level, level.gather(1, onset), 0))
                first += self.levels
                context_rows.append(first + gap)
                first += TIMES
        return SoundingState(pitches, torch.stack(context_rows, dim=-1))

    def _pitches(
        self, starts: Tensor, ends: Tensor, time: Tensor, index: Tensor, begins: Tensor, new: slice
    ) -> Tensor:
        """The state of each pitch, from all tokens (B, N), for the ``new`` ones among them."""
        order = index.int() + 1
        begun = latest(starts, order, self.pitches, new)
        ended = latest(ends, order, self.pitches, new)
        struck = latest(starts, time.int(), self.pitches, new)
        age = (time[:, new, None].int() - struck).clamp_(max=len(self.state_of) // 2 - 1)
        age += (begun < ended) * (len(self.state_of) // 2)
        return self.state_of[age] * (begun > begins[..., None])

    def embed(self, x: Tensor, seen: SoundingState) -> Tensor:
        """Embeddings ``x`` (B, T, width) and the vectors of the state after each token."""
        context = F.embedding_bag(seen.rows.flatten(0, 1), self.context, mode="sum")
        return self.embed_states(x, seen.pitches, self.states) + context.view_as(x)

    def score(self, logits: Tensor, x: Tensor, seen: SoundingState) -> Tensor:
        """``logits`` (B, T, vocab) plus the score of each id's pitch."""
        weights = F.linear(x, self.state_scores).float().unflatten(-1, (2, STATES)).unbind(2)
        return self.score_states(logits, x, weights, (seen.pitches, seen.pitches))

    def native(self) -> NativeForm:
        return self.pitch_form(
            "Sounding",
            "loud resets state_of states context levels recent",
            [self.state_scores],
            times=TIMES,
            state_count=STATES,
            ages=len(self.state_of) // 2,
        )


def _states() -> Tensor:
    """1 + the state, int32, of a pitch by its age in steps, sounding; then the same for silent."""
    age = torch.arange(max(*AGE_STEPS, *AFTER_STEPS) + 1)
    sounds = torch.bucketize(age, torch.tensor(AGE_STEPS), right=True)
    silent = torch.bucketize(age, torch.tensor(AFTER_STEPS), right=True)
    silent = torch.where(silent < len(AFTER_STEPS), len(AGE_STEPS) + 1 + silent, -1)
    return 1 + torch.cat([sounds, silent]).int()
