"""The backward pass over keys: dk and dv (algebra: fused/skew.py)."""

import triton
import triton.language as tl

from musictx.speed.fused.common import (
    DIAGONAL,
    FAR,
    NEAR,
    NOT_SPECIALISED,
    Flags,
    KeyBase,
    QueryBase,
    Scalars,
    Tables,
    assign_tile,
    far_logits,
    load_keys,
    load_queries,
    load_upstream,
    store_rows,
)
from musictx.speed.fused.skew import lower_triangle, skew, table_product
from musictx.speed.fused.tile import attending_queries, ceil_div, floor_div, gradients, weights


@triton.jit
def key_tile(
    dk, dv, keys, query_base, tables, m, j0, scalars, flags: tl.constexpr, KIND: tl.constexpr
):
    """Add what the T queries from position j0 + mT on contribute to dk (before scaling) and dv."""
    T: tl.constexpr = flags.T
    i0 = j0 + m * T - query_base.offset
    queries = load_queries(query_base, i0, flags, BACKWARD=True)
    relative = 0.0
    if flags.TABLE and KIND == FAR:
        relative = tl.zeros([T, T], tl.float32)
        relative += far_logits(queries.q, tables, flags.D)[:, None]
    elif flags.TABLE:  # as relative_logits of skew.py, but without ``upper`` from another tile
        relative = table_product(queries.q, m * T, tables, flags)
        if KIND == NEAR:
            lower = table_product(queries.q, m * T - T, tables, flags)
            relative = tl.where(lower_triangle(m * T, T), relative, lower)
        relative = skew(relative, m * T, T).to(tl.float32)
    p = weights(queries, keys, relative, tables, scalars, flags, KIND)
    upstream = load_upstream(query_base, i0, flags)  # loaded this late to save registers
    kept_weights, ds = gradients(p, upstream, queries, keys, scalars, flags)
    kept_weights = tl.trans(kept_weights.to(upstream.do.dtype))
    dv = tl.dot(kept_weights, upstream.do, dv, input_precision=flags.PRECISION)
    ds = tl.trans(ds.to(queries.q.dtype))
    dk = tl.dot(ds, queries.q, dk, input_precision=flags.PRECISION)
    return dk, dv


@triton.jit(do_not_specialize=NOT_SPECIALISED)
def backward_key(
    Q, K, V, E, BIASES, QUERY_CODES, KEY_CODES, QUERY_STOP, ROW_RANDOM, COLUMN_RANDOM,
    DO, LSE, INNER, DK, DV,
    qb, qh, qt, kb, kh, kt, vb, vh, vt, gb, gh, gt, db, dh, dt, wb, wh, wt, eh, bias_h,
    H, TQ, TK, offset, low, high, scale, natural_scale, threshold, inverse_share,
    D: tl.constexpr, T: tl.constexpr, TABLE: tl.constexpr, BIAS: tl.constexpr,
    PACKED: tl.constexpr, DROP: tl.constexpr, SKEW: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Gradients of T keys and values of one (batch row, head)."""
    flags: tl.constexpr = Flags(D, T, TABLE, BIAS, PACKED, False, DROP, SKEW, PRECISION)
    j0, bh, b, h = assign_tile(TK, H, T, False)  # early keys first: they have most queries
    query_base = QueryBase(
        Q + b * qb + h * qh, DO + b * gb + h * gh, LSE + bh * TQ, INNER + bh * TQ,
        QUERY_CODES + b * TQ, ROW_RANDOM + bh * TQ, qt, gt, TQ, offset,
    )  # fmt: skip
    key_base = KeyBase(
        K + b * kb + h * kh, V + b * vb + h * vh, KEY_CODES + b * TK, COLUMN_RANDOM + bh * TK,
        kt, vt, TK,
    )  # fmt: skip
    tables = Tables(E + h * eh, BIASES + h * bias_h, low, high)
    scalars = Scalars(scale, threshold, inverse_share)
    keys = load_keys(key_base, j0, flags)
    first, stop = attending_queries(QUERY_STOP + b * TK, j0, TQ, TK, offset, flags)

    # Tile m has the queries from position j0 + mT on; the first is query j0 + mT - offset.
    m0 = floor_div(first + offset - j0, T)
    m3 = tl.maximum(ceil_div(stop + offset - j0, T), m0)
    m1 = tl.minimum(tl.maximum(1, m0), m3)  # from here on NEAR
    m2 = m3  # from here on FAR
    if TABLE or BIAS:
        m2 = tl.minimum(tl.maximum(ceil_div(high + T - 1, T), m1), m3)
    dk = tl.zeros([T, D], tl.float32)
    dv = tl.zeros([T, D], tl.float32)
    for m in range(m0, m1):
        dk, dv = key_tile(dk, dv, keys, query_base, tables, m, j0, scalars, flags, DIAGONAL)
    for m in range(m1, m2):
        dk, dv = key_tile(dk, dv, keys, query_base, tables, m, j0, scalars, flags, NEAR)
    if TABLE or BIAS:
        for m in range(m2, m3):
            dk, dv = key_tile(dk, dv, keys, query_base, tables, m, j0, scalars, flags, FAR)
    store_rows(DK + b * db + h * dh, j0, TK, dt, dk * natural_scale, T, D)
    store_rows(DV + b * wb + h * wh, j0, TK, wt, dv, T, D)
