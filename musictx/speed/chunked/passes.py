"""The forward and the backward pass over the blocks, dropout, and the autograd functions."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from musictx.attention.terms import without_autocast
from musictx.speed.chunked.plan import Buffer, Call, Plan, QueryBlock, Views
from musictx.speed.kernels import twice

#: Logits and the logarithms of sums are counted in bits: 2^x is faster than e^x.
BITS = 1 / math.log(2)


class Inputs(NamedTuple):
    """All that has gradients, or the gradients.

    content, position (B, H, Tq, D): the queries for keys and for the table, position None if they
    are the same; k and v (B, H, Tk, D); table and values (H, distances, D) and bias (H, distances)
    in descending distance.
    """

    content: Tensor
    position: Tensor | None
    k: Tensor
    v: Tensor
    table: Tensor | None
    bias: Tensor | None
    values: Tensor | None


def _logits(
    plan: Plan,
    views: Views,
    block: QueryBlock,
    content: Tensor,
    position: Tensor,
    k: Tensor,
    table: Tensor | None,
    bias: Tensor | None,
) -> Tensor:
    """Masked logits of one block, (G, m, w): ``views.by_key``.

    content, position (G, m, D) are queries, scaled already; k (G, Tk, D), table (G, distances, D)
    and bias (G, distances) descending.
    """
    logits, product = views.by_key, views.by_distance
    k = k[:, block.start : block.upto].transpose(1, 2)
    here = plan.distances(block)
    if table is None and bias is None:
        torch.bmm(content, k, out=logits)
    else:
        if table is not None:
            torch.bmm(position, table[:, here].transpose(1, 2), out=product)
            if bias is not None:
                product.add_(bias[:, None, here], alpha=BITS)
        elif bias is not None:
            torch.mul(bias[:, None, here].expand_as(product), BITS, out=product)
        logits.baddbmm_(content, k)
    if block.corner:  # only the last m keys can be later than a query of the block
        m = block.queries
        logits[:, :, block.keys - m :].add_(plan.later[:m, :m])
    if block.hidden is not None:
        by_row = logits.unflatten(0, (-1, plan.heads))
        by_row.masked_fill_(block.hidden, float("-inf"))
    return logits


def _keep(shape: torch.Size, dropout: float, generator: torch.Generator) -> Tensor:
    """Which weights stay, bool of ``shape``: 16 random bits each (five times as fast as floats)."""
    numbers = -(-shape.numel() // 4)
    bits = torch.empty(numbers, dtype=torch.int64, device=generator.device)
    bits.random_(-(2**63), None, generator=generator)
    return (bits.view(torch.int16)[: shape.numel()] >= _threshold(dropout)).view(shape)


def _threshold(dropout: float) -> int:
    return round(dropout * 2**16) - 2**15


def _kept_share(dropout: float) -> float:
    """The exact share of weights that stay: ``dropout`` is rounded to 1 / 65536."""
    return (2**15 - _threshold(dropout)) / 2**16


def forward(inputs: Inputs, call: Call, out: Tensor, log_sum: Tensor) -> None:
    """Writes the output (B, H, Tq, D) and the logarithms of the sums of weights (B, H, Tq).

    +inf for a query with nothing to see: its weights are exp(-inf) = 0 again in :func:`backward`.
    """
    content, position, k, v, table, bias, values = inputs
    plan = Plan(content, k, call)
    buffer = Buffer(plan)
    generator = plan.generator()
    for rows, heads in plan.tiles():
        tile = rows, heads
        qs, ks, vs = (plan.tokens(x, tile) for x in (content, k, v))
        ps = qs if position is None else plan.tokens(position, tile)
        tables, biases, adds = (plan.tables(x, tile) for x in (table, bias, values))
        for block in plan.blocks(rows):
            here = slice(block.first, block.stop)
            views = buffer.seen(len(qs), block)
            queries = qs[:, here] * (call.scale * BITS)
            places = queries if position is None else ps[:, here] * (call.scale * BITS)
            logits = _logits(plan, views, block, queries, places, ks, tables, biases)
            highest = logits.amax(-1, keepdim=True)
            highest.masked_fill_(highest == float("-inf"), 0.0)  # nothing to see
            weights = logits.sub_(highest).exp2_()
            total = weights.sum(-1, keepdim=True)
            empty = total == 0
            if generator is not None:
                weights *= _keep(weights.shape, call.dropout, generator)
            mixed = torch.bmm(weights, vs[:, block.start : block.upto])
            if adds is not None:
                views.clear_around_keys()
                mixed.baddbmm_(views.by_distance, adds[:, plan.distances(block)])
            mixed /= total.masked_fill(empty, 1.0) * _kept_share(call.dropout)
            out[rows, heads, here] = mixed.view(-1, plan.heads, *mixed.shape[1:])
            log = (highest + total.log2()).masked_fill_(empty, float("inf"))
            log_sum[rows, heads, here] = log.view(-1, plan.heads, log.shape[1])


def backward(
    inputs: Inputs, call: Call, out: Tensor, log_sum: Tensor, upstream: Tensor, gradients: Inputs
) -> None:
    """Writes the gradients into ``gradients``."""
    content, position, k, v, table, bias, values = inputs
    dq, dposition, dk, dv, *totals = gradients
    plan = Plan(content, k, call)
    for total in totals:
        if total is not None:
            total.zero_()
    # Sum over keys of weight times its gradient; dropout leaves it as it is.
    inner = (upstream.to(plan.dtype) * out).sum(-1)
    buffer, second = Buffer(plan), Buffer(plan)
    generator = plan.generator()
    third = Buffer(plan) if generator is not None and values is not None else buffer
    for rows, heads in plan.tiles():
        tile = rows, heads
        qs, ks, vs, ups = (plan.tokens(x, tile) for x in (content, k, v, upstream))
        ps = qs if position is None else plan.tokens(position, tile)
        tables, biases, adds = (plan.tables(x, tile) for x in (table, bias, values))
        dks, dvs = torch.zeros_like(ks), torch.zeros_like(vs)
        dtables, dbiases, dadds = (
            None if x is None else torch.zeros_like(x) for x in (tables, biases, adds)
        )
        for block in plan.blocks(rows):
            here, seen = slice(block.first, block.stop), slice(block.start, block.upto)
            far = plan.distances(block)
            views, other = buffer.seen(len(qs), block), second.seen(len(qs), block)
            queries, up = qs[:, here] * (call.scale * BITS), ups[:, here]
            places = queries if position is None else ps[:, here] * (call.scale * BITS)
            weights = _logits(plan, views, block, queries, places, ks, tables, biases)
            weights.sub_(log_sum[rows, heads, here].reshape(len(qs), -1, 1)).exp2_()
            if adds is not None:
                dweights = other.by_key
                torch.bmm(up, adds[:, far].transpose(1, 2), out=other.by_distance)
                dweights.baddbmm_(up, vs[:, seen].transpose(1, 2))
            else:  # in one piece of memory, which products write to faster
                dweights = other.whole[: weights.numel()].view(weights.shape)
                torch.bmm(up, vs[:, seen].transpose(1, 2), out=dweights)
            dropped, dropped_views = weights, views
            if generator is not None:
                keep = _keep(weights.shape, call.dropout, generator).to(plan.dtype)
                keep /= _kept_share(call.dropout)
                dweights *= keep
                if adds is None:
                    dropped = keep.mul_(weights)
                else:
                    dropped_views = third.seen(len(qs), block)
                    dropped = torch.mul(weights, keep, out=dropped_views.by_key)
            dvs[:, seen].baddbmm_(dropped.transpose(1, 2), up)
            if dadds is not None:
                dropped_views.clear_around_keys()
                dadds[:, far].baddbmm_(dropped_views.by_distance.transpose(1, 2), up)
            dweights -= inner[rows, heads, here].reshape(len(qs), -1, 1)
            dlogits = weights.mul_(dweights)  # exactly 0 in every masked cell
            dks[:, seen].baddbmm_(dlogits.transpose(1, 2), queries)
            dqs = torch.bmm(dlogits, ks[:, seen])
            if tables is not None or biases is not None:
                views.clear_around_keys()
                dproduct = views.by_distance
                if tables is not None and dtables is not None:
                    dtables[:, far].baddbmm_(dproduct.transpose(1, 2), places)
                    if dposition is None:
                        dqs.baddbmm_(dproduct, tables[:, far])
                    else:
                        dps = torch.bmm(dproduct, tables[:, far]) * call.scale
                        dposition[rows, heads, here] = dps.view(-1, plan.heads, *dps.shape[1:])
                if dbiases is not None:
                    dbiases[:, far].add_(dproduct.sum(1))
            dq[rows, heads, here] = (dqs * call.scale).view(-1, plan.heads, *dqs.shape[1:])
        dks /= BITS
        if dtables is not None:
            dtables /= BITS
        dk[tile], dv[tile] = dks.view_as(dk[tile]), dvs.view_as(dv[tile])
        for total, part in zip(totals, (dtables, dbiases, dadds)):
            if total is not None and part is not None:
                part = part[:, : total.shape[1]]
                total[heads] += part.reshape(-1, plan.heads, *part.shape[1:]).sum(0)


class Chunked(torch.autograd.Function):
    """Takes what :class:`Inputs` names, then the :class:`Call`; gives the output (B, H, Tq, D) and
    the log of each row's sum of weights (B, H, Tq), in float32 at least."""

    @staticmethod
    def forward(*arguments: Any) -> tuple[Tensor, Tensor]:
        inputs, call = Inputs(*arguments[:-1]), arguments[-1]
        content, v = inputs.content, inputs.v
        dtype = torch.promote_types(content.dtype, torch.float32)
        out = torch.empty(*content.shape[:3], v.shape[3], dtype=dtype, device=content.device)
        log_sum = torch.empty(content.shape[:3], dtype=dtype, device=content.device)
        forward(inputs, call, out, log_sum)
        return out, log_sum

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        *tensors, ctx.call = inputs
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(*tensors, *output)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        return (*ChunkedGradients.apply(upstream, *ctx.saved_tensors, ctx.call), None)


class ChunkedGradients(torch.autograd.Function):
    """Takes the gradient of the output, what :class:`Chunked` was given and gave, and the call;
    gives the gradients of the inputs, ``None`` for what is not there."""

    @staticmethod
    def forward(*arguments: Any) -> tuple[Tensor | None, ...]:
        upstream, *saved, out, log_sum, call = arguments
        inputs = Inputs(*saved)
        options = {"dtype": out.dtype, "device": out.device}
        empty: list[Any] = [x if x is None else torch.empty(x.shape, **options) for x in inputs]
        gradients = Inputs(*empty)
        with without_autocast(upstream.device):
            backward(inputs, call, out, log_sum, upstream, gradients)
        pairs = zip(gradients, inputs)
        return tuple(None if d is None or x is None else d.to(x.dtype) for d, x in pairs)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
        """Nothing is kept."""

    backward = staticmethod(twice)
