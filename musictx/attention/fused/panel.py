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

Only for schemes with a table and without a bias.
"""

import triton
import triton.language as tl

from musictx.attention.fused.common import (
    DIAGONAL,
    FAR,
    NEAR,
    PLAIN_NUMBERS,
    absorb,
    finish,
    kept,
    load_rows,
    load_table,
    load_vector,
    logits,
    mask_cells,
)


@triton.jit
def fill_panel(
    panel,
    q,
    table,
    top,
    low,
    high,
    D: tl.constexpr,
    M: tl.constexpr,
    C: tl.constexpr,
    SEGMENT: tl.constexpr,
    SKEW: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Write the logits of M queries for the distances top, top - 1, ..., 0 (natural view)."""
    r = tl.arange(0, M)
    W: tl.constexpr = SEGMENT + M
    for c0 in range(0, tl.minimum(W, top + 1), C):
        c = c0 + tl.arange(0, C)
        e = load_table(table, top - c, low, high, D)
        x = tl.dot(q, tl.trans(e), input_precision=PRECISION).to(SKEW)
        tl.store(panel + 1 + r[:, None] * (W + 1) + c[None, :], x)


@triton.jit
def read_panel(panel, x0, M: tl.constexpr, N: tl.constexpr, SEGMENT: tl.constexpr):
    """The logits of M queries for the keys x0..x0+N-1 of the segment (skewed view)."""
    r = tl.arange(0, M)
    x = x0 + tl.arange(0, N)
    return tl.load(panel + M + r[:, None] * (SEGMENT + M) + x[None, :]).to(tl.float32)


@triton.jit
def key_range(p0, first_query, high, N: tl.constexpr, PACKED: tl.constexpr):
    """The first key to look at and the first that is not FAR for all, whole tiles before p0; keys
    before 0 may be among them."""
    first = 0
    if PACKED:
        first = tl.minimum(tl.min(first_query), p0)
    first = p0 - tl.cdiv(p0 - first, N) * N
    near = first + tl.maximum(p0 - high + 1 - first, 0) // N * N
    return first, near


@triton.jit
def forward_tile(
    acc,
    top,
    total,
    relative,
    q,
    k_base,
    v_base,
    firsts,
    columns_random,
    first_query,
    row_random,
    j0,
    p0,
    kt,
    vt,
    TK,
    scale,
    threshold,
    D: tl.constexpr,
    M: tl.constexpr,
    N: tl.constexpr,
    PACKED: tl.constexpr,
    EDGE: tl.constexpr,
    DROP: tl.constexpr,
    PRECISION: tl.constexpr,
    KIND: tl.constexpr,
):
    """Take in the keys j0..j0+N-1 whose relative logits are ``relative``."""
    rows = p0 + tl.arange(0, M)
    columns = j0 + tl.arange(0, N)
    k = load_rows(k_base, j0, TK, kt, N, D)
    s = logits(q, k, relative, 0, rows, columns, 0, 0, scale, True, False, KIND, PRECISION)
    first_key = columns
    if PACKED:
        first_key = load_vector(firsts, j0, TK, -1, N)
    s = mask_cells(
        s, float("-inf"), rows, columns, first_query, first_key, KIND == DIAGONAL, EDGE, PACKED
    )
    keep = columns
    if DROP:
        keep = kept(row_random, load_vector(columns_random, j0, TK, 0, N), threshold)
    v = load_rows(v_base, j0, TK, vt, N, D)
    return absorb(acc, top, total, s, scale, v, keep, DROP, PRECISION)


@triton.jit(do_not_specialize=PLAIN_NUMBERS)
def forward(
    Q, K, V, E, FIRST_QUERY, FIRST_KEY, ROW_RANDOM, COLUMN_RANDOM, PANEL, OUT, LSE,
    qb, qh, qt, kb, kh, kt, vb, vh, vt, ob, oh, ot, eh,
    BH, H, TQ, TK, low, high, scale, threshold, inverse_share,
    D: tl.constexpr, M: tl.constexpr, N: tl.constexpr, C: tl.constexpr, SEGMENT: tl.constexpr,
    PACKED: tl.constexpr, EDGE: tl.constexpr, DROP: tl.constexpr, SKEW: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """Output and log of the sum of weights of M queries of one (batch row, head) after another."""
    blocks = tl.cdiv(TQ, M)
    size: tl.constexpr = M * (SEGMENT + M + 1) + 2 * M
    panel = PANEL + tl.program_id(0).to(tl.int64) * size
    for task in range(tl.program_id(0), blocks * BH, tl.num_programs(0)):
        i0 = (blocks - 1 - task % blocks) * M  # long rows first
        bh = tl.cast(task // blocks, tl.int64)
        b = bh // H
        h = bh % H
        p0 = TK - TQ + i0
        q = load_rows(Q + b * qb + h * qh, i0, TQ, qt, M, D)
        k_base = K + b * kb + h * kh
        v_base = V + b * vb + h * vh
        table = E + h * eh
        firsts = FIRST_KEY + b * TK
        columns_random = COLUMN_RANDOM + bh * TK
        first_query = tl.arange(0, M)
        if PACKED:
            first_query = load_vector(FIRST_QUERY + b * TQ, i0, TQ, TK, M)
        row_random = first_query
        if DROP:
            row_random = load_vector(ROW_RANDOM + bh * TQ, i0, TQ, 0, M)
        first, near = key_range(p0, first_query, high, N, PACKED)
        acc = tl.zeros([M, D], tl.float32)
        top = tl.full([M], -1e30, tl.float32)
        total = tl.zeros([M], tl.float32)

        last = tl.load(table + (high - low) * D + tl.arange(0, D)).to(tl.float32)
        far = tl.sum(q.to(tl.float32) * last[None, :], 1)
        for j0 in range(first, near, N):
            relative = tl.zeros([M, N], tl.float32) + far[:, None]
            acc, top, total = forward_tile(
                acc, top, total, relative, q, k_base, v_base, firsts, columns_random, first_query,
                row_random, j0, p0, kt, vt, TK, scale, threshold, D, M, N, PACKED, EDGE, DROP,
                PRECISION, FAR,
            )  # fmt: skip
        for s0 in range(near, p0 + M, SEGMENT):
            end = tl.minimum(s0 + SEGMENT, p0 + M)
            full = tl.maximum(tl.minimum(p0, end), s0)  # keys from here on may be later
            tl.debug_barrier()
            fill_panel(
                panel, q, table, p0 + M - 1 - s0, low, high, D, M, C, SEGMENT, SKEW, PRECISION
            )
            tl.debug_barrier()
            for j0 in range(s0, full, N):
                relative = read_panel(panel, j0 - s0, M, N, SEGMENT)
                acc, top, total = forward_tile(
                    acc, top, total, relative, q, k_base, v_base, firsts, columns_random,
                    first_query, row_random, j0, p0, kt, vt, TK, scale, threshold, D, M, N, PACKED,
                    EDGE, DROP, PRECISION, NEAR,
                )  # fmt: skip
            for j0 in range(full, end, N):
                relative = read_panel(panel, j0 - s0, M, N, SEGMENT)
                acc, top, total = forward_tile(
                    acc, top, total, relative, q, k_base, v_base, firsts, columns_random,
                    first_query, row_random, j0, p0, kt, vt, TK, scale, threshold, D, M, N, PACKED,
                    EDGE, DROP, PRECISION, DIAGONAL,
                )  # fmt: skip
        finish(
            acc, top, total, OUT + b * ob + h * oh, LSE + bh * TQ, i0, TQ, ot, inverse_share, M, D
        )  # fmt: skip
