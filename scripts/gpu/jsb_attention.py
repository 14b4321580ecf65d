"""Which implementation of attention each layer of a chorale model trains with, measured.

Rows hold several pieces, and two_d measures pitch and voice in its first layers only, so the choice
is made for each kind of layer: right first, against ``reference``, then the fastest.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence

import torch
from maestro_run import autocast
from torch import Tensor

from musictx.attention.api import attend, why_not
from musictx.attention.terms import Terms
from musictx.config import TrainConfig
from musictx.data.batches import TrainingBatches
from musictx.data.draw import TrainingRows
from musictx.data.shards import Shards
from musictx.model.transformer import MusicTransformer, Where
from musictx.tokens.vocab import Tokenizer
from musictx.train.network import build_model

CANDIDATES = ("fused", "sdpa", "reference", "chunked")
#: Relative error of outputs and gradients in 16 bits that is still rounding.
TOLERANCE = 2e-2
#: Tokens of the comparison with ``reference``: several pieces and padding.
SMALL = 256
PIECES = (100, 90, 50)


class Layer:
    """Attention of one layer of ``model`` as a training step asks for it."""

    def __init__(self, model: MusicTransformer, layer: int, where: Where) -> None:
        self.scheme, self.layer, self.where = model.position, layer, where

    def terms(self) -> Terms:
        return self.scheme.terms(self.layer, reach=self.where.reach)

    def learnt(self) -> list[Tensor]:
        """What the scheme has learnt; layers that do not use it have gradients of 0."""
        return [p for p in self.scheme.parameters() if p.requires_grad]

    def why_not(self, name: str, q: Tensor) -> str | None:
        terms = self.terms()
        return why_not(terms, self.where.queries, self.where.keys, q=q)[name]

    def __call__(self, name: str, made: Sequence[Tensor], dropout: float = 0.0) -> Tensor:
        return attend(
            *made,
            self.terms(),
            query_positions=self.where.queries,
            key_positions=self.where.keys,
            query_pieces=self.where.pieces,
            key_pieces=self.where.pieces,
            dropout=dropout,
            implementation=name,
        )


def choose(
    config: TrainConfig,
    shards: Shards,
    tokenizer: Tokenizer,
    device: torch.device,
    *,
    seconds: float = 60.0,
    say: Callable[[str], None] = print,
) -> list[str]:
    """For each layer the fastest of :data:`CANDIDATES` whose output and gradients are right.

    ``auto`` where none is, or where the time is over before one was tried.
    """
    model = build_model(config, tokenizer).to(device)
    with torch.no_grad():  # tables begin at almost nothing: then nothing would be seen of them
        for parameter in model.position.parameters():
            parameter.normal_(std=0.5)
    few, many = small(model, tokenizer, device), full(model, config, shards, tokenizer, device)
    until = time.monotonic() + seconds
    known: dict[str, str] = {}
    found = []
    for number in range(config.model.layers):
        kind = _kind(Layer(model, number, few).terms())
        if kind not in known:
            layers = Layer(model, number, few), Layer(model, number, many)
            say(f"layer {number + 1}: distances by {kind or 'nothing'}")
            known[kind] = _fastest(*layers, config, device, until, say)
        found.append(known[kind])
    return found


def _kind(terms: Terms) -> str:
    names = ("order", "place", "first label", "second label")
    return ", ".join(names[axis.coordinate] for axis in terms.axes)


def small(model: MusicTransformer, tokenizer: Tokenizer, device: torch.device) -> Where:
    """Where the tokens of one row of three pieces and padding stand; any ids."""
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(0, tokenizer.size, (1, SMALL), generator=generator)
    pieces = torch.full((1, SMALL), -1)
    at = 0
    for number, length in enumerate(PIECES):
        pieces[:, at : at + length] = number
        at += length
    return where(model, ids.to(device), pieces.to(device))


def full(
    model: MusicTransformer,
    config: TrainConfig,
    shards: Shards,
    tokenizer: Tokenizer,
    device: torch.device,
) -> Where:
    """Where the tokens of a training batch stand."""
    rows = TrainingRows(shards, tokenizer, config.model.context, config.corpus.augment, config.seed)
    count = config.trainer.batch * config.trainer.accumulate
    batch = TrainingBatches(rows, count).make(0)
    return where(model, batch.ids.to(device), batch.piece_ids.to(device))


def where(model: MusicTransformer, ids: Tensor, pieces: Tensor) -> Where:
    return model._where(ids, None, pieces, None)


def _fastest(
    few: Layer,
    many: Layer,
    config: TrainConfig,
    device: torch.device,
    until: float,
    say: Callable[[str], None],
) -> str:
    found: dict[str, float] = {}
    for name in CANDIDATES:
        if time.monotonic() > until:
            say(f"attention {name:9} not tried: the time for the choice is over")
            continue
        try:
            made = inputs(many, config, device)
            why = many.why_not(name, made[0])
            if why is None:
                wrong = error(few, name, config, device)
                why = None if wrong < TOLERANCE else f"relative error {wrong:.1e}"
            if why is None:
                found[name] = _milliseconds(many, name, made, config, device)
        except Exception as problem:  # a kernel may fail in any way: then it is not taken
            why = f"{type(problem).__name__}: {str(problem).splitlines()[:1]}"
        say(f"attention {name:9} {why or f'{found[name]:8.2f} ms, forward and backward'}")
    return min(found, key=lambda name: found[name]) if found else "auto"


def inputs(layer: Layer, config: TrainConfig, device: torch.device) -> list[Tensor]:
    """q, k, v for the layer's tokens: random, in 16 bits on a GPU."""
    rows, length = layer.where.pieces.shape if layer.where.pieces is not None else (1, SMALL)
    heads = config.model.heads
    shape = (rows, heads, length, config.model.width // heads)
    kind = torch.bfloat16 if device.type == "cuda" else torch.float32
    return [torch.randn(shape, device=device).to(kind).requires_grad_() for _ in range(3)]


def error(layer: Layer, name: str, config: TrainConfig, device: torch.device) -> float:
    """The largest relative error of the output and of every gradient, against ``reference`` in
    float32 on the same numbers; infinite if anything is not finite."""
    torch.manual_seed(0)
    made = inputs(layer, config, device)
    upstream = torch.randn_like(made[0])
    learnt = layer.learnt()

    def everything(name: str, made: list[Tensor], dropout: float = 0.0) -> list[Tensor]:
        out = layer(name, made, dropout)
        gradients = torch.autograd.grad(
            out,
            [*made, *learnt],
            upstream.to(out.dtype),
            allow_unused=True,
            materialize_grads=True,
        )
        return [out.detach().float(), *(g.float() for g in gradients)]

    right = everything("reference", [x.detach().float().requires_grad_() for x in made])
    with autocast(device):
        found = everything(name, made)
        dropped = everything(name, made, config.model.dropout)
    if not all(bool(x.isfinite().all()) for x in (*found, *dropped)):
        return math.inf
    return max(_relative(a, b) for a, b in zip(found, right))


def _relative(a: Tensor, b: Tensor) -> float:
    return float((a - b).norm() / b.norm()) if b.any() else float(a.norm())


def _milliseconds(
    layer: Layer, name: str, made: list[Tensor], config: TrainConfig, device: torch.device
) -> float:
    """Forward and backward of one layer at the size of a step, dropout included: the best of some.

    The clock of the host, launches included: a small model waits for them.
    """
    upstream = torch.randn_like(made[0])
    best = math.inf
    for _ in range(3 + 7 * (device.type == "cuda")):
        _wait(device)
        began = time.perf_counter()
        with autocast(device):
            out = layer(name, made, config.model.dropout)
        out.backward(upstream.to(out.dtype))
        _wait(device)
        best = min(best, 1e3 * (time.perf_counter() - began))
    return best


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()
