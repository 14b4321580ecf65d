"""Plan B of the fused kernel: relative logits skewed by two row lengths over one scratch memory.

For M queries and a segment of keys, the logits by distance are written to a panel with P numbers to
a row and read again with P - 1 to a row: row r has moved r places, so the same memory is the matrix
by key. Column c of the panel holds distance top - c, where top is the distance of the last query
to the first key of the segment; natural view 1 + r P + c, skewed view M + r (P - 1) + x for the key
x of the segment. P - 1 is a multiple of the vector width, so the reads are whole aligned vectors.
The gradient dS takes the way back through a second panel: written skewed (row length W - 1), read
natural (row length W). Cells of the second panel that belong to no key lie between the skewed rows
and are never written: they are 0 from the start and stay so.

The panel belongs to one program and stays in the L2 cache. No loop both writes and reads it: a
loop that writes, a barrier, a loop that reads, a barrier (compilers may move loads over stores
within a loop). The first panel is never initialised: cells that nothing was written to may hold NaN
and are hidden by choice, not by sums. Programs are persistent and go through the blocks in strides.

Only for causal attention of the last tokens to all, with a table and neither bias nor table of
values.
"""

import triton
import triton.language as tl

from musictx.attention.fused.common import (
    DIAGONAL,
    FAR,
    NEAR,
    PLAIN_NUMBERS,
    Flags,
    KeyBase,
    Numbers,
    QueryBase,
    Softmax,
    Tables,
    load_keys,
    load_queries,
    load_table,
    meet_row,
)
from musictx.attention.fused.tile import absorb, finish, floor_div, keys_seen


@triton.jit
def fill_panel(
    panel, x, tables, top, C: tl.constexpr, LENGTH: tl.constexpr, dtype: tl.constexpr,
    flags: tl.constexpr,
):  # fmt: skip
    """Write the logits of M queries for the distances top, top - 1, ..., 0 (natural view); LENGTH
    keys to a panel."""
    r = tl.arange(0, flags.M)
    W: tl.constexpr = LENGTH + flags.M
    for c0 in range(0, tl.minimum(W, top + 1), C):
        c = c0 + tl.arange(0, C)
        e = load_table(tables.table, top - c, tables.low, tables.high, flags.D)
        cells = tl.dot(x, tl.trans(e), input_precision=flags.PRECISION).to(dtype)
        tl.store(panel + 1 + r[:, None] * (W + 1) + c[None, :], cells)


@triton.jit
def read_panel(panel, x0, LENGTH: tl.constexpr, flags: tl.constexpr):
    """The logits of M queries for the keys x0..x0+N-1 of the panel's (skewed view)."""
    r = tl.arange(0, flags.M)
    x = x0 + tl.arange(0, flags.N)
    return tl.load(panel + flags.M + r[:, None] * (LENGTH + flags.M) + x[None, :]).to(tl.float32)


@triton.jit
def same_for_all(far, flags: tl.constexpr):
    """The relative logits of a FAR tile."""
    return tl.zeros([flags.M, flags.N], tl.float32) + far[:, None]


@triton.jit
def key_range(first, p0, high, flags: tl.constexpr):
    """The first key to look at and the first that is not FAR for all, whole tiles before p0; keys
    before 0 may be among them."""
    first = p0 + tl.minimum(floor_div(first - p0, flags.N), 0) * flags.N
    near = first + tl.maximum(p0 - high + 1 - first, 0) // flags.N * flags.N
    return first, near


@triton.jit
def forward_tile(
    soft, queries, key_base, relative, tables, j0, numbers, flags: tl.constexpr, KIND: tl.constexpr
):
    """Take in the keys j0..j0+N-1 whose relative logits are ``relative``."""
    keys = load_keys(key_base, j0, flags)
    soft, _, _ = absorb(soft, queries, keys, relative, tables, 0, numbers, flags, KIND)
    return soft


