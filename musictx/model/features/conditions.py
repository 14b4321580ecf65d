"""The controls of a window and the given notes ahead, at every token.

A window may begin with control tokens and with given notes (``tokens/controls.py``). Both stand
hundreds of tokens before the music that they are about, and the given notes count time from
``here``; early in training a model attends to neither. This feature adds to each token

- the level of every control, and the part of the window that the token is in;
- after ``here``, for every pitch, the time until a given note of it is next struck, and until one
  next ends; and the time until any given event. A given event of this very step that is written
  already does not count;

and it scores each candidate: the start or end of a note by the time until it is given and by its
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

#: Classes of time until a given note is struck, and until one ends, by upper bounds in steps.
START_STEPS, END_STEPS = (1, 4, 10, 25, 50, 100, 200, 400), (1, 10, 50, 200)
#: Parts of a window: before all marks, given notes, music, music to be composed.
PARTS = BEFORE_MARKS, KNOWN, STREAM, HERE = range(4)


class ConditionState(NamedTuple):
    """The state after each of (B, T) tokens, all int64.

    rows    (B, T, K): rows of the table ``Conditions.context``: part, levels, time
    starts  (B, T, pitches): 0 where no start is given, else 1 + its class; ``ends`` alike
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
        "number of learned weightings by which a candidate is scored for its intervals to given "
        "notes ahead",
        low=0,
    )


