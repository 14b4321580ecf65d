"""Decoding on the CPU with one call of C++ per token, over a ring buffer of keys and values.

The C++ step (speed/native/step.cpp) computes the forward pass of model/transformer.py for one new
id in each row. Like the attention kernel, its library is prebuilt or compiled once. Where that
fails, and for models that the step does not support (:func:`why_not`), decoding uses ordinary
forward passes.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from musictx.attention.positions import PositionScheme
from musictx.attention.positions.absolute import Learned, Sinusoidal
from musictx.attention.positions.coordinates import Pitch, Time, Voice
from musictx.attention.positions.rotary import Rotary
from musictx.model.cache import Cache, KVCache
from musictx.model.transformer import MusicTransformer
from musictx.speed import packed
from musictx.speed.native import build
from musictx.speed.packed import Packed, Ring

SOURCE = Path(build.__file__).with_name("step.cpp")
#: For how many positions the vectors added to the embedding are computed at once.
PLACES = 256


def why_not(model: MusicTransformer) -> str | None:
    """Why the C++ step cannot be used for ``model`` on this machine, or None if it can."""
    if type(model) is not MusicTransformer:
        return f"it computes a MusicTransformer, not a {type(model).__name__}"
    if part := _altered(model):
        return f"it uses only the weights, and {part} is replaced, wrapped or has hooks"
    weight, scheme = model.embedding.weight, model.position
    if weight.device.type != "cpu" or weight.dtype != torch.float32:
        return f"it computes float32 on the CPU, not {weight.dtype} on {weight.device.type}"
    readers = getattr(scheme, "readers", {})
    built_in = (
        type(scheme).embed in (PositionScheme.embed, Sinusoidal.embed, Learned.embed)
        and type(scheme).rotate in (PositionScheme.rotate, Rotary.rotate)
        and (scheme.added is None or model.cascade is None)
        and scheme.further == len(readers)
        and all(type(reader) in (Pitch, Time, Voice) for reader in readers.values())
    )
    if not built_in:
        return "it supports only the position schemes of musictx"
    for feature in model.features:
        if feature.native() is None:
            reason = f"the feature {feature.name} has no form in C++"
            _warn_once(f"generation is slower than it could be: {reason}")
            return reason
    return _missing(_headers(model))


#: The torch layers of which an unmodified network consists.
_LAYERS = (
    *(nn.Embedding, nn.Linear, nn.LayerNorm, nn.GELU, nn.Dropout),
    *(nn.Sequential, nn.ModuleList, nn.ModuleDict, nn.ParameterList),
)


def _altered(model: MusicTransformer) -> str | None:
    """The name of a module whose output does not follow from its weights alone, or None: a wrapper,
    a module that is parametrized, quantised or compiled, or one with hooks."""
    files = {type(feature).__module__ for feature in model.features}
    for name, part in model.named_modules():
        kind = type(part)
        built_in = kind.__module__.startswith("musictx.") or kind.__module__ in files
        hooked = part._forward_hooks or part._forward_pre_hooks or "forward" in vars(part)
        if hooked or not (built_in or kind in _LAYERS or isinstance(part, PositionScheme)):
            return name or type(model).__name__
    return None


Headers = tuple[tuple[str, Path], ...]


def _headers(model: MusicTransformer) -> Headers:
    """(struct, header) of each feature."""
    forms = [feature.native() for feature in model.features]
    return tuple((form.struct, form.header) for form in forms if form is not None)


@functools.cache
def _warn_once(message: str) -> None:
    print(f"musictx: {message}", file=sys.stderr)


@functools.cache
def _missing(headers: Headers) -> str | None:
    """Why the library is not available, or None. It is built now if necessary; each process tries
    once."""
    return build.failure(lambda: _library(headers), "generation is slower than it could be: ")


@functools.cache
def _library(headers: Headers) -> ctypes.CDLL:
    """The library of the step for models with these features: the prebuilt one if it contains them
    all, otherwise one compiled with their headers."""
    path, package = build.prebuilt(SOURCE), Path(build.__file__).parents[2]
    if path is not None and all(header.is_relative_to(package) for _, header in headers):
        library = ctypes.CDLL(str(path))
        if {struct for struct, _ in headers} <= set(_features(library)):
            return library
    return ctypes.CDLL(str(build.built(SOURCE, headers)))


def _features(library: ctypes.CDLL) -> list[str]:
    """The names of the feature structs that ``library`` was compiled with, in its order."""
    library.musictx_features.restype = ctypes.c_char_p
    names: str = library.musictx_features().decode()
    return [name.strip() for name in names.split(",") if name.strip()]


#: Model -> the versions of its weights when they were packed, and the packed weights.
_PACKS: WeakKeyDictionary[MusicTransformer, tuple[object, Packed]] = WeakKeyDictionary()


def _packed(model: MusicTransformer, reach: int, features: list[str]) -> Packed:
    """The current weights of ``model``, packed for C++.

    Packing takes as long as fifty steps, so it is repeated only after the weights have changed.
    Sums of the weights reveal changes that torch's version counters miss.
    """
    weights = [*model.parameters(), *model.buffers()]
    versions = [None if weight.is_inference() else weight._version for weight in weights]
    sums = [float(weight.detach().sum()) for weight in weights]
    state = reach, features, versions, sums
    entry = _PACKS.get(model)
    if entry is None or entry[0] != state:
        entry = _PACKS[model] = state, Packed(model, reach, features)
    return entry[1]


class NativeStep:
    """Run ``model`` one id at a time, for ``rows`` sequences of equal length at once.

    cache     the state after the ids so far, at least one; of one row (shared by all) or ``rows``
    capacity  how many of the latest ids attention covers. Once there are more, the window slides by
              one id, or, in a model with a cascade, by the group of ids that forms one token of
              the layers

    The weights are copied when the object is created. Raises ``ValueError`` if :func:`why_not`
    gives a reason, and for numbers that do not fit.
    """

    def __init__(self, model: MusicTransformer, cache: Cache, *, rows: int, capacity: int) -> None:
        if reason := why_not(model):
            raise ValueError(f"NativeStep: {reason}")
        if rows < 1 or capacity < 1 or cache.rows not in (1, rows):
            raise ValueError(
                f"NativeStep: rows={rows}, capacity={capacity} and a cache of {cache.rows} rows: "
                "expected at least 1 each, and a cache of one row or of as many"
            )
        group = 1 if model.cascade is None else model.cascade.size
        capacity = capacity // group + (group > 1)
        library = _library(_headers(model))
        self._model = model
        self._packed = _packed(model, capacity - 1, _features(library))
        self._run = library.musictx_step
        layers, heads, width = model.config.layers, model.config.heads, model.config.width
        size = width // heads
        further = model.position.further
        self.rows, self.capacity, self._group = rows, capacity, group
        self._ring = Ring((layers, rows, heads), capacity, size, self._packed.in_bytes)
        self._coordinates = torch.zeros(rows, further, capacity, dtype=torch.int64)
        self._ids = torch.zeros(rows, capacity * group, dtype=torch.int64)
        self._states, self._sums = torch.zeros(2, rows, width).unbind()
        self._logits = torch.empty(rows, model.config.vocab_size)
        self._places: Tensor | None = None
        self._cache = packed.Cache(
            keys=self._ring.keys.data_ptr(),
            values=self._ring.values.data_ptr(),
            key_scales=self._ring.scales[0].data_ptr(),
            value_scales=self._ring.scales[1].data_ptr(),
            ids=self._ids.data_ptr(),
            coordinates=self._coordinates.data_ptr(),
            states=self._states.data_ptr(),
            sums=self._sums.data_ptr(),
            rows=rows,
            layers=layers,
            heads=heads,
            size=size,
            capacity=capacity,
            coordinate_count=further,
            group=group,
        )
        self._structs = ctypes.byref(self._packed.struct), ctypes.byref(self._cache)
        self._logits_address = ctypes.c_void_p(self._logits.data_ptr())
        self.load(cache)

    @torch.no_grad()
    def load(self, cache: Cache) -> None:
        """Continue after the ids of ``cache`` and forget the earlier state."""
        steps = cache if isinstance(cache, KVCache) else self._load_groups(cache)
        length = min(steps.length, self.capacity)
        slots = torch.arange(steps.next_position - length, steps.next_position) % self.capacity
        for layer in range(steps.layers):
            self._ring.write(
                layer, slots, *(x[:, :, -length:].float() for x in steps.keys_and_values(layer))
            )
        coordinates = steps.coordinates[:, :, -length:].clone()
        for n, reader in enumerate(getattr(self._model.position, "readers", {}).values()):
            if reader.labels is not None:
                measured = torch.isin(coordinates[:, n], reader.labels)
                coordinates[:, n][~measured] = packed.NOT_MEASURED
        self._coordinates[:, :, slots] = coordinates
        if isinstance(cache, KVCache):
            self._next = cache.next_position
            self._ids[:, slots] = cache.last_ids(length)
        self._cache.length = length
        self._cache.shared = steps.next_position if steps.rows == 1 else 0
        self._first = -1

    def _load_groups(self, cache: Any) -> KVCache:
        """Load the ids of a cache of groups and the state of its incomplete last group; return the
        cache of the layers."""
        self._next = cache.length
        self._ids[:, : self._next] = cache.ids
        cascade, row, state = self._model.cascade, cache.row, cache.state
        assert cascade is not None
        whole = F.pad(row, (0, 0, 0, self._group - row.shape[1]))
        self._states[:] = cascade(state[:, None], whole[:, None])[:, 0, row.shape[1] - 1]
        self._sums[:] = row[:, 1:].sum(1)
        steps: KVCache = cache.steps
        return steps

    @staticmethod
    def suits(model: MusicTransformer) -> bool:
        """Whether generation uses this step for ``model`` by default."""
        return why_not(model) is None

    def __call__(self, ids: Tensor) -> Tensor:
        """Append one id to each row, ``ids`` (rows,) int64, and return the logits (rows, vocab).
        The next call overwrites their memory."""
        ids = ids.contiguous()
        if ids.shape != (self.rows,) or ids.dtype != torch.int64:
            raise ValueError(f"NativeStep: ids {tuple(ids.shape)}, expected ({self.rows},) int64")
        cache = self._cache
        cache.newest, cache.field = divmod(self._next, self._group)
        cache.length = min(cache.length + (cache.field == 0), self.capacity)
        place, threads = self._place(), ctypes.c_int64(torch.get_num_threads())
        id_address = ctypes.c_void_p(ids.data_ptr())
        self._run(*self._structs, id_address, place, self._logits_address, threads)
        self._next += 1
        return self._logits

    def select(self, rows: Tensor) -> None:
        """Replace row i by a copy of the former row ``rows[i]``; rows (rows,) int64."""
        used = min(-(-self._next // self._group), self.capacity)
        self._ring.select(rows, used)
        for tensor in (self._coordinates, self._ids, self._states, self._sums):
            tensor[:] = tensor[rows]

    def _place(self) -> ctypes.c_void_p | None:
        """The address of what the next token's position adds to its embedding, None if nothing."""
        place = self._next // self._group
        if not 0 <= place - self._first < PLACES or self._first < 0:
            self._first = place
            self._places = packed.by_place(self._model, self._first, PLACES)
        if self._places is None:
            return None
        row: Tensor = self._places[place - self._first]
        return ctypes.c_void_p(row.data_ptr())
