"""The backward pass over queries: dq and the gradients of the tables (algebra: fused/skew.py)."""

from typing import Any, NamedTuple

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
    atomic_add,
    far_logits,
    load_keys,
    load_queries,
    load_upstream,
    store_rows,
    table_row,
)
from musictx.speed.fused.skew import (
    distance_chunk,
    lower_triangle,
    relative_logits,
    skew,
    table_product,
    tile_range,
)
from musictx.speed.fused.tile import gradients, visible_keys, weights


class Accumulators(NamedTuple):
    """Pointers to the memory in which the gradients of the tables are accumulated."""

    table: Any
    bias: Any


@triton.jit
def table_gradients(dq, ds, queries, tables, accumulators, delta, flags: tl.constexpr):
    """Backpropagate ``ds``, which is dS ordered by the distances delta..delta+T-1: add the
    gradients of the tables to the accumulators and return dq plus the gradient of the queries."""
    row = table_row(delta + tl.arange(0, flags.T), tables)
    if flags.TABLE:
        chunk = distance_chunk(delta, tables, flags)
        dq = tl.dot(ds, chunk, dq, input_precision=flags.PRECISION)
        gradient = tl.dot(tl.trans(ds), queries.q, input_precision=flags.PRECISION)
        columns = tl.arange(0, flags.D)[None, :]
        atomic_add(accumulators.table + row[:, None] * flags.D + columns, gradient)
    if flags.BIAS_GRADIENT:
        atomic_add(accumulators.bias + row, tl.sum(ds.to(tl.float32), 0))
    return dq


@triton.jit
def far_gradients(dq, far_ds, queries, tables, accumulators, flags: tl.constexpr):
    """As :func:`table_gradients` for FAR tiles, whose distances all have the last row of the
    tables; ``far_ds`` is the sum of dS over these tiles."""
    row = tables.high - tables.low
    d = row * flags.D + tl.arange(0, flags.D)
    if flags.TABLE:
        dq += far_ds[:, None] * tl.load(tables.table + d).to(tl.float32)[None, :]
        gradient = tl.sum(far_ds[:, None] * queries.q.to(tl.float32), 0)
        atomic_add(accumulators.table + d, gradient)
    if flags.BIAS_GRADIENT:
        atomic_add(accumulators.bias + row, tl.sum(far_ds))
    return dq


@triton.jit
def query_tile(
    dq, upper, previous, far_ds, upstream, queries, key_base, tables, accumulators, far_logit, m,
    p0, scalars, flags: tl.constexpr, KIND: tl.constexpr,
):  # fmt: skip
    """Add the contribution of the keys of tile m to dq (before scaling) and the tables' gradients.

    Returns what the next tile needs: dq; ``upper``; ``previous``, the cells of dS whose distances
    the next tile completes; ``far_ds``, the sum of dS over FAR tiles.
    """
    j0 = p0 + m * flags.T
    delta = p0 - j0
    keys = load_keys(key_base, j0, flags)
    relative = 0.0
    if flags.TABLE:
        relative, upper = relative_logits(queries.q, upper, far_logit, delta, tables, flags, KIND)
    p = weights(queries, keys, relative, tables, scalars, flags, KIND)
    _, ds32 = gradients(p, upstream, queries, keys, scalars, flags)
    ds = ds32.to(queries.q.dtype)
    dq = tl.dot(ds, keys.k, dq, input_precision=flags.PRECISION)
    if KIND == FAR:
        far_ds += tl.sum(ds32, 1)
    elif flags.TABLE or flags.BIAS_GRADIENT:
        current = skew(ds, delta, flags.T)  # from keys to distances
        ds = tl.where(lower_triangle(delta, flags.T), current, previous)
        previous = current
        dq = table_gradients(dq, ds, queries, tables, accumulators, delta, flags)
    return dq, upper, previous, far_ds


@triton.jit(do_not_specialize=NOT_SPECIALISED)
def backward_query(
    Q, K, V, E, BIASES, QUERY_CODES, KEY_CODES, KEY_FIRST, ROW_RANDOM, COLUMN_RANDOM,
    DO, LSE, INNER, DQ, DE, DBIAS,
    qb, qh, qt, kb, kh, kt, vb, vh, vt, gb, gh, gt, db, dh, dt, eh, bias_h,
    H, TQ, TK, offset, low, high, slots, scale, natural_scale, threshold, inverse_share,
    D: tl.constexpr, T: tl.constexpr, TABLE: tl.constexpr, BIAS: tl.constexpr,
    PACKED: tl.constexpr, EDGE: tl.constexpr, DROP: tl.constexpr, SKEW: tl.constexpr,
    PRECISION: tl.constexpr, BIAS_GRADIENT: tl.constexpr,
):  # fmt: skip
    """The gradients of T queries of one (batch row, head), and their contribution to the gradients
    of the tables."""
    flags: tl.constexpr = Flags(
        D, T, TABLE, BIAS, PACKED, EDGE, DROP, SKEW, PRECISION, BIAS_GRADIENT
    )
    TABLE_GRADIENTS: tl.constexpr = TABLE or BIAS_GRADIENT
    i0, bh, b, h = assign_tile(TQ, H, T, True)
    p0 = offset + i0
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
    rows = (bh % slots) * (high - low + 1)  # of one of the copies (TableGradients)
    accumulators = Accumulators(DE + rows * D, DBIAS + rows)
    queries = load_queries(query_base, i0, flags, BACKWARD=True)
    upstream = load_upstream(query_base, i0, flags)
    first, stop = visible_keys(KEY_FIRST + b * TQ, i0, TQ, TK, p0, flags)
    m0, m1, m2, m3 = tile_range(first, stop, p0, high, T, flags)

    zeros = tl.zeros([T], tl.float32)
    dq = tl.zeros([T, D], tl.float32)
    upper = zeros
    previous = zeros
    if TABLE_GRADIENTS:
        previous = tl.zeros([T, T], queries.q.dtype)
    far_ds = zeros
    if TABLE or BIAS:
        far_logit = zeros
        if TABLE:
            far_logit = far_logits(queries.q, tables, D)
        for m in range(m0, m1):
            dq, upper, previous, far_ds = query_tile(
                dq, upper, previous, far_ds, upstream, queries, key_base, tables, accumulators,
                far_logit, m, p0, scalars, flags, FAR,
            )  # fmt: skip
        if m1 > m0:
            dq = far_gradients(dq, far_ds, queries, tables, accumulators, flags)
        if TABLE:
            upper = table_product(queries.q, -m1 * T, tables, flags)
    for m in range(m1, m2):
        dq, upper, previous, far_ds = query_tile(
            dq, upper, previous, far_ds, upstream, queries, key_base, tables, accumulators, zeros,
            m, p0, scalars, flags, NEAR,
        )  # fmt: skip
    if m3 > m2:
        dq, upper, previous, far_ds = query_tile(
            dq, upper, previous, far_ds, upstream, queries, key_base, tables, accumulators, zeros,
            0, p0, scalars, flags, DIAGONAL,
        )  # fmt: skip
    elif TABLE_GRADIENTS:  # a tile at the diagonal would have completed these cells
        ds = tl.where(lower_triangle((1 - m2) * T, T), tl.zeros_like(previous), previous)
        dq = table_gradients(dq, ds, queries, tables, accumulators, -m2 * T, flags)
    store_rows(DQ + b * db + h * dh, i0, TQ, dt, dq * natural_scale, T, D)
