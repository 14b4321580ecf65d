"""Decoding on the CPU with one call of C++ per id, over a ring buffer of keys and values.

The C++ step (speed/native/step.cpp) computes the forward pass of model/transformer.py for one new
id in each row. Like the attention kernel, its library is prebuilt or compiled once. If that fails,
or if the step does not support the model (:func:`why_not`), decoding uses ordinary forward passes.
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
#: The number of positions whose embedding vectors are computed at once.
POSITIONS_AT_ONCE = 256


def why_not(model: MusicTransformer) -> str | None:
    """Why the C++ step cannot be used for ``model`` on this machine, or None if it can. If the
    reason is a failed compilation or a feature without C++ code, it is also printed, once."""
    if type(model) is not MusicTransformer:
        return f"it computes a MusicTransformer, not a {type(model).__name__}"
    if part := _altered(model):
        return f"it reads only weights, but {part} is replaced, wrapped or has hooks"
    weight, scheme = model.embedding.weight, model.position
    if weight.device.type != "cpu" or weight.dtype != torch.float32:
        return f"it computes float32 on the CPU, not {weight.dtype} on {weight.device.type}"
    readers = getattr(scheme, "readers", {})
    is_supported = (
        type(scheme).embed in (PositionScheme.embed, Sinusoidal.embed, Learned.embed)
        and type(scheme).rotate in (PositionScheme.rotate, Rotary.rotate)
        and (scheme.added is None or model.cascade is None)
        and scheme.further == len(readers)
        and all(type(reader) in (Pitch, Time, Voice) for reader in readers.values())
    )
    if not is_supported:
        return "it does not support this position scheme"
    for feature in model.features:
        if feature.native() is None:
            reason = f"the feature {feature.name} has no C++ implementation"
            _warn_once(f"generation is slower than it could be: {reason}")
            return reason
    return _missing(_headers(model))


#: The torch modules of which an unmodified network consists.
_TORCH_MODULES = (
    nn.Embedding, nn.Linear, nn.LayerNorm, nn.GELU, nn.Dropout,
    nn.Sequential, nn.ModuleList, nn.ModuleDict, nn.ParameterList,
)  # fmt: skip


def _altered(model: MusicTransformer) -> str | None:
    """The name of a module whose output may depend on more than its input and weights, or None: a
    wrapper, a parametrized, quantised or compiled module, or one with hooks."""
    feature_files = {type(feature).__module__ for feature in model.features}
    for name, part in model.named_modules():
        file = type(part).__module__
        is_ours = file.startswith("musictx.") or file in feature_files
        is_known = is_ours or type(part) in _TORCH_MODULES or isinstance(part, PositionScheme)
        has_hooks = part._forward_hooks or part._forward_pre_hooks or "forward" in vars(part)
        if has_hooks or not is_known:
            return name or type(model).__name__
    return None


Headers = tuple[tuple[str, Path], ...]


def _headers(model: MusicTransformer) -> Headers:
    """(name of the C++ struct, header) of each feature."""
    natives = [feature.native() for feature in model.features]
    return tuple((native.struct, native.header) for native in natives if native is not None)


@functools.cache
def _warn_once(message: str) -> None:
    print(f"musictx: {message}", file=sys.stderr)


@functools.cache
def _missing(headers: Headers) -> str | None:
    """Why the library is not available, or None. The first call compiles it if necessary; after a
    failure it is not tried again in this process."""
    return build.failure(lambda: _library(headers), "generation is slower than it could be: ")


@functools.cache
def _library(headers: Headers) -> ctypes.CDLL:
    """The library of the step for models with these features: the prebuilt one if it contains them
    all, otherwise one compiled with their headers."""
    path, package = build.prebuilt_path(SOURCE), Path(build.__file__).parents[2]
    if path is not None and all(header.is_relative_to(package) for _, header in headers):
        library = ctypes.CDLL(str(path))
        if {struct for struct, _ in headers} <= set(_features(library)):
            return library
    return ctypes.CDLL(str(build.library_path(SOURCE, headers)))


def _features(library: ctypes.CDLL) -> list[str]:
    """The names of the feature structs in ``library``, in its order."""
    library.musictx_features.restype = ctypes.c_char_p
    names: str = library.musictx_features().decode()
    return [name.strip() for name in names.split(",") if name.strip()]


#: Model -> (all that its packed weights depend on, the packed weights).
_PACKS: WeakKeyDictionary[MusicTransformer, tuple[object, Packed]] = WeakKeyDictionary()


def _packed(model: MusicTransformer, reach: int, features: list[str]) -> Packed:
    """``Packed(model, reach, features)``, cached until the weights of the model change.

    Packing takes as long as fifty steps. The sums of the weights reveal changes that torch's
    version counters miss.
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

    cache     the cache after at least one id, with ``rows`` rows, or one that all share
    capacity  how many of the latest ids attention covers. Once there are more, the window slides by
              one token: one id or, in a model with a cascade, one group of ids

    The weights are copied when the object is created. Raises ``ValueError`` if :func:`why_not`
    gives a reason, or if ``rows`` or ``capacity`` is invalid.
    """

    def __init__(self, model: MusicTransformer, cache: Cache, *, rows: int, capacity: int) -> None:
        if reason := why_not(model):
            raise ValueError(f"NativeStep: {reason}")
        if rows < 1 or capacity < 1 or cache.rows not in (1, rows):
            raise ValueError(
                f"NativeStep: rows={rows}, capacity={capacity} and a cache of {cache.rows} rows: "
                f"expected at least 1 each, and a cache of 1 or {rows} rows"
            )
        group = 1 if model.cascade is None else model.cascade.size
        slots = capacity if group == 1 else capacity // group + 1  # with an incomplete group
        library = _library(_headers(model))
        self._model = model
        self._packed = _packed(model, slots - 1, _features(library))
        self._run = library.musictx_step
        layers, heads, width = model.config.layers, model.config.heads, model.config.width
        head_dim, coordinates = width // heads, model.position.further
        self.rows, self._slots, self._group = rows, slots, group
        self._ring = Ring((layers, rows, heads), slots, head_dim, self._packed.int8_cache)
        self._coordinates = torch.zeros(rows, coordinates, slots, dtype=torch.int64)
        self._ids = torch.zeros(rows, slots * group, dtype=torch.int64)
        # The state after the last id; the sum of the embeddings of the group's ids after its first.
        self._states, self._sums = torch.zeros(2, rows, width).unbind()
        self._logits = torch.empty(rows, model.config.vocab_size)
        # The vectors that the next positions add to embeddings, and these positions.
        self._embeddings: Tensor | None = None
        self._positions = range(0)
        self._ring_struct = packed.Cache(
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
            size=head_dim,
            capacity=slots,
            coordinate_count=coordinates,
            group=group,
        )
        self._structs = ctypes.byref(self._packed.struct), ctypes.byref(self._ring_struct)
        self._logits_address = ctypes.c_void_p(self._logits.data_ptr())
        self.load(cache)

    @torch.no_grad()
    def load(self, cache: Cache) -> None:
        """Continue after the ids of ``cache`` and forget the earlier state."""
        layers = cache if isinstance(cache, KVCache) else self._load_groups(cache)
        length = min(layers.length, self._slots)
        slots = torch.arange(layers.next_position - length, layers.next_position) % self._slots
        for layer in range(layers.layers):
            keys, values = (x[:, :, -length:].float() for x in layers.keys_and_values(layer))
            self._ring.write(layer, slots, keys, values)
        coordinates = layers.coordinates[:, :, -length:].clone()
        for n, reader in enumerate(getattr(self._model.position, "readers", {}).values()):
            if reader.labels is not None:
                measured = torch.isin(coordinates[:, n], reader.labels)
                coordinates[:, n][~measured] = packed.NOT_MEASURED
        self._coordinates[:, :, slots] = coordinates
        if isinstance(cache, KVCache):
            self._next = cache.next_position
            self._ids[:, slots] = cache.last_ids(length)
        self._ring_struct.length = length
        self._ring_struct.shared = layers.next_position if layers.rows == 1 else 0

    def _load_groups(self, cache: Any) -> KVCache:
        """Load the ids of a ``GroupCache`` (musictx.songs.grouped) and the state of its last group,
        which may be incomplete; return the cache of the layers."""
        self._next = cache.length
        self._ids[:, : self._next] = cache.ids
        cascade, block, state = self._model.cascade, cache.last_block, cache.state
        assert cascade is not None
        padded = F.pad(block, (0, 0, 0, self._group - block.shape[1]))
        self._states[:] = cascade(state[:, None], padded[:, None])[:, 0, block.shape[1] - 1]
        self._sums[:] = block[:, 1:].sum(1)
        layers: KVCache = cache.layer_cache
        return layers

    @staticmethod
    def suits(model: MusicTransformer) -> bool:
        """Whether generation uses this step for ``model`` by default."""
        return why_not(model) is None

    def __call__(self, ids: Tensor) -> Tensor:
        """Append one id to each row, ``ids`` (rows,) int64, and return the logits (rows, vocab).
        The next call overwrites this tensor."""
        ids = ids.contiguous()
        if ids.shape != (self.rows,) or ids.dtype != torch.int64:
            raise ValueError(f"NativeStep: ids {tuple(ids.shape)}, expected ({self.rows},) int64")
        ring = self._ring_struct
        ring.newest, ring.field = divmod(self._next, self._group)
        ring.length = min(ring.length + (ring.field == 0), self._slots)
        id_address, position = ctypes.c_void_p(ids.data_ptr()), self._position_embedding()
        threads = ctypes.c_int64(torch.get_num_threads())
        self._run(*self._structs, id_address, position, self._logits_address, threads)
        self._next += 1
        return self._logits

    def select(self, rows: Tensor) -> None:
        """Replace row i with a copy of the former row ``rows[i]``; rows (rows,) int64."""
        used = min(-(-self._next // self._group), self._slots)
        self._ring.select(rows, used)
        for tensor in (self._coordinates, self._ids, self._states, self._sums):
            tensor[:] = tensor[rows]

    def _position_embedding(self) -> ctypes.c_void_p | None:
        """The address of the vector that the position of the next token adds to its embedding;
        None if positions add nothing."""
        position = self._next // self._group
        if position not in self._positions:
            self._positions = range(position, position + POSITIONS_AT_ONCE)
            self._embeddings = packed.position_embeddings(self._model, self._positions)
        if self._embeddings is None:
            return None
        row: Tensor = self._embeddings[position - self._positions.start]
        return ctypes.c_void_p(row.data_ptr())
