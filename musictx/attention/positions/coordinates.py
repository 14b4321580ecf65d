"""Coordinates of tokens other than their order: time, pitch, voice. Each is an axis of ``two_d``.

A reader computes the coordinate of each token as a query and as a key; the axis measures the
coordinate of the query minus that of the key.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from musictx.attention.terms import Positions, as_tensor
from musictx.config.checks import create
from musictx.errors import ConfigError
from musictx.tokens.tokenizer import Tokenizer


class Reader(nn.Module):
    """Computes one coordinate of tokens.

    differences  lowest and highest difference with a row in the table; None: the scheme decides
    labels       (K,) int64: the values of keys that the axis measures, as in :class:`.Axis`; None:
                 all values
    """

    differences: tuple[int, int] | None = None
    labels: Tensor | None

    def read(self, ids: Tensor, positions: Positions, last: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return the coordinates of tokens ``ids`` (B, T), as queries and as keys: int64 (B, T).

        positions  the positions of ``ids`` in their pieces
        last       (B,) the coordinate, as a key, of the token before ``ids``; None: there is none
        """
        raise NotImplementedError


class Time(Reader):
    """Time in steps: the sum of all time shifts up to and including the token. ``steps`` are rows
    as in :func:`value_table`."""

    steps_of: Tensor

    def __init__(self, size: int, steps: list[list[int]]) -> None:
        super().__init__()
        self.labels = None
        self.register_buffer("steps_of", value_table("steps", size, steps, 0), persistent=False)

    def read(self, ids: Tensor, positions: Positions, last: Tensor | None) -> tuple[Tensor, Tensor]:
        time = self.steps_of[ids].cumsum(1)
        if last is not None:
            time = time + last[:, None]
        return time, time


class Pitch(Reader):
    """The pitch of a token. ``pitches`` are rows as in :func:`value_table`; other ids have none.

    Differences of pitches are -span..span. Two more are for pairs of a query and a key that lack a
    pitch: -span - 1 if the key has none, span + 1 if only the query has none.
    """

    pitch_of: Tensor
    labels: Tensor

    def __init__(self, size: int, pitches: list[list[int]]) -> None:
        super().__init__()
        table = value_table("pitches", size, pitches, -1)
        distinct = table[table >= 0].unique()
        lowest, highest = (int(distinct[0]), int(distinct[-1])) if len(distinct) else (0, 0)
        span = highest - lowest
        self.differences = (-span - 1, span + 1)
        # A query without a pitch has the coordinate far, such a key 2 far. The differences of these
        # pairs exceed the span and are clipped: far - pitch; pitch - 2 far; far - 2 far.
        self.far = 4 * (highest + span + 1)
        labels = torch.cat([distinct, torch.tensor([2 * self.far])])
        self.register_buffer("pitch_of", table, persistent=False)
        self.register_buffer("labels", labels, persistent=False)

    def read(self, ids: Tensor, positions: Positions, last: Tensor | None) -> tuple[Tensor, Tensor]:
        pitch = self.pitch_of[ids]
        return pitch.masked_fill(pitch < 0, self.far), pitch.masked_fill(pitch < 0, 2 * self.far)


class Voice(Reader):
    """The voice of a token on a grid that interleaves ``voices`` voices.

    Position 0 of a piece is its first token (bos, cut), which has no voice. Position i is a note of
    voice (i - 1) mod voices, and the token predicted there is of voice i mod voices. A query has
    the voice of the predicted token, a key its own: difference 0 is the same voice.
    """

    labels: Tensor

    def __init__(self, voices: int) -> None:
        super().__init__()
        if voices < 1:
            raise ConfigError(f"position.coordinates.voices={voices}: expected at least 1")
        self.voices = voices
        self.differences = (1 - voices, voices - 1)
        self.register_buffer("labels", torch.arange(voices), persistent=False)

    def read(self, ids: Tensor, positions: Positions, last: Tensor | None) -> tuple[Tensor, Tensor]:
        position = as_tensor(positions, ids.device).expand_as(ids)
        as_key = ((position - 1) % self.voices).masked_fill(position == 0, -1)
        return position % self.voices, as_key


def value_table(name: str, size: int, rows: list[list[int]], missing: int) -> Tensor:
    """Return the value of each id: int64 (size,). A row [first, stop, value] maps the ids first,
    ..., stop - 1 to value, value + 1, ...; all other ids have the value ``missing``."""
    table = torch.full((size,), missing)
    for first, stop, value in rows:
        if not 0 <= first <= stop <= size or value < 0:
            raise ConfigError(
                f"position.coordinates.{name}=[{first}, {stop}, {value}]: expected "
                f"0 <= first <= stop <= {size} and value >= 0"
            )
        table[first:stop] = torch.arange(value, value + stop - first)
    return table


def readers(coordinates: dict[str, Any] | None) -> dict[str, Reader]:
    """Return {name of an axis: reader of its coordinate} for the options ``coordinates``:

    {"kind": "tokens", "size": number of ids, "steps": rows, "pitches": rows}  event tokens: time
        and pitch. Drums have no pitch, since their numbers name instruments
    {"kind": "grid", "voices": 4, "size": number of ids, "pitches": rows}  interleaved voices: voice
        and, if there are "pitches", pitch. Rests and ties have no pitch

    Rows are those of :func:`value_table`. Raises ``ConfigError`` for an unknown kind or option.
    """
    options = dict(coordinates or {})
    kind = options.pop("kind", None)
    makers: dict[Any, Callable[..., Any]] = {"tokens": _event_readers, "grid": _grid_readers}
    if kind not in makers:
        raise ConfigError(
            f"position.coordinates.kind={kind}: two_d needs the time, pitch or voice of tokens; "
            "expected tokens or grid"
        )
    axes: dict[str, Reader] = create("position.coordinates.kind", kind, makers[kind], **options)
    return axes


def _event_readers(
    size: int, steps: list[list[int]], pitches: list[list[int]]
) -> dict[str, Reader]:
    return {"time": Time(size, steps), "pitch": Pitch(size, pitches)}


def _grid_readers(
    voices: int, size: int = 0, pitches: list[list[int]] | None = None
) -> dict[str, Reader]:
    voice = Voice(voices)
    return {"voice": voice} if pitches is None else {"voice": voice, "pitch": Pitch(size, pitches)}


def token_coordinates(tokenizer: Tokenizer, option: str = "position.name=two_d") -> dict[str, Any]:
    """Return the options of :func:`readers` for a tokenizer, for the configuration of a model.
    Raises ``ConfigError``, naming ``option``, if its tokens have no such coordinates."""
    vocabulary = tokenizer.vocabulary
    if {"time_shift", "note_on", "note_off"} <= set(vocabulary.kinds):
        return {
            "kind": "tokens",
            "size": vocabulary.size,
            "steps": [vocabulary.value_range("time_shift")],
            "pitches": [vocabulary.value_range("note_on"), vocabulary.value_range("note_off")],
        }
    if tokenizer.voices and "pitch" in vocabulary.kinds:
        size, pitches = vocabulary.size, [vocabulary.value_range("pitch")]
        return {"kind": "grid", "voices": tokenizer.voices, "size": size, "pitches": pitches}
    raise ConfigError(
        f"{option}: expected tokenizer=performance (with time shifts) or tokenizer=chorale (with "
        f"interleaved voices), not {tokenizer.name}"
    )
