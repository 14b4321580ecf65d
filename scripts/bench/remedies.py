"""Other ways to compute what a step of training computes, to be timed before one is taken.

Each is a context in which musictx computes it so: ``with remedy("scans"): ...``. All but ``bf16``
and ``compile`` give the same numbers to the last bit or to that of bfloat16.

    scans     the last event at each pitch by scans along memory instead of across it
    runs      echoes' runs by one comparison of windows and without indices
    products  scores by intervals as a product and a sum, not as a product of matrices a token
    muon      Muon's momentum and its step for all matrices of a shape at once
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
from musictx.model.features import conditions, echoes, pitches, sounding
from musictx.model.features.base import Feature
from musictx.model.features.pitches import NEVER
from musictx.model.transformer import MusicTransformer
from musictx.training import muon

#: Of torch.compile; a rehearsal takes one that needs no compiler.
BACKEND = "inductor"


def latest(pitch: Tensor, value: Tensor, pitches: int, new: slice) -> Tensor:
    """As ``pitches.latest``."""
    rows, total = pitch.shape
    at = torch.where(pitch >= 0, pitch, pitches)
    mark = value.new_zeros(rows, pitches + 1, total - new.start)
    mark.scatter_(1, at[:, None, new], value[:, None, new])
    if new.start:
        before = value.new_zeros(rows, pitches + 1)
        before.scatter_reduce_(1, at[:, : new.start], value[:, : new.start], "amax")
        mark[:, :, 0] = torch.maximum(mark[:, :, 0], before)
    return mark.cummax(2).values[:, :-1].transpose(1, 2).contiguous()


def coming(pitch: Tensor, time: Tensor, moment: Tensor, first: Tensor, written: Tensor) -> Tensor:
    """As ``conditions._next``."""
    rows, total = pitch.shape
    count = written.shape[-1]
    table = time.new_full((rows, count + 1, total + 1), 2 * NEVER)
    at = torch.where(pitch >= 0, pitch, count)
    table[:, :, 1:].scatter_(1, at.flip(1)[:, None], time.flip(1)[:, None])  # the last one first
    then = table.cummin(2).values
    now = torch.maximum(torch.searchsorted(time, moment), first.clamp(min=0))
    later = torch.searchsorted(time, moment, right=True)
    found, after = (
        then.gather(2, (total - where)[:, None].expand(-1, count + 1, -1))[:, :-1]
        for where in (now, later)
    )
    return torch.where(written, after.transpose(1, 2), found.transpose(1, 2)).contiguous()


def longest_runs(pitch: Tensor, begun: Tensor) -> tuple[Tensor, Tensor]:
    """As ``echoes._longest_runs``."""
    count = pitch.shape[1]
    most = min(count, echoes.FARTHEST)
    # A number for pitch and piece; what has none equals nothing before it.
    code = torch.where(pitch >= 0, begun * 256 + pitch, -1).int()
    before = F.pad(torch.where(pitch >= 0, code, -2), (most, 0), value=-2)
    same = before.unfold(1, count, 1)[:, :most] == code[:, None]  # lags most, ..., 2, 1
    number = torch.arange(count, device=pitch.device, dtype=torch.int32)
    broken = torch.where(same, -1, number).cummax(2).values
    run = (number - broken).clamp_(max=echoes.MOST_NOTES)
    nearer_first = torch.arange(1, most + 1, device=pitch.device, dtype=torch.int32)[:, None]
    best = torch.add(nearer_first, run, alpha=most + 1).amax(1)
    lags = (most + 1 - best % (most + 1)).int()
    return (best // (most + 1)).int(), lags


def by_interval(x: Tensor, kinds: Tensor, maps: Tensor, wanted: Tensor, apart: Tensor) -> Tensor:
    """As ``pitches.by_interval``."""
    maps = maps.to(kinds.dtype)[:, :, apart]
    made = kinds.flatten(2) @ maps.permute(2, 0, 1, 3).flatten(2).flatten(0, 1)
    made = made.unflatten(-1, (len(wanted), len(apart)))
    asked = F.linear(x, wanted).to(kinds.dtype)
    return (asked[..., None] * made).sum(-2, dtype=torch.float32)


def step_matrices(self: muon.Muon, group: dict[str, Any]) -> None:
    """As ``Muon._step_matrices``."""
    by_shape: dict[tuple[int, ...], list[nn.Parameter]] = {}
    for p in group["params"]:
        if p.grad is not None:
            by_shape.setdefault(tuple(p.shape), []).append(p)
            if not self.state[p]:
                self.state[p] = {"step": torch.zeros(()), "momentum": torch.zeros_like(p)}
    for (rows, columns), matrices in by_shape.items():
        parts, gradients = group.get("split", 1), [p.grad for p in matrices]
        totals = [self.state[p]["momentum"] for p in matrices]
        torch._foreach_mul_(totals, self.momentum)
        torch._foreach_add_(totals, gradients)
        steps = torch.stack(torch._foreach_add(gradients, totals, alpha=self.momentum))
        steps = muon.orthogonal(steps.view(-1, rows // parts, columns)).to(matrices[0].dtype)
        scale = muon.RMS * max(rows // parts, columns) ** 0.5
        torch._foreach_mul_(matrices, 1.0 - group["lr"] * group["weight_decay"])
        torch._foreach_add_(
            matrices, list(steps.view(-1, rows, columns)), alpha=-group["lr"] * scale
        )


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
    found = x[:0] if gates is None else 2 * torch.sigmoid(F.linear(x, gates))
    return q, k, v, found


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
    "scans": [
        (sounding, "latest", latest),
        (conditions, "latest", latest),
        (conditions, "_next", coming),
    ],
    "runs": [(echoes, "_longest_runs", longest_runs)],
    "products": [(pitches, "by_interval", by_interval)],
    "muon": [(muon.Muon, "_step_matrices", step_matrices)],
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