@triton.jit(do_not_specialize=PLAIN_NUMBERS)
def forward(
    Q, P, K, V, E, QUERY_CODES, KEY_CODES, KEY_FIRST, ROW_RANDOM, COLUMN_RANDOM, PANEL, OUT, LSE,
    qb, qh, qt, pb, ph, pt, kb, kh, kt, vb, vh, vt, ob, oh, ot, eh,
    BH, H, TQ, TK, low, high, scale, threshold, inverse_share,
    D: tl.constexpr, M: tl.constexpr, N: tl.constexpr, C: tl.constexpr, SEGMENT: tl.constexpr,
    POSITION: tl.constexpr, PACKED: tl.constexpr, LOCAL: tl.constexpr, EDGE: tl.constexpr,
    DROP: tl.constexpr, SKEW: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Output and log of the sum of weights of M queries of one (batch row, head) after another."""
    flags: tl.constexpr = Flags(
        D, M, N, True, False, False, POSITION, True, PACKED, LOCAL, EDGE, DROP, SKEW, PRECISION
    )
    blocks = tl.cdiv(TQ, M)
    size: tl.constexpr = M * (SEGMENT + M + 1) + 2 * M
    panel = PANEL + tl.program_id(0).to(tl.int64) * size
    numbers = Numbers(scale, threshold, inverse_share)
    for task in range(tl.program_id(0), blocks * BH, tl.num_programs(0)):
        i0 = (blocks - 1 - task % blocks) * M  # long rows first
        bh = tl.cast(task // blocks, tl.int64)
        b = bh // H
        h = bh % H
        p0 = TK - TQ + i0
        query_base = QueryBase(
            Q + b * qb + h * qh, P + b * pb + h * ph, Q, LSE, LSE, QUERY_CODES + b * TQ,
            ROW_RANDOM + bh * TQ, qt, pt, qt, TQ, TK - TQ,
        )  # fmt: skip
        key_base = KeyBase(
            K + b * kb + h * kh, V + b * vb + h * vh, KEY_CODES + b * TK, COLUMN_RANDOM + bh * TK,
            kt, vt, TK,
        )  # fmt: skip
        table = E + h * eh
        tables = Tables(table, table, table, low, high)
        queries = load_queries(query_base, i0, flags, False)
        first_keys = KEY_FIRST + b * TQ
        first, _ = keys_seen(first_keys, first_keys, i0, TQ, TK, p0, flags)
        first, near = key_range(first, p0, high, flags)
        soft = Softmax(
            tl.zeros([M, D], tl.float32), tl.full([M], -1e30, tl.float32), tl.zeros([M], tl.float32)
        )
        far = meet_row(queries.position, table, high - low, D)
        for j0 in range(first, near, N):
            relative = same_for_all(far, flags)
            soft = forward_tile(
                soft, queries, key_base, relative, tables, j0, numbers, flags, FAR
            )  # fmt: skip
        for s0 in range(near, p0 + M, SEGMENT):
            end = tl.minimum(s0 + SEGMENT, p0 + M)
            full = tl.maximum(tl.minimum(p0, end), s0)  # keys from here on may be later
            tl.debug_barrier()
            fill_panel(panel, queries.position, tables, p0 + M - 1 - s0, C, SEGMENT, SKEW, flags)
            tl.debug_barrier()
            for j0 in range(s0, full, N):
                relative = read_panel(panel, j0 - s0, SEGMENT, flags)
                soft = forward_tile(
                    soft, queries, key_base, relative, tables, j0, numbers, flags, NEAR
                )  # fmt: skip
            for j0 in range(full, end, N):
                relative = read_panel(panel, j0 - s0, SEGMENT, flags)
                soft = forward_tile(
                    soft, queries, key_base, relative, tables, j0, numbers, flags, DIAGONAL
                )  # fmt: skip
        finish(soft, OUT + b * ob + h * oh, LSE + bh * TQ, i0, TQ, ot, inverse_share, flags)
