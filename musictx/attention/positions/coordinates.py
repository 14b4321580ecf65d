"""Coordinates of tokens other than their order: time, pitch, voice. Each is an axis of ``two_d``.

A reader gives the coordinate of each token as a query and as a key; the axis measures the first
minus the second.

    differences  lowest and highest difference with a row in the table, None if the scheme chooses
    labels       (K,) int64: all values that keys can have, None if there are too many. Axes with
                 labels are computed in linear memory (speed/labels.py)
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from musictx.attention.terms import Positions, as_tensor
from musictx.errors import ConfigError
from musictx.tokens.tokenizer import Tokenizer


class Reader(nn.Module):
    """One coordinate of tokens."""

    differences: tuple[int, int] | None = None
    labels: Tensor | None

    def read(self, ids: Tensor, places: Positions, last: Tensor | None) -> tuple[Tensor, Tensor]:
        """(as queries, as keys), int64 (B, T), of tokens ``ids`` (B, T) at ``places`` in their
        pieces; ``last`` (B,): this coordinate of the token before them, as a key; None if none."""
        raise NotImplementedError


class Time(Reader):
    """Steps of time passed: the running sum of what ids take, [first, stop, value] as in
    :func:`ranges`. A token stands where its own time has passed."""

    steps_of: Tensor

    def __init__(self, size: int, steps: list[list[int]]) -> None:
        super().__init__()
        self.labels = None
        self.register_buffer("steps_of", ranges("steps", size, steps, 0), persistent=False)

    def read(self, ids: Tensor, places: Positions, last: Tensor | None) -> tuple[Tensor, Tensor]:
        time = self.steps_of[ids].cumsum(1)
        if last is not None:
            time = time + last[:, None]
        return time, time


class Pitch(Reader):
    """Pitches that ids have, [first, stop, value] as in :func:`ranges`; the other ids have none.

    Pitches differ by -span..span. Two more rows are for pairs without a difference: -span - 1 where
    the key has no pitch, span + 1 where only the query has none.
    """

    pitch_of: Tensor
    labels: Tensor

    def __init__(self, size: int, pitches: list[list[int]]) -> None:
        super().__init__()
        table = ranges("pitches", size, pitches, -1)
        distinct = table[table >= 0].unique()
        span = int(distinct[-1] - distinct[0]) if len(distinct) else 0
        self.differences = (-span - 1, span + 1)
        # Beyond every pitch, and clipped. Query minus key is at least far - pitch where the query
        # alone has none; pitch - 2 far, or far - 2 far, where the key has none.
        self.far = 4 * (int(table.max()) * (len(distinct) > 0) + span + 1)
        labels = torch.cat([distinct, torch.tensor([2 * self.far])])
        self.register_buffer("pitch_of", table, persistent=False)
        self.register_buffer("labels", labels, persistent=False)

    def read(self, ids: Tensor, places: Positions, last: Tensor | None) -> tuple[Tensor, Tensor]:
        pitch = self.pitch_of[ids]
        return pitch.masked_fill(pitch < 0, self.far), pitch.masked_fill(pitch < 0, 2 * self.far)


class Voice(Reader):
    """The voice by the place on a grid, where ``voices`` are written in turn.

    Place 0 of a piece is what opens it (bos, cut), place i the note of voice (i - 1) mod voices; so
    what is predicted at place i is voice i mod voices. A query stands at the voice to be written
    next, a key at its own: difference 0 is the same voice. What opens a piece has none and is not
    measured.
    """

    labels: Tensor

    def __init__(self, voices: int) -> None:
        super().__init__()
        if voices < 1:
            raise ConfigError(f"position.coordinates.voices={voices}: expected at least 1")
        self.voices = voices
        self.differences = (1 - voices, voices - 1)
        self.register_buffer("labels", torch.arange(voices), persistent=False)

    def read(self, ids: Tensor, places: Positions, last: Tensor | None) -> tuple[Tensor, Tensor]:
        place = as_tensor(places, ids.device).expand_as(ids)
        as_key = ((place - 1) % self.voices).masked_fill(place == 0, -1)
        return place % self.voices, as_key


def ranges(name: str, size: int, rows: list[list[int]], missing: int) -> Tensor:
    """For each of ``size`` ids its value: ids first, first + 1, ... before stop of each [first,
    stop, value] have value, value + 1, ...; the others ``missing``. int64 (size,)."""
    table = torch.full((size,), missing)
    for first, stop, value in rows:
        if not 0 <= first <= stop <= size or value < 0:
            raise ConfigError(
                f"position.coordinates.{name}=[{first}, {stop}, {value}]: expected ids from 0 to "
                f"{size} and a value from 0"
            )
        table[first:stop] = torch.arange(value, value + stop - first)
    return table


def readers(coordinates: dict[str, Any] | None) -> dict[str, Reader]:
    """What can be read off the tokens that ``coordinates`` describes: name of the axis -> reader.

    {"kind": "tokens", "size": ids, "steps": ranges, "pitches": ranges}  events: time and pitch.
        Only time shifts take steps; drums have no pitch: their numbers name instruments
    {"kind": "grid", "voices": 4, "size": ids, "pitches": ranges}  voices in turn: voice and pitch,
        or voice alone where ``pitches`` are not given; silence and ties have no pitch
    """
    given = dict(coordinates or {})
    kind = given.pop("kind", None)
    if kind == "tokens":
        return _tokens(**given)
    if kind == "grid":
        return _grid(**given)
    raise ConfigError(
        f"position.coordinates.kind={kind}: two_d measures time, pitch or voice and needs to know "
        "where they come from, tokens or grid"
    )


def _tokens(size: int, steps: list[list[int]], pitches: list[list[int]]) -> dict[str, Reader]:
    return {"time": Time(size, steps), "pitch": Pitch(size, pitches)}


def _grid(
    voices: int, size: int | None = None, pitches: list[list[int]] | None = None
) -> dict[str, Reader]:
    by_name: dict[str, Reader] = {"voice": Voice(voices)}
    if size is not None and pitches is not None:
        by_name["pitch"] = Pitch(size, pitches)
    return by_name


def token_coordinates(tokenizer: Tokenizer, option: str = "position.name=two_d") -> dict[str, Any]:
    """What :func:`readers` reads, from the vocabulary of a tokenizer; it is written into the
    configuration of a model. Raises ``ConfigError``, naming the ``option`` that asks, for tokens
    whose time does not follow from those before them."""
    table = tokenizer.vocabulary
    kinds = set() if table is None else set(table.kinds)
    if table is not None and {"time_shift", "note_on", "note_off"} <= kinds:
        return {
            "kind": "tokens",
            "size": tokenizer.size,
            "steps": [table.row("time_shift")],
            "pitches": [table.row("note_on"), table.row("note_off")],
        }
    if table is not None and tokenizer.voices and "pitch" in kinds:
        pitches = [table.row("pitch")]
        size, voices = tokenizer.size, tokenizer.voices
        return {"kind": "grid", "voices": voices, "size": size, "pitches": pitches}
    raise ConfigError(
        f"{option}: expected tokenizer=performance, whose time shifts add up, or "
        f"tokenizer=chorale, whose voices take turns, not {tokenizer.name}"
    )
