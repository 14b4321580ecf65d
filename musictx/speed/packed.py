"""A model in the memory layout of the C++ decoding step (speed/native/step.cpp).

Each ctypes struct has the fields of the C++ struct of the same name, in the same order: addresses
first, then nested structs and floats, then integers. Matrices are stored in panels of 64 outputs
(lanes.h).
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from musictx.attention.positions import PositionScheme, coordinates
from musictx.attention.positions.rotary import Rotary
from musictx.attention.terms import FURTHER, PLACE, Span, frequencies
from musictx.attention.terms import Terms as SchemeTerms
from musictx.model.block import Block
from musictx.model.features import NativeForm
from musictx.model.rounding import dequantise, quantise
from musictx.model.transformer import MusicTransformer

LANES = 64  # outputs in a panel
CHANNELS = 16  # values are padded to a multiple of this number of channels
WORD_BYTES = 4  # int8 numbers in a word
#: The coordinate of a key for which the axis has no term.
NOT_MEASURED = -(2**63)
TABLES, SUM, VOICE = range(3)  # kinds of readers of coordinates (step.cpp)
#: A matrix is stored as int8 if no weight changes by more than this share of its row's scale.
TOLERANCE = 1e-3


def _struct(addresses: str, integers: str = "", /, **types: Any) -> Any:
    """A ctypes struct. Its fields: ``addresses`` (names separated by spaces), then ``types`` (name
    -> ctypes type), then ``integers`` (names)."""
    fields: list[tuple[str, Any]] = [(name, ctypes.c_void_p) for name in addresses.split()]
    fields += [*types.items(), *((name, ctypes.c_int64) for name in integers.split())]
    return type("Struct", (ctypes.Structure,), {"_fields_": fields})


Matrix = _struct("weights bias scales", "outputs inputs")
Norm = _struct("weight bias", epsilon=ctypes.c_double)
Axis = _struct("table bias scales", "table_heads bias_heads low high coordinate")
Terms = _struct(
    "axes content_bias position_bias value_table", "count value_heads block", scale=ctypes.c_double
)
Layer = _struct(
    "first_values", attention_norm=Norm, feedforward_norm=Norm,
    qkv=Matrix, out=Matrix, up=Matrix, down=Matrix, terms=Terms,
)  # fmt: skip
Reader = _struct("as_query as_key", "kind voices")
Map = _struct("", norm=Norm, up=Matrix, down=Matrix)
Model = _struct(
    "embedding layers frequencies readers features feature_order maps",
    "width feedforward vocabulary gates feature_count", norm=Norm, output=Matrix,
)  # fmt: skip
Cache = _struct(
    "keys values key_scales value_scales ids coordinates states sums",
    "rows layers heads size capacity coordinate_count newest length group field shared",
)


def panels(matrix: Tensor, word: int) -> Tensor:
    """Pack (..., outputs, inputs) -> (..., panels, inputs / word, LANES, word), with zeros where
    the sizes are not multiples; ``word`` is the number of inputs in a word."""
    padded = F.pad(matrix, (0, -matrix.shape[-1] % word, 0, -matrix.shape[-2] % LANES))
    return padded.unflatten(-1, (-1, word)).unflatten(-3, (-1, LANES)).transpose(-3, -2)


def pad_to_panels(x: Tensor) -> Tensor:
    """Pad x (..., outputs) with zeros to a whole number of panels."""
    return F.pad(x, (0, -x.shape[-1] % LANES))


def quantise_if_exact(matrix: Tensor) -> tuple[Tensor, Tensor | None]:
    """Return (int8 matrix, scales) if the rounding error is at most :data:`TOLERANCE`, as it is for
    weights from an int8 model folder; otherwise (matrix, None)."""
    integers, scales = quantise(matrix)
    error = (dequantise(integers, scales) - matrix.float()).abs()
    fits = bool((error <= TOLERANCE * scales[..., None]).all())
    return (integers, scales) if fits else (matrix, None)


class Packed:
    """A copy of the current weights of ``model``.

    reach      the largest distance between a query and a key that will occur
    features   the names of the feature structs in the C++ library, in its order

    Attributes:
    struct      the ctypes ``Model`` that C++ reads, valid as long as this object lives
    int8_cache  whether keys and values are stored as int8: if the weights of all qkv are
    """

    @torch.no_grad()
    def __init__(self, model: MusicTransformer, reach: int, features: Sequence[str]) -> None:
        self._memory: list[Any] = []  # tensors and structs that addresses point to
        blocks = [block for block in model.blocks if isinstance(block, Block)]
        layers = [self._layer(model, n, block, reach) for n, block in enumerate(blocks)]
        weight, attention = model.embedding.weight, blocks[0].attention
        assert isinstance(weight, Tensor)
        self.int8_cache = all(layer.qkv.scales is not None for layer in layers)
        rotations = None
        if isinstance(model.position, Rotary):  # in float64, so not by ``_value``
            pairs = model.position.sizes.head_dim // 2
            rotations = self._address(frequencies(pairs, weight.device))
        natives = [native for feature in model.features if (native := feature.native())]
        addresses = {native.struct: self._feature(native) for native in natives}
        cascade = [] if model.cascade is None else model.cascade.maps
        maps = [
            Map(self._norm(layer[0]), self._linear(layer[1]), self._linear(layer[3]))
            for layer in cascade
        ]
        self.struct = self._new(
            Model,
            embedding=id_embeddings(model),
            layers=layers,
            frequencies=rotations,
            readers=self._readers(model),
            features=[addresses.get(name, 0) for name in features],
            feature_order=[features.index(name) for name in addresses],
            feature_count=len(addresses),
            maps=maps,
            norm=self._norm(model.norm),
            output=self._matrix(weight if model.output is None else model.output.weight),
            width=model.config.width,
            feedforward=model.config.feedforward,
            vocabulary=model.config.vocab_size,
            gates=attention.gates is not None,
        )

    def _new(self, struct: Any, **fields: Any) -> Any:
        """Create a struct. A field for a tensor, for a sequence of structs or of integers is the
        address of a copy; for ``None`` it is a null pointer."""
        return struct(**{name: self._value(value) for name, value in fields.items()})

    def _value(self, x: Any) -> Any:
        if isinstance(x, Tensor):
            return self._address(x.float() if x.is_floating_point() else x.long())
        if not isinstance(x, Sequence):
            return x
        if not x or not isinstance(x[0], ctypes.Structure):
            return self._address(torch.tensor(x, dtype=torch.int64))
        self._memory.append((type(x[0]) * len(x))(*x))
        return ctypes.addressof(self._memory[-1])

    def _address(self, tensor: Tensor) -> int:
        """The address of a dense copy of ``tensor``, which this object keeps alive."""
        self._memory.append(tensor.detach().contiguous().clone())
        address: int = self._memory[-1].data_ptr()
        return address

    def _linear(self, linear: Any) -> Any:
        return self._matrix(linear.weight, linear.bias)

    def _matrix(self, weight: Tensor, bias: Tensor | None = None) -> Any:
        outputs, inputs = weight.shape
        weights, scales = self._in_panels(weight)
        bias = None if bias is None else pad_to_panels(bias)
        return self._new(
            Matrix, weights=weights, bias=bias, scales=scales, outputs=outputs, inputs=inputs
        )

    def _in_panels(self, matrix: Tensor | None) -> tuple[int | None, Tensor | None]:
        """The address of the panels of ``matrix`` (..., outputs, inputs) and, if they are int8,
        the scales of their rows. Both are None for None."""
        if matrix is None:
            return None, None
        integers, scales = quantise_if_exact(matrix)
        if scales is None:
            return self._address(panels(matrix.float(), 1)), None
        return self._address(panels(integers, WORD_BYTES)), pad_to_panels(scales)

    def _norm(self, norm: nn.LayerNorm) -> Any:
        return self._new(Norm, weight=norm.weight, bias=norm.bias, epsilon=norm.eps)

    def _layer(self, model: MusicTransformer, number: int, block: Block, reach: int) -> Any:
        attention = block.attention
        weight: Tensor = attention.qkv.weight
        bias: Tensor = attention.qkv.bias
        if attention.gates is not None:  # computed by the same product
            weight = torch.cat([weight, attention.gates])
            bias = F.pad(bias, (0, len(attention.gates)))
        return self._new(
            Layer,
            first_values=attention.first_values,
            attention_norm=self._norm(block.attention_norm),
            feedforward_norm=self._norm(block.feedforward_norm),
            qkv=self._matrix(weight, bias),
            out=self._linear(attention.out),
            up=self._linear(block.feedforward[0]),
            down=self._linear(block.feedforward[-1]),
            terms=self._terms(model.position.terms(number, reach=reach)),
        )

    def _terms(self, terms: SchemeTerms) -> Any:
        axes = []
        for axis in terms.axes:
            table, scales = self._in_panels(axis.table)
            axes.append(
                self._new(
                    Axis,
                    table=table,
                    bias=axis.bias,
                    scales=scales,
                    table_heads=0 if axis.table is None else len(axis.table),
                    bias_heads=0 if axis.bias is None else len(axis.bias),
                    low=axis.low,
                    high=axis.high,
                    coordinate=-1 if axis.coordinate <= PLACE else axis.coordinate - FURTHER,
                )
            )
        values = terms.value_table
        if values is not None:
            values = F.pad(values, (0, -values.shape[-1] % CHANNELS))
        return self._new(
            Terms,
            axes=axes,
            count=len(axes),
            content_bias=terms.content_bias,
            position_bias=terms.position_bias,
            value_table=values,
            value_heads=0 if values is None else len(values),
            block=0 if terms.blocks is None else terms.blocks.length,
            scale=terms.scale,
        )

    def _readers(self, model: MusicTransformer) -> list[Any]:
        readers = []
        ids = torch.arange(model.config.vocab_size)[None]
        for reader in getattr(model.position, "readers", {}).values():
            if isinstance(reader, coordinates.Voice):
                readers.append(Reader(kind=VOICE, voices=reader.voices))
            elif isinstance(reader, coordinates.Time):
                readers.append(self._new(Reader, kind=SUM, as_query=reader.steps_of))
            else:
                as_query, as_key = reader.read(ids, ids, None)
                as_key = as_key.masked_fill(~torch.isin(as_key, reader.labels), NOT_MEASURED)
                readers.append(self._new(Reader, kind=TABLES, as_query=as_query, as_key=as_key))
        return readers

    def _feature(self, native: NativeForm) -> int:
        """The address of a feature's struct: its matrix of scores, then its fields in order."""
        types = {
            name: ctypes.c_int64 if isinstance(value, int) else ctypes.c_void_p
            for name, value in native.fields.items()
        }
        struct = _struct("", scores=Matrix, **types)
        scores = Matrix() if native.scores is None else self._matrix(native.scores)
        self._memory.append(self._new(struct, scores=scores, **native.fields))
        return ctypes.addressof(self._memory[-1])


