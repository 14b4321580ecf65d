"""Base class of features: inputs of the network that are computed from the ids so far.

One file holds all of a feature: the options that a user sets, the arguments that follow from the
tokens, which values of a model folder are refused, the network, and, if it has one, its form in C++
(a header of the same name). CONTRIBUTING.md has the recipe.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from musictx.config import checks
from musictx.errors import ConfigError
from musictx.tokens.controls import KNOWN, STREAM
from musictx.tokens.tokenizer import Tokenizer

#: Former names of members of features -> the present ones, as in
#: :data:`musictx.tokens.tokenizer.FORMER`; they work until the next minor version.
FORMER = {
    "finish": "add_to_output",
    "longest": "lookback",
    "noisy": "reads_disturbed",
    "products": "random_when_added",
}


@dataclass
class Options(checks.CheckedOptions):
    """The options of a feature, here none. A subclass sets ``prefix``, which precedes the names of
    its options in error messages."""

    prefix = "model.features"


class NativeForm(NamedTuple):
    """A feature as the step of decoding in C++ reads it.

    header  the C++ file; after its fields, the struct there has those members of ``Feature`` in
            ``feature.h`` of the native step that it overrides: read, embed, add_to_output, score
    struct  the name of the struct
    fields  name -> value, in the order in which the struct declares them: tensors and sequences of
            whole numbers become ``const int64_t*``, other tensors ``const float*``, ``None`` a null
            pointer, whole numbers ``int64_t``
    scores  (numbers, width): what the output is multiplied with before ``score`` is called
    """

    header: Path
    struct: str
    fields: Mapping[str, Tensor | Sequence[int] | int | None]
    scores: Tensor | None = None


class Feature(nn.Module):
    """Computes a state from the ids so far, adds vectors to the embeddings, scores the next id.

    A feature follows from the ids alone. It gives the network no new information, but saves it
    layers and training that finding this would take. It never looks ahead, nor back beyond the
    beginning of a piece: so causality, packed pieces and decoding with a cache work as without it.

    The constructor is ``Feature(size, width, **arguments)``, for ``size`` ids and a network of
    ``width`` channels; the arguments are its options and those of :meth:`of_tokens`.
    """

    #: What it is called in ``model.features``, and in the names of its weights.
    name: ClassVar[str]
    #: The dataclass of the options that a user sets.
    options: ClassVar[type] = Options
    #: How many ids before the first new one :meth:`read` looks at; ``None``: all in the cache.
    lookback: int | None = None
    #: Whether few tokens of a training step use any one row of its tables: then these learn at the
    #: higher rate of tables (``optim.table_lr``).
    sparse: bool = True
    #: Whether it reads the ids as :meth:`disturb` leaves them, as the embedding does, or unchanged.
    reads_disturbed: bool = False
    #: Where a feature is added to a trained model, its parameters begin at zero, except for these:
    #: they are only ever multiplied with others that begin at zero, and if both did, neither could
    #: learn.
    random_when_added: tuple[str, ...] = ()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for former in FORMER.keys() & vars(cls):
            setattr(cls, FORMER[former], vars(cls)[former])

    @classmethod
    def of_tokens(cls, tokenizer: Tokenizer) -> dict[str, Any]:
        """The arguments that follow from the tokens, as plain values.

        Raises ``ConfigError`` for tokens that do not have what the feature reads."""
        return {}

    def disturb(self, ids: Tensor) -> Tensor:
        """``ids`` (B, T) int64 as the network reads them; in training they may be wrong."""
        return ids

    def read(self, ids: Tensor, earlier: Tensor, places: Tensor) -> Any:
        """The state of this feature after each of ``ids`` (B, T) int64, as tensors (B, T, ...).

        ``earlier`` (B, N) are the ids before the first of them, at most ``lookback``, -1 where one
        is missing; ``places`` (B, T) are places in pieces: place 0 opens a piece, and ids before it
        are not read.
        """
        return None

    def embed(self, x: Tensor, seen: Any) -> Tensor:
        """Embeddings ``x`` (B, T, width) and what this feature adds to them."""
        return x

    def add_to_output(self, x: Tensor, seen: Any) -> Tensor:
        """``x`` (B, T, width) after the last layer, before its norm, and what is added to it."""
        return x

    def score(self, logits: Tensor, x: Tensor, seen: Any) -> Tensor:
        """``logits`` (B, T, vocab) in float32 of the next id, and what is added to them; ``x``
        (B, T, width) is what the output matrix reads."""
        return logits

    def native(self) -> NativeForm | None:
        """The feature in C++ with its weights as they are now; ``None``: steps stay in torch."""
        return None

    def native_form(
        self, struct: str, attributes: str, scores: Tensor | None = None, **others: Any
    ) -> NativeForm:
        """The form whose ``struct`` is in the header of the same name as the feature's file: its
        fields are these ``attributes`` of the feature, with blanks between, then the ``others``."""
        header = Path(inspect.getfile(type(self))).with_suffix(".h")
        fields = {name: getattr(self, name) for name in attributes.split()} | others
        return NativeForm(header, struct, fields, scores)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Tensor: ...  # the tables, by their names

    def register_tables(self, **tables: Tensor) -> None:
        """Tables that follow from the arguments and are not saved."""
        for name, table in tables.items():
            self.register_buffer(name, table, persistent=False)

    keep = register_tables  #: its former name


def events_of(tokenizer: Tokenizer, feature: str) -> dict[str, list[list[int]]]:
    """Which ids take time (``steps``), strike (``starts``) and release (``ends``) a pitch and set
    the loudness of what follows (``loudness``), as ranges [first, stop, value]; with control tokens
    those at which nothing sounds any more (``resets``). ``ConfigError`` for tokens without."""
    table = tokenizer.vocabulary
    kinds = {"steps": "time_shift", "starts": "note_on", "ends": "note_off"}
    if table is None or not {*kinds.values(), "velocity"} <= set(table.kinds):
        raise ConfigError(
            f"model.features={feature}: expected tokenizer=performance, whose notes start and end, "
            f"not {tokenizer.name}"
        )
    arguments = {name: [table.row(kind)] for name, kind in kinds.items()}
    if STREAM in table.kinds:
        arguments["resets"] = [table.row(KNOWN), table.row(STREAM)]
    return arguments | {"loudness": [table.row("velocity")]}


def joined(ids: Tensor, earlier: Tensor, places: Tensor) -> tuple[Tensor, Tensor]:
    """All ids (B, N + T) and their places; negative ones are before the piece's beginning."""
    back = torch.arange(-earlier.shape[1], 0, device=ids.device)
    return torch.cat([earlier, ids], 1), torch.cat([places[:, :1] + back, places], 1)
