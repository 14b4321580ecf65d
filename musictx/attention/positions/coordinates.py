"""Coordinates of tokens besides their order: time, pitch, voice. Each is an axis of ``two_d``.

A reader computes the coordinate of each token as a query and as a key; the axis measures query
minus key.

    differences  lowest and highest difference with a row in the table; None: the scheme decides
    labels       (K,) int64: all possible values of keys; None if there are too many. Axes with
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
        """The coordinates of tokens ``ids`` (B, T) as queries and as keys, int64 (B, T).

        ``places`` are their positions in their pieces, ``last`` (B,) is the coordinate, as a key,
        of the token before ``ids``, or None.
        """
        raise NotImplementedError


class Time(Reader):
    """Time in steps: the cumulative sum of the steps of ids, including that of the token itself.
    ``steps`` are [first, stop, value] as in :func:`ranges`."""

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
    """The pitches of ids, [first, stop, value] as in :func:`ranges`; other ids have none.

    Differences of pitches are -span..span. Two more rows are for pairs without a difference:
    -span - 1 if the key has no pitch, span + 1 if only the query has none.
    """

    pitch_of: Tensor
    labels: Tensor

    def __init__(self, size: int, pitches: list[list[int]]) -> None:
        super().__init__()
        table = ranges("pitches", size, pitches, -1)
        distinct = table[table >= 0].unique()
        span = int(distinct[-1] - distinct[0]) if len(distinct) else 0
        self.differences = (-span - 1, span + 1)
        # So far from every pitch that differences are clipped. Query minus key is at least
        # far - pitch if only the query has no pitch, and pitch - 2 far or far - 2 far if the key
        # has none.
        self.far = 4 * (int(table.max()) * (len(distinct) > 0) + span + 1)
        labels = torch.cat([distinct, torch.tensor([2 * self.far])])
        self.register_buffer("pitch_of", table, persistent=False)
        self.register_buffer("labels", labels, persistent=False)

    def read(self, ids: Tensor, places: Positions, last: Tensor | None) -> tuple[Tensor, Tensor]:
        pitch = self.pitch_of[ids]
        return pitch.masked_fill(pitch < 0, self.far), pitch.masked_fill(pitch < 0, 2 * self.far)


class Voice(Reader):
    """The voice on a grid on which ``voices`` are written in turn.

    Place 0 of a piece is its first token (bos, cut), place i a note of voice (i - 1) mod voices, so
    the prediction at place i is for voice i mod voices. The coordinate of a query is the next
    voice, that of a key its own voice: difference 0 is the same voice. The first token has no
    voice.
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
    """int64 (size,): the value of each id. Each row [first, stop, value] gives the ids first, first
    + 1, ..., stop - 1 the values value, value + 1, ...; other ids have the value ``missing``."""
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
    """Name of an axis -> the reader of its coordinate, for the options ``coordinates``.

    {"kind": "tokens", "size": ids, "steps": ranges, "pitches": ranges}  events: time and pitch.
        Only time shifts have steps; drums have no pitch, since their numbers name instruments
    {"kind": "grid", "voices": 4, "size": ids, "pitches": ranges}  voices in turn: voice and pitch,
        or only voice without ``pitches``; silence and ties have no pitch
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
    """The options of :func:`readers` for a tokenizer, which are part of the configuration of a
    model. Raises ``ConfigError`` about ``option`` for tokens without such coordinates."""
    table = tokenizer.vocabulary
    if {"time_shift", "note_on", "note_off"} <= set(table.kinds):
        return {
            "kind": "tokens",
            "size": table.size,
            "steps": [table.row("time_shift")],
            "pitches": [table.row("note_on"), table.row("note_off")],
        }
    if tokenizer.voices and "pitch" in table.kinds:
        size, pitches = table.size, [table.row("pitch")]
        return {"kind": "grid", "voices": tokenizer.voices, "size": size, "pitches": pitches}
    raise ConfigError(
        f"{option}: expected tokenizer=performance, whose time shifts add up, or "
        f"tokenizer=chorale, whose voices take turns, not {tokenizer.name}"
    )
