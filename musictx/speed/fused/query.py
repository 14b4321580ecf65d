"""The backward pass over queries: dq and the gradients of the tables.

The algebra is that of speed/fused/skew.py.
"""

from typing import Any, NamedTuple

import triton
import triton.language as tl

from musictx.speed.fused.common import (
    DIAGONAL,
    FAR,
    NEAR,
    PLAIN_NUMBERS,
    Flags,
    KeyBase,
    Numbers,
    QueryBase,
    Tables,
    add,
    add_to_rows,
    load_keys,
    load_queries,
    load_upstream,
    meet_row,
    store_rows,
    table_row,
)
from musictx.speed.fused.skew import (
    by_distance,
    by_key,
    distance_chunk,
    remainder,
    take_apart,
    tile_range,
)
from musictx.speed.fused.tile import gradients, keys_seen, weights


class Backward(NamedTuple):
    """The state that one tile passes to the next: dq so far; R_k (``hi``); the cells of dS whose
    distances the next tile completes (``before``); sums of dS over clipped distances."""

    dq: Any
    hi: Any
    before: Any
    far_sum: Any


class Sinks(NamedTuple):
    """Pointers to the memory in which the gradients of the tables are accumulated."""

    table: Any
    bias: Any


@triton.jit
def spread(dq, ds, queries, tables, sinks, delta, flags: tl.constexpr):
    """Backpropagate ``ds``, which is dS ordered by the distances delta..delta+T-1: add the
    gradients of the tables to the sinks and return dq plus the gradient of the queries."""
    row = table_row(delta + tl.arange(0, flags.T), tables.low, tables.high)
    if flags.TABLE:
        chunk = distance_chunk(tables.table, delta, tables, flags)
        dq = tl.dot(ds, chunk, dq, input_precision=flags.PRECISION)
        gradient = tl.dot(tl.trans(ds), queries.q, input_precision=flags.PRECISION)
        add_to_rows(sinks.table, row, gradient, flags.D)
    if flags.BIAS_GRADIENT:
        add(sinks.bias + row, tl.sum(ds.to(tl.float32), 0))
    return dq


@triton.jit
def spread_far(state, queries, tables, sinks, row, flags: tl.constexpr):
    """Do what :func:`spread` does for the sums over the clipped distances, which all use the row
    ``row`` of the tables."""
    d = row * flags.D + tl.arange(0, flags.D)
    dq = state.dq
    if flags.TABLE:
        dq += state.far_sum[:, None] * tl.load(tables.table + d).to(tl.float32)[None, :]
        gradient = tl.sum(state.far_sum[:, None] * queries.q.to(tl.float32), 0)
        add(sinks.table + d, gradient)
    if flags.BIAS_GRADIENT:
        add(sinks.bias + row, tl.sum(state.far_sum))
    return dq


@triton.jit
def query_tile(
    state, upstream, queries, key_base, tables, sinks, far, row, j0, p0, numbers,
    flags: tl.constexpr, KIND: tl.constexpr,
):  # fmt: skip
    """What the keys j0..j0+T-1 add to dq (before scaling) and to the gradients of the tables."""
    delta = p0 - j0
    keys = load_keys(key_base, j0, flags)
    relative = 0.0
    hi = state.hi
    if flags.TABLE:
        relative, hi = by_key(
            queries.q, hi, far, tables.table, delta, tables, flags.SKEW, flags, KIND
        )
    p = weights(queries, keys, relative, tables, row, numbers, flags, KIND)
    _, exact = gradients(p, upstream, queries, keys, numbers, flags)
    ds = exact.to(queries.q.dtype)
    dq = tl.dot(ds, keys.k, state.dq, input_precision=flags.PRECISION)
    before = state.before
    far_sum = state.far_sum
    if KIND == FAR:
        far_sum += tl.sum(exact, 1)
    elif flags.TABLE or flags.BIAS_GRADIENT:
        ds, before = take_apart(ds, before, delta, flags.T)
        dq = spread(dq, ds, queries, tables, sinks, delta, flags)
    return Backward(dq, hi, before, far_sum)


