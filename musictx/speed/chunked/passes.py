"""The forward and the backward pass over the blocks.

The inputs that can have gradients, in the order of the operator:

content, position  (B, H, Tq, D): the queries for the products with keys and with the table
k, v               (B, H, Tk, D)
table, values      (H, distances, D) in descending distance

The other arguments are those of :class:`~musictx.speed.chunked.tiling.Tiling`.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from musictx.speed.chunked.tiling import Block, Tiling, Views

#: Logits and the logarithms of sums are to base 2, because 2^x is faster than e^x.
LOG2E = math.log2(math.e)


def _logits(
    tiling: Tiling,
    views: Views,
    block: Block,
    content: Tensor,
    position: Tensor,
    k: Tensor,
    table: Tensor | None,
) -> Tensor:
    """Compute the masked logits of one block, (G, m, w), in ``views.by_key``, and return this view.

    content, position (G, m, D) are scaled queries; k is (G, Tk, D), table (G, distances, D).
    """
    logits = views.by_key
    k = k[:, block.keys].transpose(1, 2)
    if table is None:
        torch.bmm(content, k, out=logits)
    else:
        torch.bmm(position, table[:, block.distances].transpose(1, 2), out=views.by_distance)
        logits.baddbmm_(content, k)
    if block.on_diagonal:  # only the last m keys can be later than a query of the block
        m = logits.shape[1]
        logits[:, :, -m:].add_(tiling.causal_mask[:m, :m])
    if block.hidden is not None:
        tiling.split_heads(logits).masked_fill_(block.hidden, float("-inf"))
    return logits


def forward(out: Tensor, log_sum: Tensor, *arguments: Any) -> None:
    """Write the output (B, H, Tq, D) and the logarithms of the sums of weights (B, H, Tq).

    The logarithm of a query that attends to no key is +inf, so that :func:`backward` computes its
    weights as 2^(-inf) = 0.
    """
    content, position, k, v, table, values = arguments[:6]
    tiling = Tiling(arguments[:6], *arguments[6:])
    memory = tiling.memory()
    for tile in tiling.tiles():
        rows, heads = tile
        ks, vs = (tiling.tokens(x, tile) for x in (k, v))
        qs, position_qs = (
            tiling.tokens(x, tile) * (tiling.scale * LOG2E) for x in (content, position)
        )
        tables, value_tables = tiling.tables(table, tile), tiling.tables(values, tile)
        for block in tiling.blocks(rows):
            tokens = block.tokens
            views = tiling.views(memory, len(qs), block)
            queries, position_queries = qs[:, tokens], position_qs[:, tokens]
            logits = _logits(tiling, views, block, queries, position_queries, ks, tables)
            highest = logits.amax(-1, keepdim=True)
            highest.masked_fill_(highest == float("-inf"), 0.0)  # no key to attend to
            weights = logits.sub_(highest).exp2_()
            total = weights.sum(-1, keepdim=True)
            empty = total == 0
            if tiling.generator is not None:
                weights *= tiling.keep(weights.shape)
            sums = torch.bmm(weights, vs[:, block.keys])
            if value_tables is not None:
                views.clear_around_keys()
                sums.baddbmm_(views.by_distance, value_tables[:, block.distances])
            sums /= total.masked_fill(empty, 1.0) * tiling.kept_share
            out[rows, heads, tokens] = tiling.split_heads(sums)
            log = (highest + total.log2()).masked_fill_(empty, float("inf"))
            log_sum[rows, heads, tokens] = tiling.split_heads(log[..., 0])


def backward(
    needs_gradient: list[bool], upstream: Tensor, out: Tensor, log_sum: Tensor, *arguments: Any
) -> tuple[Tensor | None, ...]:
    """The gradients of all inputs, None for tables that are None; ``needs_gradient`` is ignored."""
    content, position, k, v, table, values = inputs = arguments[:6]
    tiling = Tiling(inputs, *arguments[6:])
    gradients: list[Any] = [
        x if x is None else x.new_zeros(x.shape, dtype=tiling.dtype) for x in inputs
    ]
    dq, dposition, dk, dv, dtable, dvalue_table = gradients
    # The sum over keys of weight times its gradient is <upstream, out>, with and without dropout.
    inner = (upstream.to(tiling.dtype) * out).sum(-1)
    logit_memory, gradient_memory = tiling.memory(), tiling.memory()
    dropout_memory = None if tiling.generator is None else tiling.memory()
    for tile in tiling.tiles():
        rows, heads = tile
        ks, vs, ups = (tiling.tokens(x, tile) for x in (k, v, upstream))
        qs, position_qs = (
            tiling.tokens(x, tile) * (tiling.scale * LOG2E) for x in (content, position)
        )
        tables, value_tables = tiling.tables(table, tile), tiling.tables(values, tile)
        dks, dvs = torch.zeros_like(ks), torch.zeros_like(vs)
        dtables = None if tables is None else torch.zeros_like(tables)
        dvalue_tables = None if value_tables is None else torch.zeros_like(value_tables)
        for block in tiling.blocks(rows):
            tokens, keys, distances, *_ = block
            views = tiling.views(logit_memory, len(qs), block)
            gradient_views = tiling.views(gradient_memory, len(qs), block)
            queries, position_queries, up = (x[:, tokens] for x in (qs, position_qs, ups))
            weights = _logits(tiling, views, block, queries, position_queries, ks, tables)
            weights.sub_(log_sum[rows, heads, tokens].reshape(len(qs), -1, 1)).exp2_()
            if value_tables is not None:
                dweights, block_table = gradient_views.by_key, value_tables[:, distances]
                torch.bmm(up, block_table.transpose(1, 2), out=gradient_views.by_distance)
                dweights.baddbmm_(up, vs[:, keys].transpose(1, 2))
            else:  # products are faster into contiguous memory
                dweights = gradient_memory[: weights.numel()].view(weights.shape)
                torch.bmm(up, vs[:, keys].transpose(1, 2), out=dweights)
            kept_weights, kept_views = weights, views  # after dropout
            if dropout_memory is not None:
                keep = tiling.keep(weights.shape).to(tiling.dtype)
                keep /= tiling.kept_share
                dweights *= keep
                kept_views = tiling.views(dropout_memory, len(qs), block)
                kept_weights = torch.mul(weights, keep, out=kept_views.by_key)
            dvs[:, keys].baddbmm_(kept_weights.transpose(1, 2), up)
            if dvalue_tables is not None:
                kept_views.clear_around_keys()
                dvalue_tables[:, distances].baddbmm_(kept_views.by_distance.transpose(1, 2), up)
            dweights -= inner[rows, heads, tokens].reshape(len(qs), -1, 1)
            dlogits = weights.mul_(dweights)  # exactly 0 in every masked cell
            dks[:, keys].baddbmm_(dlogits.transpose(1, 2), queries)
            dqs = torch.bmm(dlogits, ks[:, keys])
            if tables is not None and dtables is not None:
                views.clear_around_keys()
                dtables[:, distances].baddbmm_(views.by_distance.transpose(1, 2), position_queries)
                dps = torch.bmm(views.by_distance, tables[:, distances])
                dposition[rows, heads, tokens] = tiling.split_heads(dps) * tiling.scale
            dq[rows, heads, tokens] = tiling.split_heads(dqs) * tiling.scale
        # The queries in ``dks`` and ``dtables`` have been multiplied by LOG2E.
        dk[tile], dv[tile] = (dks / LOG2E).view_as(dk[tile]), dvs.view_as(dv[tile])
        if dtables is not None:
            dtable[heads] += tiling.split_heads(dtables[:, : dtable.shape[1]]).sum(0) / LOG2E
        if dvalue_tables is not None:
            count = dvalue_table.shape[1]
            dvalue_table[heads] += tiling.split_heads(dvalue_tables[:, :count]).sum(0)
    return tuple(g if g is None else g.to(x.dtype) for g, x in zip(gradients, inputs))
