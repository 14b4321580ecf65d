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
    """What one tile hands on to the next, for the logits and (``_values``) for the table of values:
    R_k, what it has left by distance, and sums over clipped distances."""

    dq: Any
    dposition: Any  # of the query that meets the table, if it is another
    hi: Any
    before: Any
    far_sum: Any
    hi_values: Any
    before_values: Any
    far_sum_values: Any


class Sinks(NamedTuple):
    """Where the gradients of the tables are added up: pointers, and the factor of whole numbers."""

    table: Any
    bias: Any
    added: Any
    factor: Any


@triton.jit
def spread(dq, dposition, ds, used, upstream, queries, tables, sinks, delta, flags: tl.constexpr):
    """Gradients from dS and the weights used, by distance, for the distances delta..delta+T-1: the
    tables' are added to their sinks, those of the queries to dq and dposition."""
    row = table_row(delta + tl.arange(0, flags.T), tables.low, tables.high)
    if flags.TABLE:
        chunk = distance_chunk(tables.table, delta, tables, flags)
        if flags.POSITION:
            dposition = tl.dot(ds, chunk, dposition, input_precision=flags.PRECISION)
        else:
            dq = tl.dot(ds, chunk, dq, input_precision=flags.PRECISION)
        gradient = tl.dot(tl.trans(ds), queries.position, input_precision=flags.PRECISION)
        add_to_rows(sinks.table, row, gradient, sinks.factor, flags.D, flags.FIXED)
    if flags.BIAS_GRADIENT:
        add(sinks.bias + row, tl.sum(ds.to(tl.float32), 0), sinks.factor, flags.FIXED)
    if flags.VALUES:
        gradient = tl.dot(tl.trans(used), upstream.do, input_precision=flags.PRECISION)
        add_to_rows(sinks.added, row, gradient, sinks.factor, flags.D, flags.FIXED)
    return dq, dposition


@triton.jit
def spread_far(state, upstream, queries, tables, sinks, row, flags: tl.constexpr):
    """The same for sums over clipped distances, which belong to ``row``; the sums begin anew."""
    D: tl.constexpr = flags.D
    d = row * D + tl.arange(0, D)
    dq = state.dq
    dposition = state.dposition
    if flags.TABLE:
        share = state.far_sum[:, None] * tl.load(tables.table + d).to(tl.float32)[None, :]
        if flags.POSITION:
            dposition += share
        else:
            dq += share
        gradient = tl.sum(state.far_sum[:, None] * queries.position.to(tl.float32), 0)
        add(sinks.table + d, gradient, sinks.factor, flags.FIXED)
    if flags.BIAS_GRADIENT:
        add(sinks.bias + row, tl.sum(state.far_sum), sinks.factor, flags.FIXED)
    if flags.VALUES:
        gradient = tl.sum(state.far_sum_values[:, None] * upstream.do.to(tl.float32), 0)
        add(sinks.added + d, gradient, sinks.factor, flags.FIXED)
    none = tl.zeros_like(state.far_sum)
    return Backward(
        dq, dposition, state.hi, state.before, none, state.hi_values, state.before_values, none
    )


@triton.jit
def spread_remainder(state, upstream, queries, tables, sinks, delta, flags: tl.constexpr):
    """The same for what the last tile, of ``delta``, has left."""
    T: tl.constexpr = flags.T
    ds = state.before
    if flags.TABLE or flags.BIAS_GRADIENT:
        ds = remainder(ds, delta, T)
    used = state.before_values
    if flags.VALUES:
        used = remainder(used, delta, T)
    dq, dposition = spread(
        state.dq, state.dposition, ds, used, upstream, queries, tables, sinks, delta - T, flags
    )
    return Backward(
        dq, dposition, state.hi, state.before, state.far_sum, state.hi_values,
        state.before_values, state.far_sum_values,
    )  # fmt: skip


