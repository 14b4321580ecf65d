"""The notes that sound at each token.

In a stream of events the start and the end of a note are far apart, an earlier event sets its
loudness, and its time is a sum over all earlier events. Which notes sound, since when and how loud
follows from the tokens, but is hard to learn: early in training a model ends notes that do not
sound, never ends others, and repeats notes that it has just started. This feature adds to each
token

- the state of every pitch: sounding or silent again, by classes of the time since its last start;
- the current loudness, the time since the last note began, and the pitch and loudness of each of
  the last few notes, with the time from it to the following one;

and it scores each id that would start or end a note by the state of its pitch, and by its intervals
to the pitches that sound or have just sounded: a learned number for each interval, the same at
every pitch, as in the feature ``intervals``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from musictx.attention.positions.coordinates import value_table
from musictx.config.checks import option
from musictx.model.features.base import NativeForm, Options, event_arguments
from musictx.model.features.pitches import NEVER, TIMES, PitchFeature, class_of, history, latest
from musictx.tokens.tokenizer import Tokenizer

#: Upper bounds of the states of a pitch, in steps since its last start: while it sounds (one more
#: state has no bound), and when it is silent again (beyond the last bound it has no state).
SOUNDING_STEPS, SILENT_STEPS = (4, 16, 64, 200), (10, 30, 100, 400)
STATES = len(SOUNDING_STEPS) + 1 + len(SILENT_STEPS)


class SoundingState(NamedTuple):
    """The state after each of (B, T) tokens.

    pitch_states  int32 (B, T, pitches): 0 for no state, else 1 + the state
    rows          int64 (B, T, K): rows of the table ``Sounding.context``: the current loudness, the
                  time since the last note began, then three rows for each of the last notes
    """

    pitch_states: Tensor
    rows: Tensor


@dataclass
class SoundingOptions(Options):
    prefix = "model.features.sounding"

    recent: int = option(
        0, "how many of the last notes are embedded, each with pitch, loudness and time", low=0
    )
    chords: int = option(
        0,
        "number of learned interval profiles that score the next note by the notes that sound",
        low=0,
    )


class Sounding(PitchFeature):
    """Embeddings of the notes that sound, and scores of the next id; for event tokens.

    loudness  ranges of ids as in ``coordinates.value_table``: the level of loudness that an id sets
              for the following notes
    resets    such ranges of the ids after which no pitch has a state, as at the start of a piece
    recent    how many of the last notes are embedded

    The other arguments are those of :class:`PitchFeature`. At first the feature has no effect: a
    trained model to which it is added computes the same logits as before.
    """

    name = "sounding"
    options = SoundingOptions
    interval_kinds = (0, 0, 1, 1, 1, 2, 2, 2, 2)  # just started, sounding, silent

    def __init__(
        self,
        size: int,
        width: int,
        *,
        loudness: list[list[int]],
        resets: Sequence[list[int]] = (),
        recent: int = 0,
        **pitch_arguments: Any,
    ) -> None:
        super().__init__(size, width, **pitch_arguments)
        self.recent = recent
        level_of = value_table("loudness", size, loudness, 0)
        self.levels = int(level_of.max()) + 1
        state_of = _states()
        self.ages = len(state_of) // 2
        self.register_tables(
            level_of=level_of,
            resets=value_table("resets", size, list(resets), -1) >= 0,
            state_of=state_of,
        )
        rows = self.levels + TIMES + recent * (self.pitches + 1 + self.levels + TIMES)
        self.states = nn.Parameter(torch.zeros(self.pitches * STATES, width))
        self.context = nn.Parameter(torch.zeros(rows, width))
        self.state_scores = nn.Parameter(torch.zeros(2 * STATES, width))

    @classmethod
    def of_tokens(cls, tokenizer: Tokenizer) -> dict[str, Any]:
        return event_arguments(tokenizer, cls.name)

    @torch.no_grad()
    def read(self, ids: Tensor, previous_ids: Tensor, positions: Tensor) -> SoundingState:
        all_ids, index, piece_start, new = history(ids, previous_ids, positions)
        rows, total = all_ids.shape
        last_reset = torch.where(self.resets[all_ids], index, 0).cummax(1).values
        start = torch.maximum(piece_start, last_reset)[:, new]  # nothing before it counts
        time = self.steps[all_ids].cumsum(1)
        starts, ends = self.starts[all_ids], self.ends[all_ids]

        # The current loudness: the last one that was set, if that was in this piece.
        level = self.level_of[all_ids]
        set_at = torch.where(level > 0, index, 0).cummax(1).values
        level = level.gather(1, set_at)
        context_rows = [torch.where(set_at[:, new] >= start, level[:, new], 0)]

        # The last notes. onsets[:, n] is the index of the token that starts note n = 1, 2, ...
        is_onset = starts >= 0
        number = is_onset.cumsum(1)
        onsets = index.new_zeros(rows, total + 1)
        onsets.scatter_(1, torch.where(is_onset, number, 0), index)
        next_time = time[:, new]
        offset = self.levels + TIMES
        for back in range(max(self.recent, 1)):
            note = number[:, new] - back
            onset = onsets.gather(1, note.clamp(min=0))
            exists = (note > 0) & (onset >= start)
            onset_time = time.gather(1, onset)
            gap = class_of(torch.where(exists, next_time - onset_time, NEVER), self.time_class)
            next_time = onset_time
            if back == 0:
                context_rows.append(self.levels + gap)
            if back < self.recent:
                has_level = exists & (set_at.gather(1, onset) >= start)
                pitch = torch.where(exists, starts.gather(1, onset) + 1, 0)
                note_level = torch.where(has_level, level.gather(1, onset), 0)
                sizes = (self.pitches + 1, self.levels, TIMES)
                for row, size in zip((pitch, note_level, gap), sizes):
                    context_rows.append(offset + row)
                    offset += size

        order = index.int() + 1
        last_start = latest(starts, order, self.pitches, new)
        last_end = latest(ends, order, self.pitches, new)
        start_time = latest(starts, time.int(), self.pitches, new)
        age = (time[:, new, None].int() - start_time).clamp_(max=self.ages - 1)
        age += (last_start < last_end) * self.ages
        pitch_states = self.state_of[age] * (last_start > start[..., None])
        return SoundingState(pitch_states, torch.stack(context_rows, dim=-1))

    def embed(self, x: Tensor, state: SoundingState) -> Tensor:
        context = F.embedding_bag(state.rows.flatten(0, 1), self.context, mode="sum")
        return self.embed_states(x, state.pitch_states, self.states) + context.view_as(x)

    def score(self, logits: Tensor, x: Tensor, state: SoundingState) -> Tensor:
        weights = F.linear(x, self.state_scores).float().unflatten(-1, (2, STATES)).unbind(2)
        return self.score_states(logits, x, weights, (state.pitch_states, state.pitch_states))

    def native(self) -> NativeForm:
        return self.pitch_form(
            "Sounding",
            "level_of resets state_of states context levels recent",
            [self.state_scores],
            times=TIMES,
            state_count=STATES,
            ages=self.ages,
        )


def _states() -> Tensor:
    """Return 1 + the state, 0 for none, by the number of steps since the last start of a pitch: for
    a sounding pitch, then for a silent one. int32."""
    age = torch.arange(max(*SOUNDING_STEPS, *SILENT_STEPS) + 1)
    sounds = torch.bucketize(age, torch.tensor(SOUNDING_STEPS), right=True)
    silent = torch.bucketize(age, torch.tensor(SILENT_STEPS), right=True)
    silent = torch.where(silent < len(SILENT_STEPS), len(SOUNDING_STEPS) + 1 + silent, -1)
    return 1 + torch.cat([sounds, silent]).int()
