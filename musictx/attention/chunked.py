"""Causal attention by blocks of queries: linear in memory, only the causal half is computed.

The relative logits come without a gather. For a block of m queries whose last one sees w keys, the
product P = Q E^T with the table E in *descending* distance (w-1, ..., 0) holds the logit of query r
and key j in column j + (m-1-r). Written with w+1 numbers to a row, that is place r*w + (m-1) + j
of the buffer: the same memory, begun at m-1 and read with w numbers to a row, is the matrix wanted.
So the content logits Q K^T are added in place, and in the backward pass the gradient of the logits,
read with w+1 to a row again, is the gradient of P (Huang et al. 2018 skew by copying; here two row
lengths of one buffer do it). Cells right of the diagonal hold other rows' numbers until masked.

Products and softmax are in float32 (float64 for float64 inputs) whatever the inputs' dtype. All
sums run in a fixed order: the same inputs give the same bits on the same machine.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from musictx.attention.terms import Positions, Span, Terms

BLOCK = 128  # queries at a time; 64 to 256 differ little
#: Logits held at once, in numbers: batch rows are taken together as long as they fit. On CPUs they
#: should stay in the cache, on other devices few large steps beat many small ones.
BUDGET, DEVICE_BUDGET = 2**20, 2**26


def why_not(
    terms: Terms,
    query_positions: Positions | tuple[Positions, ...],
    key_positions: Positions | tuple[Positions, ...],
    causal: bool,
) -> str | None:
    """Why this implementation cannot do the job, or None if it can."""
    if not causal:
        return "it computes causal attention only"
    if len(terms.axes) > 1:
        return f"it knows one axis of distance, not {len(terms.axes)}"
    if not (isinstance(query_positions, Span) and isinstance(key_positions, Span)):
        return "it needs consecutive positions (Span)"
    if query_positions.stop != key_positions.stop or len(query_positions) > len(key_positions):
        return (
            "the queries must be the last of the keys, not positions "
            f"{query_positions.start}..{query_positions.stop - 1} over "
            f"{key_positions.start}..{key_positions.stop - 1}"
        )
    for name in ("content_bias", "position_bias", "value_table"):
        if getattr(terms, name) is not None:
            return f"it knows no {name}"
    return None


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    terms: Terms,
    *,
    query_pieces: Tensor | None = None,
    key_pieces: Tensor | None = None,
    dropout: float = 0.0,
) -> Tensor:
    """Attention of q (B, H, Tq, D), the last Tq of the Tk tokens, over k and v (B, H, Tk, D).

    Arguments are taken as checked (:func:`musictx.attention.api.attend`, :func:`why_not`).
    """
    heads, keys = k.shape[1], k.shape[2]
    table = bias = None
    if terms.axes:
        axis = terms.axes[0].narrowed(keys)
        if axis.table is not None:
            table = axis.descending(axis.table, keys).expand(heads, -1, -1)
        if axis.bias is not None:
            bias = axis.descending(axis.bias, keys).expand(heads, -1)
    # The seed comes from the generator of the CPU: no waiting for a device, and a run that is
    # seeded or resumed drops the same weights.
    seed = int(torch.randint(2**62, ())) if dropout else 0
    # autocast is told off here and in both passes: they see to precision themselves.
    with torch.autocast(q.device.type, enabled=False):
        out: Tensor = _Chunked.apply(
            q, k, v, table, bias, query_pieces, key_pieces, terms.scale, dropout, seed
        )
    return out


class _Block(NamedTuple):
    """Queries first..stop-1 of the batch rows taken together, over keys from..upto-1."""

    first: int
    stop: int
    start: int
    upto: int
    hidden: Tensor | None  # bool (g, 1, m, w): keys of other pieces


class _Plan:
    """Sizes and buffers that forward and backward share; walks through the blocks."""

    def __init__(
        self, q: Tensor, k: Tensor, query_pieces: Tensor | None, key_pieces: Tensor | None
    ) -> None:
        self.batch, self.heads, self.queries, self.size = q.shape
        self.keys = k.shape[2]
        self.device = q.device
        self.dtype = torch.promote_types(q.dtype, torch.float32)
        self.block = min(BLOCK, self.queries)
        budget = BUDGET if q.device.type == "cpu" else DEVICE_BUDGET
        one_row = self.heads * self.block * (self.keys + 1)
        self.group = max(1, min(self.batch, budget // one_row))
        self.pieces = (query_pieces, key_pieces)
        corner = torch.full((self.block, self.block), float("-inf"), dtype=self.dtype)
        self.later = corner.triu(1).to(self.device)

    def buffer(self) -> Tensor:
        numbers = self.group * self.heads * self.block * (self.keys + 1)
        return torch.empty(numbers, dtype=self.dtype, device=self.device)

    def groups(self) -> list[slice]:
        starts = range(0, self.batch, self.group)
        return [slice(b, min(b + self.group, self.batch)) for b in starts]

    def blocks(self, rows: slice) -> list[_Block]:
        return [
            self._block(rows, first, min(first + self.block, self.queries))
            for first in range(0, self.queries, self.block)
        ]

    def _block(self, rows: slice, first: int, stop: int) -> _Block:
        before = self.keys - self.queries
        upto = before + stop
        query_pieces, key_pieces = self.pieces
        if query_pieces is None or key_pieces is None:
            return _Block(first, stop, 0, upto, None)
        hidden = query_pieces[rows, first:stop, None] != key_pieces[rows, None, :upto]
        # Keys before the first one that anybody in this block may see are left out altogether;
        # the block's own keys always stay in, so that its shape is the usual one.
        useful = ~hidden.all(dim=1).all(dim=0)
        start = min(int(useful.int().argmax()), before + first)
        return _Block(first, stop, start, upto, hidden[:, None, :, start:])

    def tokens(self, x: Tensor, rows: slice) -> Tensor:
        """(B, H, T, D) -> (g * H, T, D) of the batch rows taken together, in working precision."""
        return x[rows].to(self.dtype).reshape(-1, x.shape[2], x.shape[3])

    def tables(self, x: Tensor | None, rows: slice) -> Tensor | None:
        """(H, Tk, ...) -> (g * H, Tk, ...): the same table for each batch row."""
        if x is None:
            return None
        count = rows.stop - rows.start
        x = x.to(self.dtype)
        return x.contiguous() if count == 1 else x.repeat(count, *[1] * (x.dim() - 1))


def _logits(
    plan: _Plan, buffer: Tensor, block: _Block, q: Tensor, k: Tensor, table: Any, bias: Any
) -> tuple[Tensor, Tensor]:
    """Masked logits of one block, (G, m, w), and the buffer they lie in, (G, m * (w + 1)).

    q (G, m, D) is scaled already; k (G, Tk, D), table (G, Tk, D), bias (G, Tk).
    """
    m, w = block.stop - block.first, block.upto - block.start
    flat = buffer[: q.shape[0] * m * (w + 1)].view(q.shape[0], m * (w + 1))
    logits = flat[:, m - 1 : m - 1 + m * w].view(-1, m, w)
    k = k[:, block.start : block.upto].transpose(1, 2)
    if table is None and bias is None:
        torch.bmm(q, k, out=logits)
    else:
        product = flat.view(-1, m, w + 1)
        product[:, :, w] = 0  # read by masked cells only, but not to be NaN
        if table is not None:
            torch.bmm(q, table[:, -w:].transpose(1, 2), out=product[:, :, :w])
            if bias is not None:
                product[:, :, :w] += bias[:, None, -w:]
        else:
            product[:, :, :w] = bias[:, None, -w:]
        logits.baddbmm_(q, k)
    # Only the last m keys can be later than a query of the block.
    logits[:, :, w - m :] += plan.later[:m, :m]
    if block.hidden is not None:
        by_row = logits.view(-1, plan.heads, m, w)
        by_row.masked_fill_(block.hidden, float("-inf"))
    return logits, flat


def _generator(device: torch.device, seed: int) -> torch.Generator:
    """Draws the same weights to drop in both passes, which go through the blocks alike."""
    return torch.Generator(device).manual_seed(seed)


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


class _Chunked(torch.autograd.Function):
    """q (B, H, Tq, D), k and v (B, H, Tk, D), table (H, Tk, D) and bias (H, Tk) descending."""

    @staticmethod
    def forward(
        ctx: Any,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        table: Tensor | None,
        bias: Tensor | None,
        query_pieces: Tensor | None,
        key_pieces: Tensor | None,
        scale: float,
        dropout: float,
        seed: int,
    ) -> Tensor:
        plan = _Plan(q, k, query_pieces, key_pieces)
        out = torch.empty(q.shape, dtype=plan.dtype, device=plan.device)
        log_sum = torch.empty(q.shape[:3], dtype=plan.dtype, device=plan.device)
        buffer = plan.buffer()
        generator = _generator(plan.device, seed) if dropout else None
        for rows in plan.groups():
            qs, ks, vs = (plan.tokens(x, rows) for x in (q, k, v))
            tables, biases = plan.tables(table, rows), plan.tables(bias, rows)
            for block in plan.blocks(rows):
                queries = qs[:, block.first : block.stop] * scale
                logits, _ = _logits(plan, buffer, block, queries, ks, tables, biases)
                highest = logits.amax(-1, keepdim=True)
                highest.masked_fill_(highest == float("-inf"), 0.0)  # nothing to see
                weights = logits.sub_(highest).exp_()
                total = weights.sum(-1, keepdim=True)
                empty = total == 0
                if generator is not None:
                    weights *= _keep(weights.shape, dropout, generator)
                mixed = torch.bmm(weights, vs[:, block.start : block.upto])
                mixed /= total.masked_fill(empty, 1.0) * _kept_share(dropout)
                out[rows, :, block.first : block.stop] = mixed.view(
                    -1, plan.heads, *mixed.shape[1:]
                )
                # +inf for a row with nothing to see: its weights are exp(-inf) = 0 again.
                log = (highest + total.log()).masked_fill_(empty, float("inf"))
                log_sum[rows, :, block.first : block.stop] = log.view(-1, plan.heads, log.shape[1])
        ctx.save_for_backward(q, k, v, table, bias, query_pieces, key_pieces, out, log_sum)
        ctx.constants = scale, dropout, seed
        return out.to(q.dtype)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        with torch.autocast(upstream.device.type, enabled=False):
            return _backward(ctx, upstream)


def _backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
    q, k, v, table, bias, query_pieces, key_pieces, out, log_sum = ctx.saved_tensors
    scale, dropout, seed = ctx.constants
    plan = _Plan(q, k, query_pieces, key_pieces)
    dq, dk, dv = (torch.empty(x.shape, dtype=plan.dtype, device=plan.device) for x in (q, k, v))
    dtable, dbias = (
        None if x is None else torch.zeros(x.shape, dtype=plan.dtype, device=plan.device)
        for x in (table, bias)
    )
    # Sum over keys of weight times its gradient; dropout leaves it as it is.
    inner = (upstream.to(plan.dtype) * out).sum(-1)
    buffer, second = plan.buffer(), plan.buffer()
    generator = _generator(plan.device, seed) if dropout else None
    for rows in plan.groups():
        qs, ks, vs, ups = (plan.tokens(x, rows) for x in (q, k, v, upstream))
        tables, biases = plan.tables(table, rows), plan.tables(bias, rows)
        dks, dvs = torch.zeros_like(ks), torch.zeros_like(vs)
        dtables = None if tables is None else torch.zeros_like(tables)
        dbiases = None if biases is None else torch.zeros_like(biases)
        for block in plan.blocks(rows):
            here, seen = slice(block.first, block.stop), slice(block.start, block.upto)
            m, w = block.stop - block.first, block.upto - block.start
            queries, up = qs[:, here] * scale, ups[:, here]
            weights, flat = _logits(plan, buffer, block, queries, ks, tables, biases)
            weights.sub_(log_sum[rows, :, here].reshape(-1, m, 1)).exp_()
            dweights = second[: weights.numel()].view(weights.shape)
            torch.bmm(up, vs[:, seen].transpose(1, 2), out=dweights)
            if generator is not None:
                keep = _keep(weights.shape, dropout, generator).to(plan.dtype)
                keep /= _kept_share(dropout)
                dweights *= keep
                dvs[:, seen].baddbmm_((weights * keep).transpose(1, 2), up)
            else:
                dvs[:, seen].baddbmm_(weights.transpose(1, 2), up)
            dweights -= inner[rows, :, here].reshape(-1, m, 1)
            dlogits = weights.mul_(dweights)  # exactly 0 in every masked cell
            dks[:, seen].baddbmm_(dlogits.transpose(1, 2), queries)
            dqs = torch.bmm(dlogits, ks[:, seen])
            if dtables is not None or dbiases is not None:
                # The places of P that no logit was read from: these, and one in the last column.
                flat[:, : m - 1] = 0
                dproduct = flat.view(-1, m, w + 1)[:, :, :w]
                if tables is not None and dtables is not None:
                    dqs.baddbmm_(dproduct, tables[:, -w:])
                    dtables[:, -w:].baddbmm_(dproduct.transpose(1, 2), queries)
                if dbiases is not None:
                    dbiases[:, -w:] += dproduct.sum(1)
            dq[rows, :, here] = (dqs * scale).view(-1, plan.heads, m, plan.size)
        dk[rows], dv[rows] = dks.view_as(dk[rows]), dvs.view_as(dv[rows])
        if dtable is not None and dtables is not None:
            dtable += dtables.view(-1, *dtable.shape).sum(0)
        if dbias is not None and dbiases is not None:
            dbias += dbiases.view(-1, *dbias.shape).sum(0)
    dtable = None if dtable is None else dtable.to(table.dtype)
    dbias = None if dbias is None else dbias.to(bias.dtype)
    return (
        *(dq.to(q.dtype), dk.to(k.dtype), dv.to(v.dtype), dtable, dbias),
        *(None, None, None, None, None),
    )
