"""Attention by blocks of queries: linear in memory; of causal attention only the half is computed.

The relative logits come without a gather. For a block of m queries over w keys, the product
P = Q E^T with the table E in *descending* distance holds the logit of query r and key j in column
j + (m-1-r). Written with W numbers to a row, that is place r*(W-1) + (m-1) + j of the buffer: the
same memory, begun at m-1 and read with W-1 numbers to a row, is the matrix wanted. So the content
logits Q K^T are added in place, and in the backward pass the gradient of the logits, read with W to
a row again, is the gradient of P (Huang et al. 2018 skew by copying; here two row lengths of one
buffer do it). A value table needs the same turn of the weights, and takes the same two views.

How many columns: w keys and m queries have w+m-1 distances between them, so W = w+m-1. When the
block's last key is the last query itself, as in causal attention of a text to itself, the m-1
distances below 0 are masked in any case; w columns and one more to a row are enough, W = w+1. Then
cells right of the diagonal hold other rows' numbers until masked.

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
    queries, keys = terms.needed(query_positions), terms.needed(key_positions)
    if len(terms.axes) > 1:
        return f"it knows one axis of distance, not {len(terms.axes)}"
    if terms.axes and terms.axes[0].coordinate:
        return "it measures the order of tokens only, not further coordinates"
    if not (isinstance(queries[0], Span) and isinstance(keys[0], Span)):
        return "it needs consecutive positions (Span)"
    return None


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    terms: Terms,
    *,
    query_positions: Positions | tuple[Positions, ...] | None = None,
    key_positions: Positions | tuple[Positions, ...] | None = None,
    causal: bool = True,
    query_pieces: Tensor | None = None,
    key_pieces: Tensor | None = None,
    dropout: float = 0.0,
) -> Tensor:
    """Attention of q (B, H, Tq, D) over k and v (B, H, Tk, D): (B, H, Tq, D) in the dtype of q.

    Without positions the queries are the last Tq of the Tk tokens. Arguments are taken as checked
    (:func:`musictx.attention.api.attend`, :func:`why_not`).
    """
    queries, keys = q.shape[2], k.shape[2]
    if query_positions is None or key_positions is None:
        key_positions = (Span(0, keys),) * 2
        query_positions = (Span(keys - queries, queries),) * 2
    at, over = terms.needed(query_positions), terms.needed(key_positions)
    assert isinstance(at[0], Span)
    assert isinstance(over[0], Span)
    offset = at[0].start - over[0].start
    local = None
    if terms.blocks is not None:
        number, length = terms.blocks.coordinate, terms.blocks.length
        local = _Local(length, at[number], over[number])
    # The seed comes from the generator of the CPU: no waiting for a device, and a run that is
    # seeded or resumed drops the same weights.
    seed = int(torch.randint(2**62, ())) if dropout else 0
    call = _Call(
        *(terms.scale, dropout, seed, causal, offset, local, query_pieces, key_pieces),
        relative=bool(terms.axes),
    )
    # autocast is told off here and in both passes: they see to precision themselves.
    with torch.autocast(q.device.type, enabled=False):
        content, position = q, None
        if terms.content_bias is not None:
            content = q + terms.content_bias.to(q.dtype)[:, None]
        table = bias = values = None
        if terms.axes:
            axis = terms.axes[0]
            # Distances from the greatest down to the smallest that any query meets.
            highest = offset + queries - 1
            aligned = _aligned(causal, offset, queries, keys)
            lowest = 0 if aligned else offset - (keys - 1)

            def rows(x: Tensor | None) -> Tensor | None:
                if x is None:
                    return None
                x = axis.descending(x, highest + 1, lowest)
                return x.expand(q.shape[1], *[-1] * (x.dim() - 1))

            table, bias, values = rows(axis.table), rows(axis.bias), rows(terms.value_table)
            u, w = terms.content_bias, terms.position_bias
            if axis.table is not None and (u is not None or w is not None):
                position = q if w is None else q + w.to(q.dtype)[:, None]
        out: Tensor = _Chunked.apply(content, position, k, v, table, bias, values, call)
    return out


def _aligned(causal: bool, offset: int, queries: int, keys: int) -> bool:
    """Causal attention of the last tokens to all tokens: no distance below 0 counts."""
    return causal and offset >= 0 and offset + queries == keys


class _Local(NamedTuple):
    """Blocks of ``length`` positions; where queries and keys stand."""

    length: int
    queries: Positions
    keys: Positions


class _Call(NamedTuple):
    """What a call of :func:`attend` says beside its tensors with gradients."""

    scale: float
    dropout: float
    seed: int
    causal: bool
    offset: int  # query i stands where key offset + i stands or would stand
    local: _Local | None
    query_pieces: Tensor | None
    key_pieces: Tensor | None
    relative: bool


class _Block(NamedTuple):
    """Queries first..stop-1 of the batch rows taken together, over keys start..upto-1."""

    first: int
    stop: int
    start: int
    upto: int
    hidden: Tensor | None  # bool (g or 1, 1, m, w): keys not to be seen
    corner: bool  # the last key is the last query: the last m columns make a triangle
    relative: bool

    @property
    def queries(self) -> int:
        return self.stop - self.first

    @property
    def keys(self) -> int:
        return self.upto - self.start

    @property
    def columns(self) -> int:
        """Distances between these queries and keys, as far as they are needed."""
        return self.keys + (0 if self.corner or not self.relative else self.queries - 1)

    @property
    def width(self) -> int:
        """W: numbers to a row of the product."""
        return max(self.columns, self.keys + 1)


class _Buffer:
    """Memory for one block's numbers, seen in two ways."""

    def __init__(self, plan: _Plan) -> None:
        extra = 1 if plan.aligned or not plan.call.relative else plan.block
        numbers = plan.group * plan.heads * plan.block * (plan.keys + extra)
        self._numbers = torch.empty(numbers, dtype=plan.dtype, device=plan.device)

    def seen(self, count: int, block: _Block) -> _Views:
        m, width = block.queries, block.width
        flat = self._numbers[: count * m * width].view(count, m * width)
        rows = (m * width, width - 1, 1)
        return _Views(
            self._numbers,
            flat,
            flat.view(count, m, width)[:, :, : block.columns],
            flat.as_strided((count, m, block.keys), rows, m - 1),
            flat.as_strided((count, m, width - 1 - block.keys), rows, m - 1 + block.keys),
            flat.view(count, m, width)[:, :, block.columns :],
        )


