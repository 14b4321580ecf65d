"""Plan A of the fused kernel: square tiles, relative logits skewed by one gather in registers.

Let R_k = Q_block . (rows kT..kT+T-1 of the table)^T, for a tile of T queries and T keys whose first
query stands delta = kT after its first key. The distance of cell (r, c) is delta + r - c, so

    Y[r, w] = R_k[r, w] if w <= r else R_{k-1}[r, w],     relative[r, c] = Y[r, (r - c) mod T]

As keys ascend, R_{k-1} of one tile is R_k of the next: one product a tile, none wasted. The gather
is its own inverse, so the backward pass takes dS apart with the same gather: the complete gradient
of R_k has the w <= r of this tile and the w > r of the tile before. The softmax is that of
FlashAttention (Dao 2023); nothing of size length x length is ever in memory.

Tiles are laid so that every delta is a multiple of T; only the tile with delta = 0 has later keys.
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
def skew(x, delta, T: tl.constexpr):
    """x[r, (r - c) mod T]: relative logits by distance -> by key, and back.

    ``delta`` is a multiple of T and so changes nothing; it ties the T x T indices to the loop, or
    the compiler would keep them in registers from before it.
    """
    t = tl.arange(0, T)
    return tl.gather(x, ((t + delta)[:, None] - t[None, :]) & (T - 1), 1)


@triton.jit
def distance_chunk(base, delta, low, high, T: tl.constexpr, D: tl.constexpr):
    """Rows of the table for the distances delta..delta+T-1."""
    return load_table(base, delta + tl.arange(0, T), low, high, D)


@triton.jit
def lower_half(delta, T: tl.constexpr):
    """Cells (r, w) with w <= r; for ``delta`` see :func:`skew`."""
    t = tl.arange(0, T)
    return (t + delta)[None, :] <= (t + delta)[:, None]


@triton.jit
def tiles_before(
    p0, first_query, high, T: tl.constexpr, PACKED: tl.constexpr, RELATIVE: tl.constexpr
):  # fmt: skip
    """How many tiles there are before the diagonal one, and how many of them are FAR."""
    first = 0
    if PACKED:
        first = tl.minimum(tl.min(first_query), p0)
    tiles = tl.cdiv(p0 - first, T)
    far = 0
    if RELATIVE:
        far = tl.maximum(tiles + 1 - tl.cdiv(high + T - 1, T), 0)
        far = tl.minimum(far, tiles)
    return tiles, far


@triton.jit
def forward_tile(
    acc,
    top,
    total,
    hi,
    far,
    q,
    k_base,
    v_base,
    table,
    bias,
    firsts,
    columns_random,
    first_query,
    row_random,
    j0,
    p0,
    kt,
    vt,
    TK,
    low,
    high,
    scale,
    threshold,
    D: tl.constexpr,
    T: tl.constexpr,
    TABLE: tl.constexpr,
    BIAS: tl.constexpr,
    PACKED: tl.constexpr,
    EDGE: tl.constexpr,
    DROP: tl.constexpr,
    SKEW: tl.constexpr,
    PRECISION: tl.constexpr,
    KIND: tl.constexpr,
):
    """Take in the keys j0..j0+T-1; ``hi`` is R_k, handed on as R_{k-1}."""
    t = tl.arange(0, T)
    k = load_rows(k_base, j0, TK, kt, T, D)
    start = 0.0
    if TABLE:
        if KIND == FAR:
            start = tl.zeros([T, T], tl.float32) + far[:, None]
        elif KIND == NEAR:
            chunk = distance_chunk(table, p0 - j0 - T, low, high, T, D)
            lo = tl.dot(q, tl.trans(chunk), input_precision=PRECISION).to(SKEW)
            start = skew(tl.where(lower_half(p0 - j0, T), hi, lo), p0 - j0, T).to(tl.float32)
            hi = lo
        else:
            start = skew(hi, p0 - j0, T).to(tl.float32)
    rows = p0 + t
    columns = j0 + t
    step = scale
    if BIAS:
        step = 1.0
    s = logits(q, k, start, bias, rows, columns, low, high, scale, TABLE, BIAS, KIND, PRECISION)
    first_key = columns
    if PACKED:
        first_key = load_vector(firsts, j0, TK, -1, T)
    s = mask_cells(
        s, float("-inf"), rows, columns, first_query, first_key, KIND == DIAGONAL, EDGE, PACKED
    )
    keep = t
    if DROP:
        keep = kept(row_random, load_vector(columns_random, j0, TK, 0, T), threshold)
    v = load_rows(v_base, j0, TK, vt, T, D)
    acc, top, total = absorb(acc, top, total, s, step, v, keep, DROP, PRECISION)
    return acc, top, total, hi


@triton.jit(do_not_specialize=PLAIN_NUMBERS)
def forward(
    Q, K, V, E, BIASES, FIRST_QUERY, FIRST_KEY, ROW_RANDOM, COLUMN_RANDOM, OUT, LSE,
    qb, qh, qt, kb, kh, kt, vb, vh, vt, ob, oh, ot, eh, bh_bias,
    H, TQ, TK, low, high, scale, threshold, inverse_share,
    D: tl.constexpr, T: tl.constexpr, TABLE: tl.constexpr, BIAS: tl.constexpr,
    PACKED: tl.constexpr, EDGE: tl.constexpr, DROP: tl.constexpr, SKEW: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """Output and log of the sum of weights of T queries of one (batch row, head)."""
    blocks = tl.cdiv(TQ, T)
    i0 = (blocks - 1 - tl.program_id(0) % blocks) * T  # long rows first
    bh = (tl.program_id(0) // blocks).to(tl.int64)
    b = bh // H
    h = bh % H
    p0 = TK - TQ + i0
    q = load_rows(Q + b * qb + h * qh, i0, TQ, qt, T, D)
    k_base = K + b * kb + h * kh
    v_base = V + b * vb + h * vh
    table = E + h * eh
    bias = BIASES + h * bh_bias
    firsts = FIRST_KEY + b * TK
    columns_random = COLUMN_RANDOM + bh * TK
    first_query = tl.arange(0, T)
    if PACKED:
        first_query = load_vector(FIRST_QUERY + b * TQ, i0, TQ, TK, T)
    row_random = first_query
    if DROP:
        row_random = load_vector(ROW_RANDOM + bh * TQ, i0, TQ, 0, T)
    tiles, far_tiles = tiles_before(p0, first_query, high, T, PACKED, TABLE or BIAS)

    acc = tl.zeros([T, D], tl.float32)
    top = tl.full([T], -1e30, tl.float32)
    total = tl.zeros([T], tl.float32)
    far = total
    hi = far
    if TABLE:
        last = tl.load(table + (high - low) * D + tl.arange(0, D)).to(tl.float32)
        far = tl.sum(q.to(tl.float32) * last[None, :], 1)
        chunk = distance_chunk(table, (tiles - far_tiles) * T, low, high, T, D)
        hi = tl.dot(q, tl.trans(chunk), input_precision=PRECISION).to(SKEW)
    if TABLE or BIAS:
        for n in range(0, far_tiles):
            acc, top, total, hi = forward_tile(
                acc, top, total, hi, far, q, k_base, v_base, table, bias, firsts, columns_random,
                first_query, row_random, p0 - (tiles - n) * T, p0, kt, vt, TK, low, high, scale,
                threshold, D, T, TABLE, BIAS, PACKED, EDGE, DROP, SKEW, PRECISION, FAR,
            )  # fmt: skip
    for n in range(far_tiles, tiles):
        acc, top, total, hi = forward_tile(
            acc, top, total, hi, far, q, k_base, v_base, table, bias, firsts, columns_random,
            first_query, row_random, p0 - (tiles - n) * T, p0, kt, vt, TK, low, high, scale,
            threshold, D, T, TABLE, BIAS, PACKED, EDGE, DROP, SKEW, PRECISION, NEAR,
        )  # fmt: skip
    acc, top, total, hi = forward_tile(
        acc, top, total, hi, far, q, k_base, v_base, table, bias, firsts, columns_random,
        first_query, row_random, p0, p0, kt, vt, TK, low, high, scale,
        threshold, D, T, TABLE, BIAS, PACKED, EDGE, DROP, SKEW, PRECISION, DIAGONAL,
    )  # fmt: skip
    finish(
        acc, top, total, OUT + b * ob + h * oh, LSE + bh * TQ, i0, TQ, ot, inverse_share, T, D
    )  # fmt: skip
