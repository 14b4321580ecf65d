"""Relative attention along several axes of music: Huang et al. (2018), section 3.3.

"Relative attention ... to additionally capture relative timing and pitch": beside their order,
tokens stand somewhere in time and have a pitch (or a voice). Where, is read off the tokens, so that
the model needs nothing but ids:

    tokens   event vocabularies: two tables over all ids say how much time an id takes and which
             pitch it has. Time is the running sum.
    grid     a fixed grid of voices, as of four-part chorales: time is place div voices, and the
             other axis is the voice, place mod voices

What the tables hold is part of the model's configuration. Terms with more than one axis are
computed by the ``reference`` implementation; layers without the further axes as ever.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor, nn

from musictx.attention.positions.base import Options
from musictx.attention.positions.huang import Huang, learned_tables
from musictx.attention.terms import FURTHER, Axis, Positions, Span, Terms
from musictx.errors import ConfigError

TIME, PITCH = 0, 1


class TwoD(Huang):
    """Huang's tables by order, and in the ``first_layers`` one by time and one by pitch (or voice).

    The time table has a row for each distance below ``max_time``, in the vocabulary's own steps;
    longer ones share the last. The other table has a row for each difference that can be.
    """

    further = 2

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self.source = source(options.coordinates)
        self.longest = options.max_time - 1
        layers = min(options.first_layers, options.layers)
        self.time_tables = learned_tables(options, options.low(self.longest), self.longest, layers)
        self.pitch_tables = learned_tables(options, *self.source.differences, layers)

    @staticmethod
    def defaults(context: int, width: int) -> dict[str, int]:
        return {"max_distance": max(1, context // 2), "first_layers": 1, "max_time": 512}

    def coordinates(
        self, ids: Tensor, places: Positions, last: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        return self.source(ids, places, last)

    def terms(self, layer: int = 0, *, reach: int = 0) -> Terms:
        order = super().terms(layer, reach=reach)
        if layer >= len(self.time_tables):
            return order
        time = Axis(
            table=self.time_tables[layer],
            low=self.options.low(self.longest),
            high=self.longest,
            coordinate=FURTHER + TIME,
        )
        low, high = self.source.differences
        pitch = Axis(table=self.pitch_tables[layer], low=low, high=high, coordinate=FURTHER + PITCH)
        return Terms(self.scale, (*order.axes, time, pitch))


class Source(Protocol):
    """Where time and pitch come from; see :meth:`PositionScheme.coordinates`."""

    #: Lowest and highest difference of the second coordinate.
    differences: tuple[int, int]

    def __call__(
        self, ids: Tensor, places: Positions, last: Tensor | None
    ) -> tuple[Tensor, Tensor]: ...


class Tokens(nn.Module):
    """Coordinates by looking up ids.

    size     number of token ids
    steps    [first, stop, value]: ids first, first + 1, ... take value, value + 1, ... steps of
             time; the others none. A token stands where its time has passed
    pitches  the same for pitches; the other ids have none

    Pitches differ by -span..span. Two more rows are for pairs without a difference: -span - 1 where
    the key has no pitch, span + 1 where only the query has none.
    """

    steps_of: Tensor
    pitch_of: Tensor

    def __init__(self, size: int, steps: list[list[int]], pitches: list[list[int]]) -> None:
        super().__init__()
        steps_of, pitch_of = ranges("steps", size, steps, 0), ranges("pitches", size, pitches, -1)
        known = [p for p in pitch_of if p >= 0]
        span = max(known) - min(known) if known else 0
        self.differences = (-span - 1, span + 1)
        self.far = 4 * (max(known, default=0) + span + 1)  # beyond every pitch, clipped
        self.register_buffer("steps_of", torch.tensor(steps_of), persistent=False)
        self.register_buffer("pitch_of", torch.tensor(pitch_of), persistent=False)

    def __call__(
        self, ids: Tensor, places: Positions, last: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        time = self.steps_of[ids].cumsum(1)
        if last is not None:
            time = time + last[:, TIME, None]
        pitch = self.pitch_of[ids]
        # Query minus key: at least far - pitch where the query alone has none, pitch - 2 far or
        # far - 2 far where the key has none.
        as_query = pitch.masked_fill(pitch < 0, self.far)
        as_key = pitch.masked_fill(pitch < 0, 2 * self.far)
        return torch.stack([time, as_query], dim=1), torch.stack([time, as_key], dim=1)


def ranges(name: str, size: int, given: list[list[int]], missing: int) -> list[int]:
    """For each of ``size`` ids its value by the ranges [first, stop, value], or ``missing``."""
    table = [missing] * size
    for first, stop, value in given:
        if not 0 <= first <= stop <= size or value < 0:
            raise ConfigError(
                f"position.coordinates.{name}=[{first}, {stop}, {value}]: expected ids from 0 to "
                f"{size} and a value from 0"
            )
        table[first:stop] = range(value, value + stop - first)
    return table


class Grid:
    """Coordinates by place on a grid of ``voices``: time div, voice mod."""

    def __init__(self, voices: int) -> None:
        if voices < 1:
            raise ConfigError(f"position.coordinates.voices={voices}: expected at least 1")
        self.voices = voices
        self.differences = (1 - voices, voices - 1)

    def __call__(
        self, ids: Tensor, places: Positions, last: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        place = places.tensor(ids.device) if isinstance(places, Span) else places
        place = place.expand_as(ids)
        found = torch.stack([place // self.voices, place % self.voices], dim=1)
        return found, found


def source(coordinates: dict[str, Any] | None) -> Source:
    """``{"kind": "tokens", "size": ..., "steps": ..., "pitches": ...}`` or ``{"kind": "grid",
    "voices": 4}`` -> what reads coordinates so."""
    kinds = {"tokens": Tokens, "grid": Grid}
    given = dict(coordinates or {})
    kind = given.pop("kind", None)
    if kind not in kinds:
        raise ConfigError(
            f"position.coordinates.kind={kind}: two_d measures time and pitch and needs to know "
            "where they come from, tokens or grid"
        )
    found: Source = kinds[kind](**given)
    return found