class Conditions(PitchFeature):
    """Embeddings of controls and given notes ahead, and scores of what may come next.

    controls  of each control the range [first, stop) of its ids, by level
    marks     the ids after which given notes, the music, and the music to be composed begin
    events    the other arguments of :class:`PitchFeature`

    All parameters begin at zero, or so that they have no effect: a trained model to which the
    feature is added computes the same as before at first.
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
        **events: Any,
    ) -> None:
        super().__init__(size, width, chords=chords, **events)
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
        #: For the shift that leads to the next given event; for those that lead past it.
        self.shift_scores = nn.Parameter(torch.zeros(2, width))

    @classmethod
    def of_tokens(cls, tokenizer: Tokenizer) -> dict[str, Any]:
        table = tokenizer.vocabulary
        if not {"note_off", *CONTROLS, *MARKS} <= set(table.kinds):
            raise ConfigError(
                "model.features=conditions: expected tokenizer=performance with "
                "tokenizer.controls=true, whose control tokens say what is asked"
            )
        events = event_arguments(tokenizer, cls.name)
        controls = [list(table.range(name)) for name in CONTROLS]
        marks = [table.id(mark) for mark in MARKS]
        arguments = {name: events[name] for name in ("steps", "starts", "ends")}
        return {**arguments, "controls": controls, "marks": marks}

    @torch.no_grad()
    def read(self, ids: Tensor, earlier: Tensor, places: Tensor) -> ConditionState:
        """The state after each of ``ids``; see :meth:`Feature.read`."""
        every, index, begins, new = history(ids, earlier, places)
        begins = begins[:, new]
        rows, count = ids.shape
        part, control = self.part[every], self.control[every]

        def last(marked: Tensor) -> Tensor:
            """(B, N): where the last marked token is, -1 if there is none."""
            return torch.where(marked, index, -1).cummax(1).values

        given, stream, here = (last(part == which) for which in PARTS[1:])
        in_given = given > stream
        at_given, at_stream, at_here = (
            torch.where(at[:, new] >= begins, at[:, new], -1) for at in (given, stream, here)
        )
        place = torch.where(at_given > at_stream, KNOWN, BEFORE_MARKS)
        place = torch.where(at_stream > at_given, STREAM, place)
        place = torch.where((at_here > at_stream) & (at_stream >= 0), HERE, place)
        context_rows = [place]
        row = self.row[every]
        for number in range(len(self.first_rows)):
            at = last(control == number)[:, new]
            level = row.gather(1, at.clamp(min=0))
            context_rows.append(torch.where(at >= begins, level, self.first_rows[number]))

        starts = torch.zeros(rows, count, self.pitches, dtype=torch.int64, device=ids.device)
        ends, gap = starts, torch.full((rows, count), NEVER, device=ids.device)
        ahead = (place == HERE) & (at_given >= 0) & (at_given < at_stream)
        # To look at one number would wait for a GPU.
        if ids.is_cuda or torch.compiler.is_compiling() or bool(ahead.any()):
            time = self.steps[every].cumsum(1)
            now = time[:, new].contiguous()
            clock = [time.gather(1, at.clamp(min=0)) for at in (at_given, at_stream, at_here)]
            moment = clock[0] + now - clock[2]  # now, on the clock of the given notes
            # The index of the first token that is written at the present step.
            since = torch.maximum(torch.searchsorted(time, now), at_here + 1)
            gaps = []
            for events in (self.starts[every], self.ends[every]):
                given_events = torch.where(in_given, events, -1)
                order = latest(events, index.int() + 1, self.pitches, new)
                when = _next(given_events, time, moment, at_given, order > since[..., None])
                is_given = ahead[..., None] & (when <= clock[1][..., None])
                gaps.append(torch.where(is_given, when - moment[..., None], NEVER))
            starts, ends = (
                torch.where(each < NEVER, 1 + class_of(each, table), 0)
                for each, table in zip(gaps, (self.start_class, self.end_class))
            )
            gap = torch.minimum(gaps[0].amin(-1), gaps[1].amin(-1))
        context_rows.append(self.first_time + class_of(gap, self.time_class))
        return ConditionState(torch.stack(context_rows, -1), starts, ends, gap)

    def embed(self, x: Tensor, seen: ConditionState) -> Tensor:
        """Embeddings ``x`` (B, T, width) and the vectors of controls and given notes."""
        context = F.embedding_bag(seen.rows.flatten(0, 1), self.context, mode="sum")
        x = self.embed_states(x + context.view_as(x), seen.starts, self.coming)
        return self.embed_states(x, seen.ends, self.ending)

    def score(self, logits: Tensor, x: Tensor, seen: ConditionState) -> Tensor:
        """``logits`` (B, T, vocab) plus the scores of given notes and of shifts to them."""
        weights = [F.linear(x, table).float() for table in (self.start_scores, self.end_scores)]
        logits = self.score_states(logits, x, weights, (seen.starts, seen.ends))
        exact, past = F.linear(x, self.shift_scores).float().split(1, -1)
        gap = seen.gap[..., None]
        shifts = (self.steps > 0) & (gap < NEVER)
        leads = shifts & (self.steps == gap.clamp(max=self.longest_shift))
        return logits + exact * leads + past * (shifts & (self.steps > gap))

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


def _next(pitch: Tensor, time: Tensor, moment: Tensor, first: Tensor, written: Tensor) -> Tensor:
    """(B, T, pitches): the time of the next event of each pitch, 2 ``NEVER`` where there is none.

    pitch    (B, N): the pitch of each token that is an event, -1 for other tokens
    time     (B, N): ascending times of the tokens
    moment   (B, T): the present time; only events at it or later count
    first    (B, T): index of the first token that counts
    written  (B, T, pitches): whether the event at the present time is written already, so that only
             later ones count
    """
    rows, total = pitch.shape
    pitches = written.shape[-1]
    # Tokens in reverse order, after an entry for "none"; contiguous in memory, as in ``latest``.
    table = time.new_full((rows, pitches + 1, total + 1), 2 * NEVER)
    at = torch.where(pitch >= 0, pitch, pitches)
    table[:, :, 1:].scatter_(1, at.flip(1)[:, None], time.flip(1)[:, None])
    coming = table.cummin(2).values  # from each token on
    now = torch.maximum(torch.searchsorted(time, moment), first.clamp(min=0))
    later = torch.searchsorted(time, moment, right=True)
    then, after = (
        coming.gather(2, (total - where)[:, None].expand(-1, pitches + 1, -1))[:, :-1]
        for where in (now, later)
    )
    return torch.where(written, after.transpose(1, 2), then.transpose(1, 2)).contiguous()


def _classes(bounds: tuple[int, ...]) -> Tensor:
    """The class of a time in steps; from the last entry on, always the same."""
    return torch.bucketize(torch.arange(bounds[-1] + 1), torch.tensor(bounds), right=True)
