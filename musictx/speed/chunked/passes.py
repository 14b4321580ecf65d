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

    content, position  (B, H, Tq, D): the queries for keys and for the table; position is None if
                       they are the same
    k, v               (B, H, Tk, D)
    table, values      (H, distances, D) in descending distance
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

    content, position (G, m, D) are scaled queries; k (G, Tk, D); table (G, distances, D) in
    descending distance.
    """
    logits = views.by_key
    k = k[:, block.start : block.upto].transpose(1, 2)
    if table is None:
        torch.bmm(content, k, out=logits)
    else:
        table = table[:, plan.distances(block)].transpose(1, 2)
        torch.bmm(position, table, out=views.by_distance)
        logits.baddbmm_(content, k)
    if block.on_diagonal:  # only the last m keys can be later than a query of the block
        m = block.queries
        logits[:, :, block.keys - m :].add_(plan.causal_mask[:m, :m])
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
    """Dropout keeps a weight if its random int16 is at least this."""
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
        tables, value_tables = plan.tables(table, tile), plan.tables(values, tile)
        for block in plan.blocks(rows):
            tokens = slice(block.first, block.stop)
            views = plan.views(memory, len(qs), block)
            queries = qs[:, tokens] * (call.scale * BITS)
            position_queries = queries
            if position is not None:
                position_queries = ps[:, tokens] * (call.scale * BITS)
            logits = _logits(plan, views, block, queries, position_queries, ks, tables)
            highest = logits.amax(-1, keepdim=True)
            highest.masked_fill_(highest == float("-inf"), 0.0)  # no key to attend to
            weights = logits.sub_(highest).exp2_()
            total = weights.sum(-1, keepdim=True)
            empty = total == 0
            if generator is not None:
                weights *= _keep(weights.shape, call.dropout, generator)
            sums = torch.bmm(weights, vs[:, block.start : block.upto])
            if value_tables is not None:
                views.clear_around_keys()
                sums.baddbmm_(views.by_distance, value_tables[:, plan.distances(block)])
            sums /= total.masked_fill(empty, 1.0) * _kept_share(call.dropout)
            out[rows, heads, tokens] = plan.by_row(sums)
            log = (highest + total.log2()).masked_fill_(empty, float("inf"))
            log_sum[rows, heads, tokens] = plan.by_row(log[..., 0])


def backward(
    needs_gradient: list[bool], upstream: Tensor, out: Tensor, log_sum: Tensor, *arguments: Any
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
    logit_memory, gradient_memory = plan.memory(), plan.memory()
    dropout_memory = plan.memory() if generator is not None and values is not None else None
    for tile in plan.tiles():
        rows, heads = tile
        qs, ks, vs, ups = (plan.tokens(x, tile) for x in (content, k, v, upstream))
        ps = qs if position is None else plan.tokens(position, tile)
        tables, value_tables = plan.tables(table, tile), plan.tables(values, tile)
        dks, dvs, dtables, dvalue_tables = (
            None if x is None else torch.zeros_like(x) for x in (ks, vs, tables, value_tables)
        )
        assert dks is not None
        assert dvs is not None
        for block in plan.blocks(rows):
            tokens, keys = slice(block.first, block.stop), slice(block.start, block.upto)
            distances = plan.distances(block)
            views = plan.views(logit_memory, len(qs), block)
            gradient_views = plan.views(gradient_memory, len(qs), block)
            queries, up = qs[:, tokens] * (call.scale * BITS), ups[:, tokens]
            position_queries = queries
            if position is not None:
                position_queries = ps[:, tokens] * (call.scale * BITS)
            weights = _logits(plan, views, block, queries, position_queries, ks, tables)
            weights.sub_(log_sum[rows, heads, tokens].reshape(len(qs), -1, 1)).exp2_()
            if value_tables is not None:
                dweights, block_table = gradient_views.by_key, value_tables[:, distances]
                torch.bmm(up, block_table.transpose(1, 2), out=gradient_views.by_distance)
                dweights.baddbmm_(up, vs[:, keys].transpose(1, 2))
            else:  # products are faster into contiguous memory
                dweights = gradient_views.whole[: weights.numel()].view(weights.shape)
                torch.bmm(up, vs[:, keys].transpose(1, 2), out=dweights)
            used_weights, used_views = weights, views  # after dropout
            if generator is not None:
                keep = _keep(weights.shape, call.dropout, generator).to(plan.dtype)
                keep /= _kept_share(call.dropout)
                dweights *= keep
                if dropout_memory is None:
                    used_weights = keep.mul_(weights)
                else:
                    used_views = plan.views(dropout_memory, len(qs), block)
                    used_weights = torch.mul(weights, keep, out=used_views.by_key)
            dvs[:, keys].baddbmm_(used_weights.transpose(1, 2), up)
            if dvalue_tables is not None:
                used_views.clear_around_keys()
                dvalue_tables[:, distances].baddbmm_(used_views.by_distance.transpose(1, 2), up)
            dweights -= inner[rows, heads, tokens].reshape(len(qs), -1, 1)
            dlogits = weights.mul_(dweights)  # exactly 0 in every masked cell
            dks[:, keys].baddbmm_(dlogits.transpose(1, 2), queries)
            dqs = torch.bmm(dlogits, ks[:, keys])
            if tables is not None and dtables is not None:
                views.clear_around_keys()
                dtables[:, distances].baddbmm_(views.by_distance.transpose(1, 2), position_queries)
                if dposition is None:
                    dqs.baddbmm_(views.by_distance, tables[:, distances])
                elif needs_gradient[1]:
                    dps = torch.bmm(views.by_distance, tables[:, distances])
                    dposition[rows, heads, tokens] = plan.by_row(dps) * call.scale
            dq[rows, heads, tokens] = plan.by_row(dqs) * call.scale
        dk[tile], dv[tile] = (dks / BITS).view_as(dk[tile]), dvs.view_as(dv[tile])
        for total, part, unit in zip(totals, (dtables, dvalue_tables), (BITS, 1.0)):
            if total is not None and part is not None:
                total[heads] += plan.by_row(part[:, : total.shape[1]]).sum(0) / unit
    return tuple(g if x is None or g is None else g.to(x.dtype) for g, x in zip(gradients, inputs))