@triton.jit
def query_tile(
    state, upstream, queries, key_base, tables, sinks, far, far_values, row, j0, p0, numbers,
    flags: tl.constexpr, KIND: tl.constexpr,
):  # fmt: skip
    """What the keys j0..j0+T-1 add to dq (before scaling) and to the gradients of the tables."""
    T: tl.constexpr = flags.T
    delta = p0 - j0
    keys = load_keys(key_base, j0, flags)
    relative = 0.0
    pull = 0.0
    hi = state.hi
    hi_values = state.hi_values
    if flags.TABLE:
        relative, hi = by_key(
            queries.position, hi, far, tables.table, delta, tables, flags.SKEW, flags, KIND
        )
    if flags.VALUES:
        pull, hi_values = by_key(
            upstream.do, hi_values, far_values, tables.added, delta, tables, upstream.do.dtype,
            flags, KIND,
        )  # fmt: skip
    p = weights(queries, keys, relative, tables, row, numbers, flags, KIND)
    used, exact = gradients(p, upstream, queries, keys, pull, numbers, flags)
    ds = exact.to(queries.q.dtype)
    dq = tl.dot(ds, keys.k, state.dq, input_precision=flags.PRECISION)
    dposition = state.dposition
    before = state.before
    before_values = state.before_values
    far_sum = state.far_sum
    far_sum_values = state.far_sum_values
    if KIND == FAR:
        far_sum += tl.sum(exact, 1)
        far_sum_values += tl.sum(used, 1)
    else:
        used = used.to(ds.dtype)
        if flags.VALUES:
            used, before_values = take_apart(used, before_values, delta, T)
        if flags.TABLE or flags.BIAS_GRADIENT:
            ds, before = take_apart(ds, before, delta, T)
        dq, dposition = spread(
            dq, dposition, ds, used, upstream, queries, tables, sinks, delta, flags
        )  # fmt: skip
    return Backward(
        dq, dposition, hi, before, far_sum, hi_values, before_values, far_sum_values
    )  # fmt: skip


