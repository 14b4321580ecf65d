"""One step of decoding as a graph of plain operations, for ONNX.

All that a step remembers goes in and comes out: ids, keys and values in a ring of slots
(model/ring.py), so that features and position schemes read the past as they do in musictx. The
graph is recorded by ``torch.export``; what ONNX has no word for is said in other operations here.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from musictx.model.ring import RingCache
from musictx.model.transformer import MusicTransformer


class _Held(RingCache):
    """A ring whose memory was handed over; nothing is in it before position 0."""

    def __init__(self, position: Tensor, past: Tensor, keys: Tensor, values: Tensor, more: Tensor):
        self.rows, self.capacity, self.layers = *past.shape, len(keys)
        self._keys = [layer.clone() for layer in keys.unbind(0)]
        self._values = [layer.clone() for layer in values.unbind(0)]
        self._ids, self._coordinates = past.clone(), more.clone()
        self._next, self._oldest = position.clone(), torch.zeros_like(position)

    def state(self) -> tuple[Tensor, ...]:
        keys, values = torch.stack(self._keys), torch.stack(self._values)
        return self._ids, keys, values, self._coordinates


class Step(nn.Module):
    """``model`` for one token: all that it remembers goes in and comes out.

    The token at position p overwrites slot p mod ``capacity``, so the window slides by one.
    """

    def __init__(self, model: MusicTransformer, *, rows: int, capacity: int) -> None:
        super().__init__()
        self.model = model
        layers, heads = model.config["layers"], model.config["heads"]
        size = model.config["width"] // heads
        #: What a piece begins with: the names and contents of all arguments.
        self.inputs = {
            "ids": torch.ones(rows, 1, dtype=torch.int64),
            "position": torch.zeros(1, dtype=torch.int64),
            "past": torch.zeros(rows, capacity, dtype=torch.int64),
            "keys": torch.zeros(layers, rows, heads, capacity, size),
            "values": torch.zeros(layers, rows, heads, capacity, size),
        }
        further = model.position.further
        if further:
            shape = (rows, further, capacity)
            self.inputs["coordinates"] = torch.zeros(shape, dtype=torch.int64)

    def forward(
        self,
        ids: Tensor,
        position: Tensor,
        past: Tensor,
        keys: Tensor,
        values: Tensor,
        coordinates: Tensor | None = None,
    ) -> tuple[Tensor, ...]:
        """Logits (rows, vocab), and the last arguments as they are after this token.

        ids (rows, 1) int64, position (1,) int64: the token and its place, from 0; past (rows,
        capacity) int64, keys and values (layers, rows, heads, capacity, head size), and for schemes
        that read further coordinates off the ids, coordinates (rows, further, capacity) int64.
        """
        none = past[:, None, :][:, :0]
        cache = _Held(position, past, keys, values, none if coordinates is None else coordinates)
        logits = self.model(ids, cache=cache)[:, -1]
        state = cache.state()
        return (logits, *state[: 3 if coordinates is None else 4])


def onnx(step: Step, metadata: Mapping[str, str]) -> bytes:
    """``step`` as an ONNX file with ``metadata``; the module's arguments are its inputs by name,
    the outputs ``logits`` and ``new_past``, ``new_keys``, ...

    Needs the packages onnx and onnxscript.
    """
    from onnx_ir import serde

    names = list(step.inputs)
    told = logging.getLogger("torch.onnx")
    level = told.level
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # torch.export's, about its own future
        told.setLevel(logging.ERROR)
        try:
            recorded = torch.export.export(step.eval(), tuple(step.inputs.values()))
            table: Any = torch.export.default_decompositions()
            table[torch.ops.aten.cummax.default] = _running(torch.maximum)
            table[torch.ops.aten.cummin.default] = _running(torch.minimum)
            table[torch.ops.aten.searchsorted.Tensor] = _searchsorted
            table[torch.ops.aten.lerp.Tensor] = _lerp
            table[torch.ops.aten.index.Tensor] = _index
            recorded = recorded.run_decompositions(table)
            program = torch.onnx.export(
                recorded,
                input_names=names,
                output_names=["logits", *(f"new_{name}" for name in names[2:])],
                dynamo=True,
                verbose=False,
            )
        finally:
            told.setLevel(level)
    assert program is not None
    program.model.metadata_props.update(metadata)
    content: bytes = serde.serialize_model(program.model).SerializeToString()
    return content


def _running(best: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., tuple[Tensor, Tensor]]:
    """cummax or cummin by doubling; nobody asks where the best ones stand."""

    def found(x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
        x, far = x.movedim(dim, -1), 1
        while far < x.shape[-1]:
            first = x[..., :1].expand(*x.shape[:-1], far)  # part of every run
            x, far = best(x, torch.cat([first, x[..., :-far]], -1)), 2 * far
        x = x.movedim(-1, dim)
        return x, torch.zeros_like(x, dtype=torch.int64)

    return found


def _searchsorted(edges: Tensor, values: Tensor, *, right: bool = False, **_: object) -> Tensor:
    """How many of ``edges`` (..., N) lie below each of ``values`` (..., T)."""
    one, other = edges[..., None, :], values[..., None]
    return (one <= other if right else one < other).sum(-1)


def _lerp(start: Tensor, end: Tensor, weight: Tensor) -> Tensor:
    return start + weight * (end - start)


def _index(x: Tensor, indices: list[Tensor | None]) -> Tensor:
    """ONNX takes int64 alone for an index."""
    if all(one is None or one.dtype == torch.int64 for one in indices):
        return NotImplemented
    wide = [None if one is None else one.long() for one in indices]
    found: Tensor = torch.ops.aten.index.Tensor(x, wide)
    return found
