"""The controls of a window and the given notes ahead, at every token.

A window may begin with control tokens and with given notes (``tokens/controls.py``). Both are
hundreds of tokens before the music to which they apply, and the given notes count time from
``here``; early in training a model attends to neither. This feature adds to each token

- the level of every control, and the part of the window to which the token belongs;
- after ``here``, for every pitch, the time until its next given start and until its next given end;
  and the time until the next given event of any pitch. A given event of the current step does not
  count once the music has an equal one;

and it scores each id: the start or end of a note by the time until it is given, and by its
intervals to the given notes that come soon, as in ``sounding.py``; a time shift by whether it leads
exactly to the next given event, or past it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from musictx.config.checks import option
from musictx.errors import ConfigError
from musictx.model.features.base import NativeForm, Options, event_arguments
from musictx.model.features.pitches import NEVER, TIMES, PitchFeature, class_of, history, latest
from musictx.tokens.controls import CONTROLS, MARKS
from musictx.tokens.tokenizer import Tokenizer

#: Upper bounds of the classes of time, in steps, until the next given start of a pitch, and until
#: its next given end; a last class has no bound.
START_STEPS, END_STEPS = (1, 4, 10, 25, 50, 100, 200, 400), (1, 10, 50, 200)
#: Parts of a window: before any mark, then from each of the marks on: given notes, earlier music,
#: composed music.
PARTS = BEFORE_MARKS, KNOWN, STREAM, HERE = range(4)


class ConditionState(NamedTuple):
    """The state after each of (B, T) tokens, all int64.

    rows    (B, T, K): rows of the table ``Conditions.context``: the part of the window, the level
            of each control, and the time until the next given event
    starts  (B, T, pitches): 0 if no start is given, else 1 + the class of the time until it
    ends    (B, T, pitches): the same for ends
    gap     (B, T): steps until the next given event, ``NEVER`` if there is none
    """

    rows: Tensor
    starts: Tensor
    ends: Tensor
    gap: Tensor


@dataclass
class ConditionOptions(Options):
    prefix = "model.features.conditions"

    chords: int = option(
        8,
        "number of learned interval profiles that score the next note by the given notes ahead",
        low=0,
    )


class Conditions(PitchFeature):
    """Embeddings of controls and of given notes ahead, and scores of the next id.

    controls  the range [first, stop) of the ids of each control, in order of their levels
    marks     the ids of the marks ``known``, ``stream`` and ``here``

    The other arguments are those of :class:`PitchFeature`. At first the feature has no effect: a
    trained model to which it is added computes the same logits as before.
    """

    name = "conditions"
    options = ConditionOptions
    sparse = True
    interval_kinds = (0, 0, 0, 1, 1, 2, 2, -1, -1)

    def __init__(
        self,
        size: int,
        width: int,
        *,
        controls: list[list[int]],
        marks: list[int],
        chords: int = 8,
        **pitch_arguments: Any,
    ) -> None:
        super().__init__(size, width, chords=chords, **pitch_arguments)
        part, control, row = (torch.full((size,), unset) for unset in (0, -1, 0))
        part[marks] = torch.tensor(PARTS[1:])
        first_rows, count = [], len(PARTS)
        for number, (first, stop) in enumerate(controls):
            control[first:stop] = number
            row[first:stop] = count + torch.arange(stop - first)
            first_rows.append(count)
            count += stop - first
        self.first_time = count
        self.register_tables(
            part=part,
            control=control,
            row=row,
            first_rows=torch.tensor(first_rows, dtype=torch.int64),
            start_class=_classes(START_STEPS),
            end_class=_classes(END_STEPS),
        )
        self.longest_shift = int(self.steps.max())
        self.context = nn.Parameter(torch.zeros(self.first_time + TIMES, width))
        self.coming = nn.Parameter(torch.zeros(self.pitches * (1 + len(START_STEPS)), width))
        self.ending = nn.Parameter(torch.zeros(self.pitches * (1 + len(END_STEPS)), width))
        self.start_scores = nn.Parameter(torch.zeros(1 + len(START_STEPS), width))
        self.end_scores = nn.Parameter(torch.zeros(1 + len(END_STEPS), width))
        #: For the time shift to the next given event, and for those past it.
        self.shift_scores = nn.Parameter(torch.zeros(2, width))

    @classmethod
    def of_tokens(cls, tokenizer: Tokenizer) -> dict[str, Any]:
        vocabulary = tokenizer.vocabulary
        if not {"note_off", *CONTROLS, *MARKS} <= set(vocabulary.kinds):
            raise ConfigError(
                "model.features=conditions: expected tokenizer=performance with "
                "tokenizer.controls=true"
            )
        events = event_arguments(tokenizer, cls.name)
        controls = [list(vocabulary.range(name)) for name in CONTROLS]
        marks = [vocabulary.id(mark) for mark in MARKS]
        arguments = {name: events[name] for name in ("steps", "starts", "ends")}
        return {**arguments, "controls": controls, "marks": marks}

    @torch.no_grad()
    def read(self, ids: Tensor, previous_ids: Tensor, positions: Tensor) -> ConditionState:
        all_ids, index, start, new = history(ids, previous_ids, positions)
        start = start[:, new]
        rows, count = ids.shape
        mark, control = self.part[all_ids], self.control[all_ids]

        def last(matches: Tensor) -> Tensor:
            """The index (B, N) of the last token so far that ``matches``, -1 if there is none."""
            return torch.where(matches, index, -1).cummax(1).values

        marks = [last(mark == part) for part in PARTS[1:]]
        is_known = marks[0] > marks[1]  # whether the token belongs to the given notes
        known, stream, here = (torch.where(at[:, new] >= start, at[:, new], -1) for at in marks)
        part = torch.where(known > stream, KNOWN, BEFORE_MARKS)
        part = torch.where(stream > known, STREAM, part)
        part = torch.where((here > stream) & (stream >= 0), HERE, part)
        context_rows = [part]
        row = self.row[all_ids]
        for number in range(len(self.first_rows)):
            at = last(control == number)[:, new]
            level = row.gather(1, at.clamp(min=0))
            context_rows.append(torch.where(at >= start, level, self.first_rows[number]))

        starts = torch.zeros(rows, count, self.pitches, dtype=torch.int64, device=ids.device)
        ends, gap = starts, torch.full((rows, count), NEVER, device=ids.device)
        has_given = (part == HERE) & (known >= 0) & (known < stream)
        # On a GPU, to read whether there are any would make the CPU wait.
        if ids.is_cuda or torch.compiler.is_compiling() or bool(has_given.any()):
            time = self.steps[all_ids].cumsum(1)
            now = time[:, new].contiguous()
            begin, end, origin = (time.gather(1, at.clamp(min=0)) for at in (known, stream, here))
            moment = begin + now - origin  # now, on the clock of the given notes
            # The index of the first token at the current step.
            step_start = torch.maximum(torch.searchsorted(time, now), here + 1)
            gaps, order = [], index.int() + 1
            for events in (self.starts[all_ids], self.ends[all_ids]):
                given_events = torch.where(is_known, events, -1)
                is_written = latest(events, order, self.pitches, new) > step_start[..., None]
                next_time = _next_times(given_events, time, moment, known, is_written)
                is_given = has_given[..., None] & (next_time <= end[..., None])
                gaps.append(torch.where(is_given, next_time - moment[..., None], NEVER))
            starts, ends = (
                torch.where(steps < NEVER, 1 + class_of(steps, classes), 0)
                for steps, classes in zip(gaps, (self.start_class, self.end_class))
            )
            gap = torch.minimum(gaps[0].amin(-1), gaps[1].amin(-1))
        context_rows.append(self.first_time + class_of(gap, self.time_class))
        return ConditionState(torch.stack(context_rows, -1), starts, ends, gap)

    def embed(self, x: Tensor, state: ConditionState) -> Tensor:
        context = F.embedding_bag(state.rows.flatten(0, 1), self.context, mode="sum")
        x = self.embed_states(x + context.view_as(x), state.starts, self.coming)
        return self.embed_states(x, state.ends, self.ending)

    def score(self, logits: Tensor, x: Tensor, state: ConditionState) -> Tensor:
        weights = [F.linear(x, table).float() for table in (self.start_scores, self.end_scores)]
        logits = self.score_states(logits, x, weights, (state.starts, state.ends))
        exact, past = F.linear(x, self.shift_scores).float().split(1, -1)
        gap = state.gap[..., None]
        shifts = (self.steps > 0) & (gap < NEVER)
        is_exact = shifts & (self.steps == gap.clamp(max=self.longest_shift))
        return logits + exact * is_exact + past * (shifts & (self.steps > gap))

    def native(self) -> NativeForm:
        return self.pitch_form(
            "Conditions",
            "part control row first_rows start_class end_class context coming ending first_time "
            "longest_shift",
            [self.start_scores, self.end_scores, self.shift_scores],
            controls=len(self.first_rows),
            start_count=len(self.start_scores),
            end_count=len(self.end_scores),
            longest_start=len(self.start_class),
            longest_end=len(self.end_class),
            never=NEVER,
        )


def _next_times(
    pitch: Tensor, time: Tensor, moment: Tensor, first: Tensor, is_written: Tensor
) -> Tensor:
    """Return the time of the next event of each pitch: (B, T, pitches); 2 ``NEVER``: none.

    pitch       (B, N): the pitch of each token that is an event, -1 for other tokens
    time        (B, N): ascending times of the tokens
    moment      (B, T): the current time; only events at it or later count
    first       (B, T): index of the first token that counts
    is_written  (B, T, pitches): whether the music has an event of the pitch at the current time, so
                that only later ones count
    """
    rows, total = pitch.shape
    pitches = is_written.shape[-1]
    # Tokens in reverse order, after an entry for "none"; contiguous in memory, as in ``latest``.
    table = time.new_full((rows, pitches + 1, total + 1), 2 * NEVER)
    column = torch.where(pitch >= 0, pitch, pitches)
    table[:, :, 1:].scatter_(1, column.flip(1)[:, None], time.flip(1)[:, None])
    next_time = table.cummin(2).values  # from each token on
    at_moment = torch.maximum(torch.searchsorted(time, moment), first.clamp(min=0))
    after_moment = torch.searchsorted(time, moment, right=True)
    now_or_later, later = (
        next_time.gather(2, (total - index)[:, None].expand(-1, pitches + 1, -1))[:, :-1]
        for index in (at_moment, after_moment)
    )
    return torch.where(is_written, later.mT, now_or_later.mT).contiguous()


def _classes(bounds: tuple[int, ...]) -> Tensor:
    """Return the class of each number of steps; longer times have the class of the last entry."""
    return torch.bucketize(torch.arange(bounds[-1] + 1), torch.tensor(bounds), right=True)
