"""Other ways to compute what a step of training computes, to be timed before one is taken.

Each is a context in which musictx computes it so: ``remedy("products")``. All but ``bf16``
and ``compile`` give the same numbers to the last bit or to that of bfloat16.

    products  scores by intervals as a product and a sum, not as a product of matrices a token
    compile   what stands around attention in a layer by torch.compile
    bf16      the sum that passes through the layers in bfloat16
    features  what features read, embed and score by torch.compile, and the loss
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from musictx.attention import attend
from musictx.model import block
from musictx.model.features import pitches
from musictx.model.features.base import Feature
from musictx.model.transformer import MusicTransformer

#: Of torch.compile; a rehearsal takes one that needs no compiler.
BACKEND = "inductor"


def by_interval(x: Tensor, kinds: Tensor, maps: Tensor, wanted: Tensor, apart: Tensor) -> Tensor:
    """As ``pitches.by_interval``."""
    maps = maps.to(kinds.dtype)[:, :, apart]
    made = kinds.flatten(2) @ maps.permute(2, 0, 1, 3).flatten(2).flatten(0, 1)
    made = made.unflatten(-1, (len(wanted), len(apart)))
    asked = F.linear(x, wanted).to(kinds.dtype)
    return (asked[..., None] * made).sum(-2, dtype=torch.float32)


@cache
def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    return torch.compile(function, dynamic=False, backend=BACKEND)


def normed(x: Tensor, norm: list[Tensor]) -> Tensor:
    return F.layer_norm(x, x.shape[-1:], *norm)


def before(
    x: Tensor, norm: list[Tensor], qkv: list[Tensor], gates: Tensor | None, heads: int
) -> tuple[Tensor, ...]:
    """Queries, keys, values (rows, heads, count, size), and the gates."""
    rows, count, width = x.shape
    x = normed(x, norm)
    q, k, v = F.linear(x, *qkv).view(rows, count, 3, heads, width // heads).permute(2, 0, 3, 1, 4)
    opened = x[:0] if gates is None else 2 * torch.sigmoid(F.linear(x, gates))
    return q, k, v, opened


def after(
    x: Tensor,
    mixed: Tensor,
    gates: Tensor,
    out: list[Tensor],
    norm: list[Tensor],
    wide: list[Tensor],
    narrow: list[Tensor],
    dropout: float,
) -> Tensor:
    """``x`` (rows, count, width) after the layer; ``mixed`` is what attention gives."""
    mixed = mixed.transpose(1, 2)
    if gates.numel():
        mixed = mixed * gates[..., None].to(mixed.dtype)
    x = x + F.dropout(F.linear(mixed.flatten(2), *out), dropout).to(x.dtype)
    branch = F.linear(F.gelu(F.linear(normed(x, norm), *wide)), *narrow)
    return x + F.dropout(branch, dropout).to(x.dtype)


def lerp(v: Tensor, first: Tensor, share: Tensor) -> Tensor:
    return torch.lerp(v, first, share.to(v.dtype))


def both(part: nn.Module) -> list[Any]:
    return [part.weight, part.bias]


def compiled_block(
    self: block.Block, x: Tensor, scheme: Any, layer: int, where: Any, cache: Any, first: list[Any]
) -> Tensor:
    """As ``Block.forward`` in training without a cache."""
    part, dropout = self.attention, self.dropout.p if self.training else 0.0
    norm, qkv = both(self.attention_norm), both(part.qkv)
    q, k, v, gates = compiled(before)(x, norm, qkv, part.gates, part.heads)
    if not first:
        first.append(v)
    elif part.first_values is not None:
        v = compiled(lerp)(v, first[0], part.first_values)
    q, k = scheme.rotate(q, k, where.queries[0], where.queries[0])
    mixed = attend(
        *(q, k, v, scheme.terms(layer, reach=where.reach)),
        query_positions=where.queries,
        key_positions=where.keys,
        query_pieces=where.pieces,
        key_pieces=where.pieces,
        dropout=part.dropout if self.training else 0.0,
        implementation=part.implementation,
    )
    rest = (part.out, self.feedforward_norm, self.feedforward[0], self.feedforward[2])
    return compiled(after)(x, mixed, gates, *map(both, rest), dropout)


def through(self: MusicTransformer, x: Tensor, where: Any, cache: Any) -> Tensor:
    """As ``MusicTransformer._through``, in bfloat16."""
    return _THROUGH(self, x.bfloat16(), where, cache)


_THROUGH = MusicTransformer._through
PATCHES: dict[str, list[tuple[Any, str, Any]]] = {
    "products": [(pitches, "by_interval", by_interval)],
    "compile": [(block.Block, "forward", compiled_block)],
    "bf16": [(MusicTransformer, "_through", through)],
}


@contextlib.contextmanager
def remedy(*names: str) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for name in names:
            for owner, attribute, value in PATCHES.get(name, ()):
                stack.enter_context(mock.patch.object(owner, attribute, value))
        yield


def compile_features(model: MusicTransformer) -> None:
    """What the features of ``model`` read, embed and score by ``torch.compile``."""
    for feature in model.features:
        for name in ("read", "embed", "score"):
            if getattr(type(feature), name) is not getattr(Feature, name):
                method = getattr(feature, name)
                setattr(feature, name, torch.compile(method, dynamic=False, backend=BACKEND))
