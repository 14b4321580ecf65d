"""A model as the step in C++ reads it (attention/native/step.cpp): its structs and its memory.

Structs have the fields of their namesakes in C++ in the same order: addresses first, then what has
a type of its own, then whole numbers. Matrices are laid out in panels of 64 outputs (lanes.h).
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from musictx.attention.positions import PositionScheme, coordinates
from musictx.attention.positions.absolute import AddedPositions
from musictx.attention.positions.rotary import Rotary
from musictx.attention.terms import FURTHER, PLACE, Span, frequencies
from musictx.model.block import Block
from musictx.model.features import conditions, note_ages, repeats, sounding
from musictx.model.features.pitches import NEVER, TIMES
from musictx.model.transformer import MusicTransformer
from musictx.model.weights import whole_numbers

#: Outputs of a panel; numbers in a vector.
LANES, WIDTH = 64, 16
#: The dtype of tables, keys and values by their bits.
NUMBERS = {32: torch.float32, 16: torch.bfloat16}
#: The coordinate of a key that its axis passes over.
NOT_MEASURED = -(2**63)


def _struct(addresses: str, numbers: str = "", **inner: Any) -> Any:
    fields: list[tuple[str, Any]] = [(name, ctypes.c_void_p) for name in addresses.split()]
    fields += [*inner.items(), *((name, ctypes.c_int64) for name in numbers.split())]
    return type("Struct", (ctypes.Structure,), {"_fields_": fields})


Matrix = _struct("weights scale bias", "outputs inputs")
Norm = _struct("weight bias", epsilon=ctypes.c_double)
Axis = _struct("table bias", "table_heads bias_heads low high coordinate")
Terms = _struct(
    "axes content_bias position_bias value_table", "count value_heads block", scale=ctypes.c_double
)
Layer = _struct(
    "first_values", attention_norm=Norm, feedforward_norm=Norm,
    qkv=Matrix, out=Matrix, up=Matrix, down=Matrix, terms=Terms,
)  # fmt: skip
Reader = _struct("as_query as_key", "kind voices")
Intervals = _struct(
    "pitches input_lags output_lags inputs", "input_count output_count span", outputs=Matrix
)
NoteAges = _struct("inputs outputs", "voices most")
Repeats = _struct(
    "pitches lengths intervals",
    "voices span classes most shortest_all shortest_own changes_all changes_own",
    scores=Matrix,
)
Counterpoint = _struct("pitches scores notes", "voices")
Sounding = _struct(
    "steps starts ends loud resets state_of time_class candidates kind_of states context maps",
    "pitches levels times recent kinds chords state_count ages longest",
    scores=Matrix,
)
Conditions = _struct(
    "steps starts ends candidates part control row first_rows start_class end_class time_class "
    "kind_of context coming ending maps",
    "pitches controls first_time kinds chords start_count end_count longest_start longest_end "
    "longest longest_shift never",
    scores=Matrix,
)
Calibration = _struct("scale hold end", "voices kinds")
Model = _struct(
    "embedding layers frequencies readers intervals ages repeats counterpoint sounding conditions "
    "calibration",
    "width feedforward vocabulary gates", norm=Norm, output=Matrix,
)  # fmt: skip
#: The features that C++ knows, by their names in the model.
FEATURES = (
    "intervals",
    "ages",
    "repeats",
    "counterpoint",
    "sounding",
    "conditions",
    "calibration",
)
Cache = _struct(
    "keys values ids coordinates", "rows layers heads size capacity further newest held shared"
)


def panels(matrix: Tensor, bits: int) -> Tensor:
    """(..., outputs, inputs) of numbers that so many ``bits`` hold -> (..., panels, groups, LANES,
    inputs of a group): neighbours among the inputs make 32 bits. Filled up with zeros; a whole
    number of 8 bits is written as 128 more.
    """
    group = 32 // bits
    filled = F.pad(matrix.float(), (0, -matrix.shape[-1] % group, 0, -matrix.shape[-2] % LANES))
    words = filled.unflatten(-2, (-1, LANES)).unflatten(-1, (-1, group)).transpose(-2, -3)
    return (words + 128).to(torch.uint8) if bits == 8 else words.to(NUMBERS[bits])


class Packed:
    """The weights of ``model`` in the format that it was rounded to (model/weights.py).

    ``struct``  what C++ reads, valid as long as this lives;  ``bits`` of a weight;  ``held`` those
    of a number of tables, keys and values. ``reach`` is the largest distance that will be met.
    """

    @torch.no_grad()
    def __init__(self, model: MusicTransformer, reach: int) -> None:
        self.bits = {"float32": 32, "bfloat16": 16, "int8": 8}[model.weights]
        self.held = max(self.bits, 16)
        self._held: list[Any] = []  # what addresses point to
        blocks = [block for block in model.blocks if isinstance(block, Block)]
        layers = [self._layer(model, n, block, reach) for n, block in enumerate(blocks)]
        weight, attention = model.embedding.weight, blocks[0].attention
        assert isinstance(model.embedding, nn.Embedding)
        turns = None
        if isinstance(model.position, Rotary):
            turns = frequencies(model.position.sizes.head_dim // 2, weight.device)
        found: dict[str, int | None] = dict.fromkeys(FEATURES)
        for name in FEATURES:
            if (feature := getattr(model, name)) is not None:
                found[name] = self._array([getattr(self, f"_{name}")(feature)])
        self.struct = Model(
            embedding=self._floats(by_id(model)),
            layers=self._array(layers),
            frequencies=self._address(turns),
            readers=self._array(self._readers(model)),
            **found,
            norm=self._norm(model.norm),
            output=self._matrix(weight if model.output is None else model.output.weight),
            width=model.config["width"],
            feedforward=model.config["feedforward"],
            vocabulary=model.config["vocab_size"],
            gates=attention.gates is not None,
        )

    def _address(self, tensor: Tensor | None) -> int | None:
        """Where a dense copy of ``tensor`` lies."""
        if tensor is None:
            return None
        self._held.append(tensor.detach().contiguous().clone())
        address: int = self._held[-1].data_ptr()
        return address

    def _floats(self, tensor: Tensor | None) -> int | None:
        return None if tensor is None else self._address(tensor.float())

    def _by_output(self, tensor: Tensor | None) -> int | None:
        return None if tensor is None else self._floats(F.pad(tensor, (0, -len(tensor) % LANES)))

    def _whole(self, numbers: Any) -> int | None:
        return self._address(torch.as_tensor(numbers, dtype=torch.int64))

    def _array(self, structs: Sequence[Any]) -> int | None:
        if not structs:
            return None
        self._held.append((type(structs[0]) * len(structs))(*structs))
        return ctypes.addressof(self._held[-1])

    def _linear(self, linear: Any) -> Any:
        return self._matrix(linear.weight, linear.bias)

    def _matrix(self, weight: Tensor, bias: Tensor | None = None, bits: int | None = None) -> Any:
        """A matrix (outputs, inputs) in the model's format, or in that of so many ``bits``."""
        scale, bits = None, bits or self.bits
        outputs, inputs = weight.shape
        if bits == 8:
            weight, scale = whole_numbers(weight)
        return Matrix(
            weights=self._address(panels(weight, bits)),
            scale=self._by_output(scale),
            bias=self._by_output(bias),
            outputs=outputs,
            inputs=inputs,
        )

    def _norm(self, norm: nn.LayerNorm) -> Any:
        return Norm(self._floats(norm.weight), self._floats(norm.bias), norm.eps)

    def _layer(self, model: MusicTransformer, number: int, block: Block, reach: int) -> Any:
        attention = block.attention
        weight: Tensor = attention.qkv.weight
        bias: Tensor = attention.qkv.bias
        if attention.gates is not None:  # a few more outputs of one product
            weight = torch.cat([weight, attention.gates])
            bias = F.pad(bias, (0, len(attention.gates)))
        return Layer(
            first_values=self._floats(attention.first_values),
            attention_norm=self._norm(block.attention_norm),
            feedforward_norm=self._norm(block.feedforward_norm),
            qkv=self._matrix(weight, bias),
            out=self._linear(attention.out),
            up=self._linear(block.feedforward[0]),
            down=self._linear(block.feedforward[-1]),
            terms=self._terms(model, number, reach),
        )

    def _terms(self, model: MusicTransformer, layer: int, reach: int) -> Any:
        terms = model.position.terms(layer, reach=reach)
        axes = []
        for axis in terms.axes:
            table = None if axis.table is None else panels(axis.table, self.held)
            axes.append(
                Axis(
                    table=self._address(table),
                    bias=self._floats(axis.bias),
                    table_heads=0 if axis.table is None else len(axis.table),
                    bias_heads=0 if axis.bias is None else len(axis.bias),
                    low=axis.low,
                    high=axis.high,
                    coordinate=-1 if axis.coordinate <= PLACE else axis.coordinate - FURTHER,
                )
            )
        values = terms.value_table
        if values is not None:
            values = F.pad(values, (0, -values.shape[-1] % WIDTH))
        return Terms(
            axes=self._array(axes),
            count=len(axes),
            content_bias=self._floats(terms.content_bias),
            position_bias=self._floats(terms.position_bias),
            value_table=self._floats(values),
            value_heads=0 if values is None else len(values),
            block=0 if terms.blocks is None else terms.blocks.length,
            scale=terms.scale,
        )

    def _readers(self, model: MusicTransformer) -> list[Any]:
        found = []
        ids = torch.arange(model.config["vocab_size"])[None]
        for reader in getattr(model.position, "readers", {}).values():
            if isinstance(reader, coordinates.Voice):
                found.append(Reader(kind=2, voices=reader.voices))
            elif isinstance(reader, coordinates.Time):
                found.append(Reader(kind=1, as_query=self._whole(reader.steps_of)))
            else:
                as_query, as_key = reader.read(ids, ids, None)
                measured = torch.isin(as_key, reader.labels)
                as_key = as_key.masked_fill(~measured, NOT_MEASURED)
                found.append(
                    Reader(kind=0, as_query=self._whole(as_query), as_key=self._whole(as_key))
                )
        return found

    def _intervals(self, feature: Any) -> Any:
        inputs, outputs = list(feature.inputs), list(feature.outputs)
        none = torch.zeros(0, self._rows(feature))
        return Intervals(
            pitches=self._whole(feature.pitches),
            input_lags=self._whole(feature.input_lags),
            output_lags=self._whole(feature.output_lags),
            inputs=self._floats(torch.cat([none, *inputs])),
            input_count=len(inputs),
            output_count=len(outputs),
            span=feature.span,
            outputs=self._matrix(torch.cat([none, *outputs]), bits=32),
        )

    @staticmethod
    def _rows(feature: Any) -> int:
        tables = [*feature.inputs, *feature.outputs]
        return tables[0].shape[1] if tables else 0

    def _ages(self, feature: Any) -> Any:
        inputs, outputs = self._floats(feature.inputs), self._floats(feature.outputs)
        return NoteAges(inputs, outputs, voices=feature.voices, most=note_ages.AGES)

    def _repeats(self, feature: Any) -> Any:
        limits = {
            f"{name}_{kind}": table[kind]
            for name, table in (("shortest", repeats.SHORTEST), ("changes", repeats.CHANGES))
            for kind in ("all", "own")
        }
        return Repeats(
            pitches=self._whole(feature.pitches),
            lengths=self._floats(feature.lengths),
            intervals=self._floats(feature.intervals),
            voices=feature.voices,
            span=feature.span,
            classes=repeats.CLASSES,
            most=repeats.MOST_STEPS,
            scores=self._matrix(feature.scores.flatten(0, 1), bits=32),
            **limits,
        )

    def _counterpoint(self, feature: Any) -> Any:
        scores = [self._floats(table) for table in (feature.scores, feature.notes)]
        return Counterpoint(self._whole(feature.pitches), *scores, voices=feature.voices)

    def _calibration(self, feature: Any) -> Any:
        numbers = [self._floats(part) for part in (feature.scale, feature.hold, feature.end)]
        return Calibration(*numbers, voices=feature.voices, kinds=len(feature.scale))

    def _sounding(self, feature: Any) -> Any:
        by_id = ("steps", "starts", "ends", "loud", "resets", "candidates")
        tables = (*by_id, "state_of", "time_class")
        scores, maps = [feature.state_scores], feature.interval_maps
        if maps is not None:
            scores.append(feature.interval_scores)
        return Sounding(
            **{name: self._whole(getattr(feature, name)) for name in tables},
            kind_of=self._whole((0, *sounding.KINDS)),
            states=self._floats(feature.states),
            context=self._floats(feature.context),
            maps=self._floats(maps),
            pitches=feature.pitches,
            levels=feature.levels,
            times=TIMES,
            recent=feature.recent,
            kinds=0 if maps is None else maps.shape[0],
            chords=0 if maps is None else maps.shape[1],
            state_count=sounding.STATES,
            ages=len(feature.state_of) // 2,
            longest=len(feature.time_class),
            scores=self._matrix(torch.cat(scores), bits=32),
        )

    def _conditions(self, feature: Any) -> Any:
        by_id = ("steps", "starts", "ends", "candidates", "part", "control", "row")
        tables = (*by_id, "first_rows", "start_class", "end_class", "time_class")
        scores = [feature.start_scores, feature.end_scores, feature.shift_scores]
        if (maps := feature.interval_maps) is not None:
            scores.append(feature.interval_scores)
        return Conditions(
            **{name: self._whole(getattr(feature, name)) for name in tables},
            kind_of=self._whole((-1, *conditions.KINDS)),
            context=self._floats(feature.context),
            coming=self._floats(feature.coming),
            ending=self._floats(feature.ending),
            maps=self._floats(maps),
            pitches=feature.pitches,
            controls=len(feature.first_rows),
            first_time=feature.first_time,
            kinds=0 if maps is None else maps.shape[0],
            chords=0 if maps is None else maps.shape[1],
            start_count=len(feature.start_scores),
            end_count=len(feature.end_scores),
            longest_start=len(feature.start_class),
            longest_end=len(feature.end_class),
            longest=len(feature.time_class),
            longest_shift=feature.longest_shift,
            never=NEVER,
            scores=self._matrix(torch.cat(scores), bits=32),
        )


def by_id(model: MusicTransformer) -> Tensor:
    """(vocab, width): of the embedding of each token what its id alone decides."""
    weight = model.embedding.weight
    added = model.position.added
    join = added.join if isinstance(added, AddedPositions) else None
    return weight if join is None else weight @ join.weight[:, : weight.shape[1]].T


def by_place(model: MusicTransformer, first: int, count: int) -> Tensor | None:
    """(count, width): what the places from ``first`` on add to it; None if nothing ever."""
    scheme, weight = model.position, model.embedding.weight
    if type(scheme).embed is PositionScheme.embed and scheme.added is None:
        return None
    places = Span(first, count)
    x = scheme.embed(weight.new_zeros(1, count, weight.shape[1]), places)
    return (x if scheme.added is None else scheme.added(x, places))[0].contiguous()