class _Views(NamedTuple):
    """The places of one block: W numbers to a row, or W-1 to a row from place m-1 on."""

    whole: Tensor  # all the memory, one dimension
    flat: Tensor  # (G, m * W)
    by_distance: Tensor  # (G, m, columns): P
    by_key: Tensor  # (G, m, w)
    between: Tensor  # what by_key leaves out between its rows
    beyond: Tensor  # what by_distance leaves out at the end of its rows

    def clear_around_keys(self) -> None:
        """0 wherever no key of a query stands, so that ``by_distance`` may be read."""
        self.flat[:, : self.by_key.shape[1] - 1] = 0
        self.between.zero_()
        self.flat[:, -1] = 0


class _Plan:
    """Sizes that forward and backward share; walks through the blocks."""

    def __init__(self, q: Tensor, k: Tensor, call: _Call) -> None:
        self.batch, self.heads, self.queries, self.size = q.shape
        self.keys = k.shape[2]
        self.call = call
        self.aligned = _aligned(call.causal, call.offset, self.queries, self.keys)
        self.device = q.device
        self.dtype = torch.promote_types(q.dtype, torch.float32)
        self.block = min(BLOCK, self.queries)
        budget = BUDGET if q.device.type == "cpu" else DEVICE_BUDGET
        one_row = self.heads * self.block * (self.keys + 1)
        self.group = max(1, min(self.batch, budget // one_row))
        corner = torch.full((self.block, self.block), float("-inf"), dtype=self.dtype)
        self.later = corner.triu(1).to(self.device)

    def groups(self) -> list[slice]:
        starts = range(0, self.batch, self.group)
        return [slice(b, min(b + self.group, self.batch)) for b in starts]

    def blocks(self, rows: slice) -> list[_Block]:
        return [
            self._block(rows, first, min(first + self.block, self.queries))
            for first in range(0, self.queries, self.block)
        ]

    def _block(self, rows: slice, first: int, stop: int) -> _Block:
        call, before = self.call, self.call.offset
        start, upto = self._reach(first, stop)
        corner = call.causal and before + first >= 0 and upto == before + stop
        hidden = self._hidden(rows, first, stop, start, upto, corner)
        if hidden is not None and (self.call.query_pieces is not None or call.local is not None):
            # Keys that nobody in this block may see are left out at both ends; the triangle of a
            # corner always stays in.
            useful = (~hidden).flatten(0, 2).any(0).int()
            skip = int(useful.argmax())
            skip = min(skip, before + first - start) if corner else skip
            drop = 0 if corner else int(useful.flip(0).argmax())
            hidden = hidden[..., skip : hidden.shape[-1] - drop]
            start, upto = start + skip, upto - drop
        return _Block(first, stop, start, upto, hidden, corner, call.relative)

    def _reach(self, first: int, stop: int) -> tuple[int, int]:
        """The keys start..upto-1 that these queries may see, as far as is known without looking."""
        start, upto = 0, self.keys
        local = self.call.local
        if local and isinstance(local.queries, Span) and isinstance(local.keys, Span):
            length, zero = local.length, local.keys.start
            start = ((local.queries.start + first) // length - 1) * length - zero
            upto = ((local.queries.start + stop - 1) // length + 2) * length - zero
        if self.call.causal:
            upto = min(upto, self.call.offset + stop)
        upto = min(max(upto, 1), self.keys)
        return min(max(start, 0), upto - 1), upto

    def _hidden(
        self, rows: slice, first: int, stop: int, start: int, upto: int, corner: bool
    ) -> Tensor | None:
        """Keys that are hidden for another reason than the corner's: bool (g or 1, 1, m, w)."""
        call = self.call
        masks = []
        if call.query_pieces is not None and call.key_pieces is not None:
            here = call.query_pieces[rows, first:stop, None]
            masks.append(here != call.key_pieces[rows, None, start:upto])
        if call.local is not None:
            length = call.local.length
            here = self._places(call.local.queries, rows, first, stop)[:, :, None] // length
            there = self._places(call.local.keys, rows, start, upto)[:, None] // length
            masks.append((here - there).abs() > 1)
        if call.causal and not corner:
            here = torch.arange(first, stop, device=self.device)[:, None] + call.offset
            masks.append((torch.arange(start, upto, device=self.device) > here)[None])
        if not masks:
            return None
        hidden = masks[0]
        for more in masks[1:]:
            hidden = hidden | more
        return hidden[:, None]

    def _places(self, positions: Positions, rows: slice, first: int, stop: int) -> Tensor:
        """Positions first..stop-1: (g or 1, stop - first)."""
        if isinstance(positions, Span):
            zero = positions.start
            return torch.arange(zero + first, zero + stop, device=self.device)[None]
        positions = positions.to(self.device)
        return positions[rows, first:stop] if positions.dim() == 2 else positions[None, first:stop]

    def distances(self, block: _Block) -> slice:
        """The rows of the tables in descending order that this block meets."""
        highest = self.queries - block.stop + block.start
        return slice(highest, highest + block.columns)

    def tokens(self, x: Tensor, rows: slice) -> Tensor:
        """(B, H, T, D) -> (g * H, T, D) of the batch rows taken together, in working precision."""
        return x[rows].to(self.dtype).reshape(-1, x.shape[2], x.shape[3])

    def tables(self, x: Tensor | None, rows: slice) -> Tensor | None:
        """(H, distances, ...) -> (g * H, distances, ...): the same table for each batch row."""
        if x is None:
            return None
        count = rows.stop - rows.start
        x = x.to(self.dtype)
        return x.contiguous() if count == 1 else x.repeat(count, *[1] * (x.dim() - 1))

    def generator(self) -> torch.Generator | None:
        """Draws the same weights to drop in both passes, which go through the blocks alike."""
        if not self.call.dropout:
            return None
        return torch.Generator(self.device).manual_seed(self.call.seed)


def _logits(
    plan: _Plan,
    views: _Views,
    block: _Block,
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
        views.beyond.zero_()  # read by masked cells only, but not to be NaN
        if table is not None:
            torch.bmm(position, table[:, here].transpose(1, 2), out=product)
            if bias is not None:
                product += bias[:, None, here]
        elif bias is not None:
            product.copy_(bias[:, None, here].expand_as(product))
        logits.baddbmm_(content, k)
    if block.corner:  # only the last m keys can be later than a query of the block
        m = block.queries
        logits[:, :, block.keys - m :] += plan.later[:m, :m]
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


class _Chunked(torch.autograd.Function):
    """content, position (B, H, Tq, D): the queries for keys and for the table, position None if
    they are the same; k and v (B, H, Tk, D); table and values (H, distances, D) and bias
    (H, distances) in descending distance."""

    @staticmethod
    def forward(
        ctx: Any,
        content: Tensor,
        position: Tensor | None,
        k: Tensor,
        v: Tensor,
        table: Tensor | None,
        bias: Tensor | None,
        values: Tensor | None,
        call: _Call,
    ) -> Tensor:
        plan = _Plan(content, k, call)
        out = torch.empty(content.shape, dtype=plan.dtype, device=plan.device)
        log_sum = torch.empty(content.shape[:3], dtype=plan.dtype, device=plan.device)
        buffer = _Buffer(plan)
        generator = plan.generator()
        for rows in plan.groups():
            qs, ks, vs = (plan.tokens(x, rows) for x in (content, k, v))
            ps = qs if position is None else plan.tokens(position, rows)
            tables, biases, adds = (plan.tables(x, rows) for x in (table, bias, values))
            for block in plan.blocks(rows):
                here = slice(block.first, block.stop)
                views = buffer.seen(len(qs), block)
                queries = qs[:, here] * call.scale
                places = queries if position is None else ps[:, here] * call.scale
                logits = _logits(plan, views, block, queries, places, ks, tables, biases)
                highest = logits.amax(-1, keepdim=True)
                highest.masked_fill_(highest == float("-inf"), 0.0)  # nothing to see
                weights = logits.sub_(highest).exp_()
                total = weights.sum(-1, keepdim=True)
                empty = total == 0
                if generator is not None:
                    weights *= _keep(weights.shape, call.dropout, generator)
                mixed = torch.bmm(weights, vs[:, block.start : block.upto])
                if adds is not None:
                    views.clear_around_keys()
                    mixed.baddbmm_(views.by_distance, adds[:, plan.distances(block)])
                mixed /= total.masked_fill(empty, 1.0) * _kept_share(call.dropout)
                out[rows, :, here] = mixed.view(-1, plan.heads, *mixed.shape[1:])
                # +inf for a row with nothing to see: its weights are exp(-inf) = 0 again.
                log = (highest + total.log()).masked_fill_(empty, float("inf"))
                log_sum[rows, :, here] = log.view(-1, plan.heads, log.shape[1])
        ctx.save_for_backward(content, position, k, v, table, bias, values, out, log_sum)
        ctx.call = call
        return out.to(content.dtype)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        with torch.autocast(upstream.device.type, enabled=False):
            return _backward(ctx.call, upstream, *ctx.saved_tensors)


def _backward(
    call: _Call,
    upstream: Tensor,
    content: Tensor,
    position: Tensor | None,
    k: Tensor,
    v: Tensor,
    table: Tensor | None,
    bias: Tensor | None,
    values: Tensor | None,
    out: Tensor,
    log_sum: Tensor,
) -> tuple[Tensor | None, ...]:
    plan = _Plan(content, k, call)

    def gradient(x: Tensor | None) -> Tensor | None:
        return None if x is None else torch.zeros(x.shape, dtype=plan.dtype, device=plan.device)

    dq, dk, dv = (
        torch.empty(x.shape, dtype=plan.dtype, device=plan.device) for x in (content, k, v)
    )
    dposition = gradient(position)
    totals = [gradient(x) for x in (table, bias, values)]
    # Sum over keys of weight times its gradient; dropout leaves it as it is.
    inner = (upstream.to(plan.dtype) * out).sum(-1)
    buffer, second = _Buffer(plan), _Buffer(plan)
    generator = plan.generator()
    third = _Buffer(plan) if generator is not None and values is not None else buffer
    for rows in plan.groups():
        qs, ks, vs, ups = (plan.tokens(x, rows) for x in (content, k, v, upstream))
        ps = qs if position is None else plan.tokens(position, rows)
        tables, biases, adds = (plan.tables(x, rows) for x in (table, bias, values))
        dks, dvs = torch.zeros_like(ks), torch.zeros_like(vs)
        dtables, dbiases, dadds = (
            None if x is None else torch.zeros_like(x) for x in (tables, biases, adds)
        )
        for block in plan.blocks(rows):
            here, seen = slice(block.first, block.stop), slice(block.start, block.upto)
            far = plan.distances(block)
            views, other = buffer.seen(len(qs), block), second.seen(len(qs), block)
            queries, up = qs[:, here] * call.scale, ups[:, here]
            places = queries if position is None else ps[:, here] * call.scale
            weights = _logits(plan, views, block, queries, places, ks, tables, biases)
            weights.sub_(log_sum[rows, :, here].reshape(len(qs), -1, 1)).exp_()
            if adds is not None:
                dweights = other.by_key
                other.beyond.zero_()
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
            dweights -= inner[rows, :, here].reshape(len(qs), -1, 1)
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
                        dposition[rows, :, here] = dps.view(-1, plan.heads, *dps.shape[1:])
                if dbiases is not None:
                    dbiases[:, far] += dproduct.sum(1)
            dq[rows, :, here] = (dqs * call.scale).view(-1, plan.heads, *dqs.shape[1:])
        dk[rows], dv[rows] = dks.view_as(dk[rows]), dvs.view_as(dv[rows])
        for total, part in zip(totals, (dtables, dbiases, dadds)):
            if total is not None and part is not None:
                total += part.view(-1, *total.shape).sum(0)
    found = (dq, dposition, dk, dv, *totals)
    given = (content, position, k, v, table, bias, values)
    cast = (None if d is None or x is None else d.to(x.dtype) for d, x in zip(found, given))
    return (*cast, None)
