"""The forward and the backward pass over the blocks, and dropout."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from musictx.speed.chunked.plan import Call, Plan, QueryBlock, Views

#: Logits and the logarithms of sums are to base 2, because 2^x is faster than e^x.
BITS = 1 / math.log(2)


class Inputs(NamedTuple):
    """The inputs of the operator that have gradients, or their gradients.

    content, position (B, H, Tq, D): the queries for keys and for the table, position None if they
    are the same; k and v (B, H, Tk, D); table and values (H, distances, D) in descending distance.
    """

    content: Tensor
    position: Tensor | None
    k: Tensor
    v: Tensor
    table: Tensor | None
    values: Tensor | None


def read(arguments: tuple[Any, ...]) -> tuple[Inputs, Plan]:
    """Divide the arguments of the operator into inputs with gradients and a plan of the rest."""
    inputs = Inputs(*arguments[: len(Inputs._fields)])
    relative = inputs.table is not None or inputs.values is not None
    call = Call._make((*arguments[len(Inputs._fields) :], relative))
    return inputs, Plan(inputs.content, inputs.k, call)


def _logits(
    plan: Plan,
    views: Views,
    block: QueryBlock,
    content: Tensor,
    position: Tensor,
    k: Tensor,
    table: Tensor | None,
) -> Tensor:
    """Compute the masked logits of one block, (G, m, w), in ``views.by_key``.

    content, position (G, m, D) are queries, scaled already; k (G, Tk, D), table (G, distances, D)
    descending.
    """
    logits = views.by_key
    k = k[:, block.start : block.upto].transpose(1, 2)
    if table is None:
        torch.bmm(content, k, out=logits)
    else:
        here = table[:, plan.distances(block)].transpose(1, 2)
        torch.bmm(position, here, out=views.by_distance)
        logits.baddbmm_(content, k)
    if block.corner:  # only the last m keys can be later than a query of the block
        m = block.queries
        logits[:, :, block.keys - m :].add_(plan.later[:m, :m])
    if block.hidden is not None:
        by_row = logits.unflatten(0, (-1, plan.heads))
        by_row.masked_fill_(block.hidden, float("-inf"))
    return logits


def _keep(shape: torch.Size, dropout: float, generator: torch.Generator) -> Tensor:
    """Which weights dropout keeps, bool of ``shape``. Each is drawn from 16 random bits, which is
    five times as fast as drawing floats."""
    numbers = -(-shape.numel() // 4)
    bits = torch.empty(numbers, dtype=torch.int64, device=generator.device)
    bits.random_(-(2**63), None, generator=generator)
    return (bits.view(torch.int16)[: shape.numel()] >= _threshold(dropout)).view(shape)


def _threshold(dropout: float) -> int:
    return round(dropout * 2**16) - 2**15


def _kept_share(dropout: float) -> float:
    """The exact share of weights that dropout keeps: ``dropout`` is rounded to 1 / 65536."""
    return (2**15 - _threshold(dropout)) / 2**16


def forward(out: Tensor, log_sum: Tensor, *arguments: Any) -> None:
    """Write the output (B, H, Tq, D) and the logarithms of the sums of weights (B, H, Tq).

    The logarithm is +inf for a query that attends to no key, so that :func:`backward` computes its
    weights as 2^(-inf) = 0.
    """
    (content, position, k, v, table, values), plan = read(arguments)
    call, generator, memory = plan.call, plan.generator(), plan.memory()
    for tile in plan.tiles():
        rows, heads = tile
        qs, ks, vs = (plan.tokens(x, tile) for x in (content, k, v))
        ps = qs if position is None else plan.tokens(position, tile)
        tables, adds = plan.tables(table, tile), plan.tables(values, tile)
        for block in plan.blocks(rows):
            here = slice(block.first, block.stop)
            views = plan.views(memory, len(qs), block)
            queries = qs[:, here] * (call.scale * BITS)
            places = queries if position is None else ps[:, here] * (call.scale * BITS)
            logits = _logits(plan, views, block, queries, places, ks, tables)
            highest = logits.amax(-1, keepdim=True)
            highest.masked_fill_(highest == float("-inf"), 0.0)  # no key to attend to
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
            out[rows, heads, here] = plan.by_row(mixed)
            log = (highest + total.log2()).masked_fill_(empty, float("inf"))
            log_sum[rows, heads, here] = plan.by_row(log[..., 0])


def backward(
    wanted: list[bool], upstream: Tensor, out: Tensor, log_sum: Tensor, *arguments: Any
) -> tuple[Tensor | None, ...]:
    """The gradients of :class:`Inputs`."""
    inputs, plan = read(arguments)
    content, position, k, v, table, values = inputs
    call, generator = plan.call, plan.generator()
    empty = [x if x is None else x.new_empty(x.shape, dtype=plan.dtype) for x in inputs]
    dq, dposition, dk, dv, *totals = gradients = Inputs(*empty)  # type: ignore[arg-type]
    for total in totals:
        if total is not None:
            total.zero_()
    # The sum over keys of weight times its gradient; the same with and without dropout.
    inner = (upstream.to(plan.dtype) * out).sum(-1)
    memory, second = plan.memory(), plan.memory()
    third = plan.memory() if generator is not None and values is not None else memory
    for tile in plan.tiles():
        rows, heads = tile
        qs, ks, vs, ups = (plan.tokens(x, tile) for x in (content, k, v, upstream))
        ps = qs if position is None else plan.tokens(position, tile)
        tables, adds = plan.tables(table, tile), plan.tables(values, tile)
        dks, dvs, dtables, dadds = (
            None if x is None else torch.zeros_like(x) for x in (ks, vs, tables, adds)
        )
        assert dks is not None
        assert dvs is not None
        for block in plan.blocks(rows):
            here, seen = slice(block.first, block.stop), slice(block.start, block.upto)
            far = plan.distances(block)
            views = plan.views(memory, len(qs), block)
            other = plan.views(second, len(qs), block)
            queries, up = qs[:, here] * (call.scale * BITS), ups[:, here]
            places = queries if position is None else ps[:, here] * (call.scale * BITS)
            weights = _logits(plan, views, block, queries, places, ks, tables)
            weights.sub_(log_sum[rows, heads, here].reshape(len(qs), -1, 1)).exp2_()
            if adds is not None:
                dweights = other.by_key
                torch.bmm(up, adds[:, far].transpose(1, 2), out=other.by_distance)
                dweights.baddbmm_(up, vs[:, seen].transpose(1, 2))
            else:  # products are faster into contiguous memory
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
                    dropped_views = plan.views(third, len(qs), block)
                    dropped = torch.mul(weights, keep, out=dropped_views.by_key)
            dvs[:, seen].baddbmm_(dropped.transpose(1, 2), up)
            if dadds is not None:
                dropped_views.clear_around_keys()
                dadds[:, far].baddbmm_(dropped_views.by_distance.transpose(1, 2), up)
            dweights -= inner[rows, heads, here].reshape(len(qs), -1, 1)
            dlogits = weights.mul_(dweights)  # exactly 0 in every masked cell
            dks[:, seen].baddbmm_(dlogits.transpose(1, 2), queries)
            dqs = torch.bmm(dlogits, ks[:, seen])
            if tables is not None and dtables is not None:
                views.clear_around_keys()
                dtables[:, far].baddbmm_(views.by_distance.transpose(1, 2), places)
                if dposition is None:
                    dqs.baddbmm_(views.by_distance, tables[:, far])
                elif wanted[1]:
                    dps = torch.bmm(views.by_distance, tables[:, far])
                    dposition[rows, heads, here] = plan.by_row(dps) * call.scale
            dq[rows, heads, here] = plan.by_row(dqs) * call.scale
        dk[tile], dv[tile] = (dks / BITS).view_as(dk[tile]), dvs.view_as(dv[tile])
        for total, part, unit in zip(totals, (dtables, dadds), (BITS, 1.0)):
            if total is not None and part is not None:
                total[heads] += plan.by_row(part[:, : total.shape[1]]).sum(0) / unit
    return tuple(g if x is None or g is None else g.to(x.dtype) for g, x in zip(gradients, inputs))