@triton.jit(do_not_specialize=PLAIN_NUMBERS)
def backward_query(
    Q, P, K, V, E, BIASES, A, QUERY_CODES, KEY_CODES, KEY_FIRST, KEY_STOP, ROW_RANDOM,
    COLUMN_RANDOM, DO, LSE, DELTA, FACTOR, DQ, DP, DE, DBIAS, DA,
    qb, qh, qt, pb, ph, pt, kb, kh, kt, vb, vh, vt, gb, gh, gt, db, dh, dt, xb, xh, xt,
    eh, bh_bias, ah,
    H, TQ, TK, offset, low, high, slots, scale, natural, threshold, inverse_share,
    D: tl.constexpr, T: tl.constexpr, TABLE: tl.constexpr, BIAS: tl.constexpr,
    VALUES: tl.constexpr, POSITION: tl.constexpr, CAUSAL: tl.constexpr, PACKED: tl.constexpr,
    LOCAL: tl.constexpr, EDGE: tl.constexpr, DROP: tl.constexpr, SKEW: tl.constexpr,
    PRECISION: tl.constexpr, BIAS_GRADIENT: tl.constexpr, FIXED: tl.constexpr,
):  # fmt: skip
    """Gradient of T queries of one (batch row, head), and their share of the tables'."""
    flags: tl.constexpr = Flags(
        D, T, TABLE, BIAS, VALUES, POSITION, CAUSAL, PACKED, LOCAL, EDGE, DROP, SKEW, PRECISION,
        BIAS_GRADIENT, FIXED,
    )  # fmt: skip
    SPREAD: tl.constexpr = TABLE or BIAS_GRADIENT
    blocks = tl.cdiv(TQ, T)
    i0 = (blocks - 1 - tl.program_id(0) % blocks) * T
    bh = (tl.program_id(0) // blocks).to(tl.int64)
    b = bh // H
    h = bh % H
    p0 = offset + i0
    query_base = QueryBase(
        Q + b * qb + h * qh, P + b * pb + h * ph, DO + b * gb + h * gh, LSE + bh * TQ,
        DELTA + bh * TQ, QUERY_CODES + b * TQ, ROW_RANDOM + bh * TQ, qt, pt, gt, TQ, offset,
    )  # fmt: skip
    key_base = KeyBase(
        K + b * kb + h * kh, V + b * vb + h * vh, KEY_CODES + b * TK, COLUMN_RANDOM + bh * TK,
        kt, vt, TK,
    )  # fmt: skip
    tables = Tables(E + h * eh, BIASES + h * bh_bias, A + h * ah, low, high)
    numbers = Numbers(scale, threshold, inverse_share)
    factor = 1.0
    if FIXED:
        factor = tl.load(FACTOR)
    rows = (bh % slots) * (high - low + 1)
    sinks = Sinks(DE + rows * D, DBIAS + rows, DA + rows * D, factor)
    queries = load_queries(query_base, i0, flags, True)
    upstream = load_upstream(query_base, i0, flags)
    first, stop = keys_seen(KEY_FIRST + b * TQ, KEY_STOP + b * TQ, i0, TQ, TK, p0, flags)
    m0, m1, m2, m3 = tile_range(first, stop, p0, low, high, T, flags)

    none = tl.zeros([T], tl.float32)
    dposition = none
    if POSITION:
        dposition = tl.zeros([T, D], tl.float32)
    before = none
    before_values = none
    if SPREAD:
        before = tl.zeros([T, T], queries.q.dtype)
    if VALUES:
        before_values = tl.zeros([T, T], queries.q.dtype)
    dq = tl.zeros([T, D], tl.float32)
    state = Backward(dq, dposition, none, before, none, none, before_values, none)
    far = none
    far_values = none
    if TABLE or BIAS or VALUES:
        if TABLE:
            far = meet_row(queries.position, tables.table, high - low, D)
        if VALUES:
            far_values = meet_row(upstream.do, tables.added, high - low, D)
        for m in range(m0, m1):
            state = query_tile(
                state, upstream, queries, key_base, tables, sinks, far, far_values, high - low,
                p0 + m * T, p0, numbers, flags, FAR,
            )  # fmt: skip
        if m1 > m0:
            state = spread_far(state, upstream, queries, tables, sinks, high - low, flags)
    hi = state.hi
    hi_values = state.hi_values
    if TABLE:
        hi = by_distance(queries.position, tables.table, -m1 * T, tables, SKEW, flags)
    if VALUES:
        hi_values = by_distance(
            upstream.do, tables.added, -m1 * T, tables, upstream.do.dtype, flags
        )  # fmt: skip
    state = Backward(
        state.dq, state.dposition, hi, before, state.far_sum, hi_values, before_values,
        state.far_sum_values,
    )  # fmt: skip
    for m in range(m1, m2):
        state = query_tile(
            state, upstream, queries, key_base, tables, sinks, none, none, 0, p0 + m * T,
            p0, numbers, flags, NEAR,
        )  # fmt: skip
    if CAUSAL:
        if m3 > m2:
            state = query_tile(
                state, upstream, queries, key_base, tables, sinks, none, none, 0, p0, p0,
                numbers, flags, DIAGONAL,
            )  # fmt: skip
        elif SPREAD or VALUES:
            state = spread_remainder(state, upstream, queries, tables, sinks, (1 - m2) * T, flags)
    elif TABLE or BIAS or VALUES:
        if SPREAD or VALUES:
            state = spread_remainder(state, upstream, queries, tables, sinks, (1 - m2) * T, flags)
        if TABLE:
            far = meet_row(queries.position, tables.table, 0, D)
        if VALUES:
            far_values = meet_row(upstream.do, tables.added, 0, D)
        for m in range(m2, m3):
            state = query_tile(
                state, upstream, queries, key_base, tables, sinks, far, far_values, 0,
                p0 + m * T, p0, numbers, flags, FAR,
            )  # fmt: skip
        if m3 > m2:
            state = spread_far(state, upstream, queries, tables, sinks, 0, flags)
    store_rows(DQ + b * db + h * dh, i0, TQ, dt, state.dq * natural, T, D)
    if POSITION:
        store_rows(DP + b * xb + h * xh, i0, TQ, xt, state.dposition * natural, T, D)