class Ring:
    """A ring buffer of keys and values, in the layout of the C++ step (native/cache.h).

    The token at position p is stored in slot p mod capacity. Keys are stored in panels of 64 slots.
    ``keys`` and ``values`` are float32 or, with ``int8``, words of four int8 with ``scales`` for
    each token and head; then a step reads a quarter of the memory. ``outer`` is (layers, rows,
    heads), ``size`` the head size.
    """

    def __init__(self, outer: tuple[int, ...], capacity: int, size: int, int8: bool) -> None:
        self._word = word = WORD_BYTES if int8 else 1  # numbers in a word
        dtype, panels = np.int8 if int8 else np.float32, -(-capacity // LANES)
        key_shape = *outer, panels, -(-size // word), LANES, word
        value_shape = *outer, -(-capacity // word), size + -size % CHANNELS, word
        # Zeros of numpy take up memory only where they are overwritten.
        self.keys = torch.from_numpy(np.zeros(key_shape, dtype))
        self.values = torch.from_numpy(np.zeros(value_shape, dtype))
        self.scales = torch.zeros(2, *outer, panels * LANES if int8 else 0)

    def write(self, layer: int, slots: Tensor, keys: Tensor, values: Tensor) -> None:
        """Write keys and values (1 or rows, heads, n, size) into ``slots`` (n,)."""
        if self._word > 1:
            (keys, key_scales), (values, value_scales) = quantise(keys), quantise(values)
            self.scales[:, layer, :, :, slots] = torch.stack([key_scales, value_scales])
        words = F.pad(keys, (0, -keys.shape[-1] % self._word)).unflatten(-1, (-1, self._word))
        # Index tensors with a slice between them put their dimension first: (n, rows, heads, ...).
        self.keys[layer, :, :, slots // LANES, :, slots % LANES] = words.permute(2, 0, 1, 3, 4)
        word, size, offset = slots // self._word, values.shape[-1], slots % self._word
        self.values[layer, :, :, word, :size, offset] = values.permute(2, 0, 1, 3)

    def select(self, rows: Tensor, used: int) -> None:
        """Replace row i with a copy of the former row ``rows[i]``, in the first ``used`` slots."""
        for ring, slots in ((self.keys, LANES), (self.values, self._word)):
            count = -(-used // slots)  # panels, or words, that are in use
            for layer in ring:  # layer by layer, so that the temporary copy is small
                layer[:, :, :count] = layer[rows, :, :count]
        self.scales[:] = self.scales[:, :, rows]


def id_embeddings(model: MusicTransformer) -> Tensor:
    """(vocab, width): the part of a token's embedding that depends on its id alone."""
    weight = model.embedding.weight
    join = None if model.position.added is None else model.position.added.join
    return weight if join is None else weight @ join.weight[:, : weight.shape[1]].T


def position_embeddings(model: MusicTransformer, positions: range) -> Tensor | None:
    """(positions, width): what each of consecutive positions adds to the embedding of its token;
    None if the position scheme never adds anything."""
    scheme, weight = model.position, model.embedding.weight
    if type(scheme).embed is PositionScheme.embed and scheme.added is None:
        return None
    zeros = weight.new_zeros(1, len(positions), weight.shape[1])
    span = Span(positions.start, len(positions))
    return scheme.add_to_embeddings(zeros, span)[0].contiguous()