@triton.jit(do_not_specialize=PLAIN_NUMBERS)
def backward_query(
    Q, K, V, E, BIASES, QUERY_CODES, KEY_CODES, KEY_FIRST, ROW_RANDOM, COLUMN_RANDOM,
    DO, LSE, DELTA, DQ, DE, DBIAS,
    qb, qh, qt, kb, kh, kt, vb, vh, vt, gb, gh, gt, db, dh, dt, eh, bh_bias,
    H, TQ, TK, offset, low, high, slots, scale, natural, threshold, inverse_share,
    D: tl.constexpr, T: tl.constexpr, TABLE: tl.constexpr, BIAS: tl.constexpr,
    PACKED: tl.constexpr, EDGE: tl.constexpr, DROP: tl.constexpr, SKEW: tl.constexpr,
    PRECISION: tl.constexpr, BIAS_GRADIENT: tl.constexpr,
):  # fmt: skip
    """The gradient of T queries of one (batch row, head), and their contribution to the gradients
    of the tables."""
    flags: tl.constexpr = Flags(
        D, T, TABLE, BIAS, PACKED, EDGE, DROP, SKEW, PRECISION, BIAS_GRADIENT
    )
    SPREAD: tl.constexpr = TABLE or BIAS_GRADIENT
    blocks = tl.cdiv(TQ, T)
    i0 = (blocks - 1 - tl.program_id(0) % blocks) * T
    bh = (tl.program_id(0) // blocks).to(tl.int64)
    b = bh // H
    h = bh % H
    p0 = offset + i0
    query_base = QueryBase(
        Q + b * qb + h * qh, DO + b * gb + h * gh, LSE + bh * TQ, DELTA + bh * TQ,
        QUERY_CODES + b * TQ, ROW_RANDOM + bh * TQ, qt, gt, TQ, offset,
    )  # fmt: skip
    key_base = KeyBase(
        K + b * kb + h * kh, V + b * vb + h * vh, KEY_CODES + b * TK, COLUMN_RANDOM + bh * TK,
        kt, vt, TK,
    )  # fmt: skip
    tables = Tables(E + h * eh, BIASES + h * bh_bias, low, high)
    numbers = Numbers(scale, threshold, inverse_share)
    rows = (bh % slots) * (high - low + 1)
    sinks = Sinks(DE + rows * D, DBIAS + rows)
    queries = load_queries(query_base, i0, flags, True)
    upstream = load_upstream(query_base, i0, flags)
    first, stop = keys_seen(KEY_FIRST + b * TQ, i0, TQ, TK, p0, flags)
    m0, m1, m2, m3 = tile_range(first, stop, p0, high, T, flags)

    none = tl.zeros([T], tl.float32)
    before = none
    if SPREAD:
        before = tl.zeros([T, T], queries.q.dtype)
    state = Backward(tl.zeros([T, D], tl.float32), none, before, none)
    if TABLE or BIAS:
        far = none
        if TABLE:
            far = meet_row(queries.q, tables.table, high - low, D)
        for m in range(m0, m1):
            state = query_tile(
                state, upstream, queries, key_base, tables, sinks, far, high - low, p0 + m * T, p0,
                numbers, flags, FAR,
            )  # fmt: skip
        dq = state.dq
        if m1 > m0:
            dq = spread_far(state, queries, tables, sinks, high - low, flags)
        hi = state.hi
        if TABLE:
            hi = by_distance(queries.q, tables.table, -m1 * T, tables, SKEW, flags)
        state = Backward(dq, hi, before, none)
    for m in range(m1, m2):
        state = query_tile(
            state, upstream, queries, key_base, tables, sinks, none, 0, p0 + m * T, p0, numbers,
            flags, NEAR,
        )  # fmt: skip
    dq = state.dq
    if m3 > m2:
        state = query_tile(
            state, upstream, queries, key_base, tables, sinks, none, 0, p0, p0, numbers, flags,
            DIAGONAL,
        )  # fmt: skip
        dq = state.dq
    elif SPREAD:  # the last tile's cells that would have been added with the next tile's
        left = remainder(state.before, (1 - m2) * T, T)
        dq = spread(dq, left, queries, tables, sinks, -m2 * T, flags)
    store_rows(DQ + b * db + h * dh, i0, TQ, dt, dq * natural, T, D)
