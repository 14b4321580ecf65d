"""A vocabulary: the kind and the value of each id.

A vocabulary is a short table of (kind, lowest value, highest value), and ids are numbered in the
order of the table. The hash of the table, its fingerprint, shows whether two files or models use
the same tokens.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from musictx.errors import UserError


class Field(NamedTuple):
    """One row of a vocabulary: ``kind`` with each integer from ``low`` to ``high``, inclusive."""

    kind: str
    low: int
    high: int

    @property
    def width(self) -> int:
        """The number of values."""
        return self.high - self.low + 1


#: The first four ids of every vocabulary. ``pad`` fills rows and is never a target. ``bos`` begins
#: a piece, ``eos`` ends it; ``cut`` begins a window from the middle of a piece.
PAD, BOS, EOS, CUT = range(4)
SPECIALS = (Field("pad", 0, 0), Field("bos", 0, 0), Field("eos", 0, 0), Field("cut", 0, 0))


@dataclass(frozen=True)
class Vocabulary:
    """An ordered table of (kind, low, high). It numbers its tokens (kind, value) from 0."""

    fields: tuple[Field, ...]

    @classmethod
    def of(cls, *fields: tuple[str, int, int]) -> Vocabulary:
        """A vocabulary of the special ids followed by ``fields``, rows of (kind, low, high)."""
        return cls(SPECIALS + tuple(Field(*f) for f in fields))

    def __post_init__(self) -> None:
        kinds = [f.kind for f in self.fields]
        if len(set(kinds)) != len(kinds):
            raise ValueError(f"vocabulary: kinds must differ, got {kinds}")
        for f in self.fields:
            if f.high < f.low:
                raise ValueError(f"vocabulary: {f.kind} has no values from {f.low} to {f.high}")
        if self.size > 65536:
            raise UserError(
                f"tokenizer: these options give {self.size} ids; expected at most 65536 (uint16)"
            )

    @cached_property
    def _offsets(self) -> dict[str, tuple[int, Field]]:
        offsets = accumulate((f.width for f in self.fields), initial=0)
        return {f.kind: (first, f) for first, f in zip(offsets, self.fields)}

    @cached_property
    def size(self) -> int:
        """The number of ids, including the special ones."""
        return sum(f.width for f in self.fields)

    @property
    def kinds(self) -> tuple[str, ...]:
        return tuple(f.kind for f in self.fields)

    @cached_property
    def kind_of(self) -> np.ndarray:
        """(size,) int64: the index in :attr:`kinds` of the kind of each id; read-only."""
        kinds = np.repeat(np.arange(len(self.fields)), [f.width for f in self.fields])
        kinds.setflags(write=False)
        return kinds

    @cached_property
    def value_of(self) -> np.ndarray:
        """(size,) int64: the value of each id; read-only."""
        values = np.concatenate([np.arange(f.low, f.high + 1) for f in self.fields])
        values.setflags(write=False)
        return values

    @cached_property
    def tokens(self) -> tuple[tuple[str, int], ...]:
        """(kind, value) of each id."""
        return tuple((f.kind, value) for f in self.fields for value in range(f.low, f.high + 1))

    def range(self, kind: str) -> tuple[int, int]:
        """(first, stop): the ids of ``kind`` are first, ..., stop - 1."""
        offset, f = self._offset_and_field(kind)
        return offset, offset + f.width

    @cached_property
    def slices(self) -> dict[str, slice]:
        """{kind: the slice of its ids}."""
        return {kind: slice(*self.range(kind)) for kind in self.kinds}

    def values_in(self, kind: str) -> np.ndarray:
        """The values of the ids of ``kind``, in the order of the ids."""
        return self.value_of[self.slices[kind]]

    def value_range(self, kind: str) -> list[int]:
        """[first, stop, low]: the ids first, ..., stop - 1 of ``kind`` have the values low,
        low + 1, ..."""
        first, stop = self.range(kind)
        return [first, stop, self._offset_and_field(kind)[1].low]

    def values(self, kind: str) -> np.ndarray:
        """(size,) int64: the value of each id of ``kind``; -1 for other ids, and for all ids if the
        vocabulary does not have this kind."""
        values = np.full(self.size, -1, np.int64)
        if kind in self.kinds:
            values[self.slices[kind]] = self.values_in(kind)
        return values

    def id(self, kind: str, value: int = 0) -> int:
        """The id of a token. Raises ``ValueError`` if the vocabulary has no such kind or value."""
        offset, f = self._offset_and_field(kind)
        if not f.low <= value <= f.high:
            raise ValueError(f"{kind} {value}: expected a value from {f.low} to {f.high}")
        return offset + int(value) - f.low

    def ids(self, kind: str, values: np.ndarray) -> np.ndarray:
        """(n,) int64: :meth:`id` of each of the ``values`` (n,)."""
        offset, f = self._offset_and_field(kind)
        outside = values[(values < f.low) | (values > f.high)]
        if len(outside):
            self.id(kind, outside[0])
        return values.astype(np.int64) + (offset - f.low)

    def as_ids(self, ids: np.ndarray | Sequence[int]) -> np.ndarray:
        """(n,) int64: ``ids`` as a flat array. Raises ``ValueError`` if one is not an id."""
        array = np.asarray(ids).reshape(-1)
        if array.size and array.dtype.kind not in "iu":
            raise ValueError(f"token ids: expected whole numbers, got {array.dtype}")
        array = array.astype(np.int64)
        outside = (array < 0) | (array >= self.size)
        if outside.any():
            raise ValueError(f"token id {array[outside][0]}: expected 0 to {self.size - 1}")
        return array

    def token(self, token_id: int) -> tuple[str, int]:
        """(kind, value) of one id."""
        if not 0 <= token_id < self.size:
            raise ValueError(f"token id {token_id}: expected 0 to {self.size - 1}")
        return self.tokens[token_id]

    def _offset_and_field(self, kind: str) -> tuple[int, Field]:
        if kind not in self._offsets:
            raise ValueError(f"kind {kind!r}: expected one of {', '.join(self.kinds)}")
        return self._offsets[kind]

    def describe(self, token_id: int) -> str:
        """A readable form of a token, such as ``note_on:60`` or ``bos``."""
        kind, value = self.token(token_id)
        width = self._offset_and_field(kind)[1].width
        return kind if width == 1 and value == 0 else f"{kind}:{value}"

    @cached_property
    def fingerprint(self) -> str:
        """16 hexadecimal digits, which change if the meaning of any id changes."""
        canonical = json.dumps([list(f) for f in self.fields], separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()[:16]
