"""Base classes of features: inputs of the network that are computed from the ids so far.

One file holds all of a feature: the options that a user sets, the arguments that follow from the
tokenizer, and the computation in torch; a header of the same name may hold the computation in C++.
CONTRIBUTING.md has the recipe.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from musictx.config import checks
from musictx.errors import ConfigError
from musictx.tokens.controls import KNOWN, STREAM
from musictx.tokens.tokenizer import Tokenizer


@dataclass
class Options(checks.CheckedOptions):
    """The options of a feature; this base class has none. Error messages put ``prefix``, which a
    subclass sets, before the name of an option."""

    prefix = "model.features"


class NativeForm(NamedTuple):
    """A feature with its weights, for the decoding step in C++.

    header  the C++ file with a struct derived from ``Feature`` (speed/native/feature.h), which
            overrides some of read, embed, add_to_output and score
    struct  the name of the struct
    fields  {name: value} in the order in which the struct declares them. Integer tensors and
            sequences become ``const int64_t*``, float tensors ``const float*``, ``None`` a null
            pointer, integers ``int64_t``
    scores  (outputs, width): the matrix that is multiplied with the output of the network; the
            product is an argument of ``score``
    """

    header: Path
    struct: str
    fields: Mapping[str, Tensor | Sequence[int] | int | None]
    scores: Tensor | None = None


class Feature(nn.Module):
    """Computes a state from the ids so far, adds vectors to the embeddings, scores the next id.

    The state follows from the ids alone. It gives the network no new information, but saves the
    layers and the training that it would take to compute the same. It depends neither on later ids
    nor on ids before the beginning of the piece, so causality, packed pieces and decoding with a
    cache work as without it.

    The constructor is ``Feature(size, width, **arguments)``, for ``size`` ids and a network of
    ``width`` channels; the arguments are its options and those of :meth:`of_tokens`.
    """

    #: Its name in ``model.features`` and in the keys of its weights.
    name: ClassVar[str]
    #: The dataclass of the options that a user sets.
    options: ClassVar[type] = Options
    #: The number of ids before the new ones that :meth:`read` needs; ``None``: all in the cache.
    lookback: int | None = None
    #: Whether only few tokens of a training step use each row of its tables. Such tables learn at
    #: their own, higher rate (``optim.table_lr``).
    sparse: bool = True
    #: Whether :meth:`read` gets the ids after :meth:`disturb`, as the embedding does, or the
    #: original ids.
    reads_disturbed: bool = False
    #: The parameters that stay random when the feature is added to a trained model; all others are
    #: set to zero. Each of these is multiplied with one that is set to zero; if both factors were
    #: zero, neither would get a gradient.
    random_when_added: tuple[str, ...] = ()

    @classmethod
    def of_tokens(cls, tokenizer: Tokenizer) -> dict[str, Any]:
        """The arguments that follow from the tokenizer, as plain values.

        Raises ``ConfigError`` for a tokenizer without the tokens that the feature reads."""
        return {}

    def disturb(self, ids: Tensor) -> Tensor:
        """The ids that the network reads instead of ``ids`` (B, T) int64, for example with random
        errors in training."""
        return ids

    def read(self, ids: Tensor, previous_ids: Tensor, positions: Tensor) -> Any:
        """The state of this feature after each of ``ids`` (B, T) int64, as tensors (B, T, ...).

        previous_ids  (B, N) the ids before ``ids``, at most ``lookback``; -1: missing
        positions     (B, T) the positions of ``ids`` in their pieces. 0 is the first id of a piece;
                      ids before it must not affect the state
        """
        return None

    def embed(self, x: Tensor, state: Any) -> Tensor:
        """The embeddings ``x`` (B, T, width) plus the vectors of this feature. ``state`` is the
        result of :meth:`read`, here and in the next methods."""
        return x

    def add_to_output(self, x: Tensor, state: Any) -> Tensor:
        """The output of the last layer before the norm, ``x`` (B, T, width), plus the vectors of
        this feature."""
        return x

    def score(self, logits: Tensor, x: Tensor, state: Any) -> Tensor:
        """The ``logits`` (B, T, vocab) of the next id plus the scores of this feature. ``x``
        (B, T, width) is the input of the output matrix."""
        return logits

    def native(self) -> NativeForm | None:
        """The feature in C++ with its current weights; ``None``: decoding steps run in torch."""
        return None

    def native_form(
        self, struct: str, attributes: str, scores: Tensor | None = None, **others: Any
    ) -> NativeForm:
        """The native form with the header of the same name as the feature's file. The fields of the
        struct are the ``attributes`` of the feature, names separated by spaces, then ``others``."""
        header = Path(inspect.getfile(type(self))).with_suffix(".h")
        fields = {name: getattr(self, name) for name in attributes.split()} | others
        return NativeForm(header, struct, fields, scores)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Tensor: ...  # the tables, by their names

    def register_tables(self, **tables: Tensor) -> None:
        """Register buffers that follow from the arguments and are not saved."""
        for name, table in tables.items():
            self.register_buffer(name, table, persistent=False)


@dataclass
class Predictions:
    """``K`` ids that may follow each of (B, T) ids: the state of a feature. Subclasses add fields.

    ids         (B, T, K): the predicted ids; 0: none
    confidence  (B, T, K): the class of confidence in each
    field       (B, T): the number of the next id in its group; 0 for tokens without groups
    """

    ids: Tensor
    confidence: Tensor
    field: Tensor


class PredictionFeature(Feature):
    """A feature that predicts ids, such as those that followed an earlier, equal passage.

    :meth:`read` of a subclass finds the predicted ids. Each has a class of confidence, such as the
    length of the repeated passage; learned weights of its class raise or lower its logit. Related:
    the neural cache (Grave et al. 2017), pointer networks (Vinyals et al. 2015).

    classes  the number of classes of confidence
    scores   (fields * K * classes, width): a vector for each field, number of the prediction (0 to
             K - 1) and class, whose product with the output of the layers is the score
    """

    classes: int
    scores: nn.Parameter

    def score(self, logits: Tensor, x: Tensor, state: Predictions) -> Tensor:
        row = self._rows(state) + state.field[..., None] * (state.ids.shape[2] * self.classes)
        scores = F.linear(x, self.scores.flatten(0, -2)).float().gather(2, row) * (state.ids > 0)
        return logits.scatter_add(2, state.ids, scores.to(logits.dtype))

    def _rows(self, state: Predictions) -> Tensor:
        """The row of each prediction in a table by number and class: (B, T, K)."""
        number = torch.arange(state.ids.shape[2], device=state.ids.device)
        return state.confidence + number * self.classes


def event_arguments(tokenizer: Tokenizer, feature: str) -> dict[str, list[list[int]]]:
    """Return arguments of features of event tokens, ranges of ids as [first, stop, value].

    ``steps`` are the ids that take time, ``starts`` and ``ends`` those that start and end a note,
    ``loudness`` those that set the loudness of the following notes, and ``resets`` those after
    which nothing sounds (only with control tokens). Raises ``ConfigError`` for other tokens."""
    vocabulary = tokenizer.vocabulary
    kinds = {"steps": "time_shift", "starts": "note_on", "ends": "note_off"}
    if not {*kinds.values(), "velocity"} <= set(vocabulary.kinds):
        raise ConfigError(
            f"model.features={feature}: expected tokenizer=performance, with note_on and note_off, "
            f"not {tokenizer.name}"
        )
    arguments = {name: [vocabulary.value_range(kind)] for name, kind in kinds.items()}
    if STREAM in vocabulary.kinds:
        arguments["resets"] = [vocabulary.value_range(KNOWN), vocabulary.value_range(STREAM)]
    return arguments | {"loudness": [vocabulary.value_range("velocity")]}


def join_ids(ids: Tensor, previous_ids: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
    """Return all ids (B, N + T), previous and new, and their positions, which are negative before
    the piece of the first new id. The arguments are those of :meth:`Feature.read`."""
    offsets = torch.arange(-previous_ids.shape[1], 0, device=ids.device)
    all_positions = torch.cat([positions[:, :1] + offsets, positions], 1)
    return torch.cat([previous_ids, ids], 1), all_positions
