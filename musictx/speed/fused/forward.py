"""The forward pass; the algebra is that of fused/skew.py."""

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
    Softmax,
    Tables,
    load_keys,
    load_queries,
    meet_row,
)
from musictx.speed.fused.skew import (
    by_distance,
    by_key,
    distance_chunk,
    remainder,
    take_apart,
    tile_range,
)
from musictx.speed.fused.tile import absorb, finish, keys_seen


class Forward(NamedTuple):
    """What one tile hands on to the next: softmax in passing, R_k, and with a table of values the
    weights of the tile before by distance and each row's weights of clipped distances."""

    acc: Any
    top: Any
    total: Any
    hi: Any
    before: Any
    far_weights: Any


@triton.jit
def forward_tile(
    state, queries, key_base, tables, far, row, j0, p0, numbers, flags: tl.constexpr,
    KIND: tl.constexpr,
):  # fmt: skip
    """Take in the keys j0..j0+T-1; FAR ones have the table's ``row``."""
    delta = p0 - j0
    T: tl.constexpr = flags.T
    keys = load_keys(key_base, j0, flags)
    relative = 0.0
    hi = state.hi
    if flags.TABLE:
        relative, hi = by_key(
            queries.position, hi, far, tables.table, delta, tables, flags.SKEW, flags, KIND
        )
    soft = Softmax(state.acc, state.top, state.total)
    soft, p, shrink = absorb(soft, queries, keys, relative, tables, row, numbers, flags, KIND)
    acc = soft.acc
    before = state.before
    far_weights = state.far_weights
    if flags.VALUES:
        if KIND == FAR:
            far_weights = far_weights * shrink + tl.sum(p, 1)
        else:
            before = (before.to(tl.float32) * shrink[:, None]).to(before.dtype)
            used, before = take_apart(p.to(before.dtype), before, delta, T)
            chunk = distance_chunk(tables.added, delta, tables, flags)
            acc = tl.dot(used, chunk, acc, input_precision=flags.PRECISION)
    return Forward(acc, soft.top, soft.total, hi, before, far_weights)


@triton.jit
def take_far_values(state, tables, row, flags: tl.constexpr):
    """The weights of clipped distances meet their row of the table of values."""
    vector = tl.load(tables.added + row * flags.D + tl.arange(0, flags.D)).to(tl.float32)
    acc = state.acc + state.far_weights[:, None] * vector[None, :]
    none = tl.zeros_like(state.far_weights)
    return Forward(acc, state.top, state.total, state.hi, state.before, none)


@triton.jit
def take_remainder(state, tables, delta, flags: tl.constexpr):
    """The weights that the last tile, of ``delta``, has left meet the table of values."""
    T: tl.constexpr = flags.T
    chunk = distance_chunk(tables.added, delta - T, tables, flags)
    left = remainder(state.before, delta, T)
    acc = tl.dot(left, chunk, state.acc, input_precision=flags.PRECISION)
    none = tl.zeros_like(state.before)
    return Forward(acc, state.top, state.total, state.hi, none, state.far_weights)


@triton.jit(do_not_specialize=PLAIN_NUMBERS)
def forward(
    Q, P, K, V, E, BIASES, A, QUERY_CODES, KEY_CODES, KEY_FIRST, KEY_STOP, ROW_RANDOM,
    COLUMN_RANDOM, OUT, LSE,
    qb, qh, qt, pb, ph, pt, kb, kh, kt, vb, vh, vt, ob, oh, ot, eh, bh_bias, ah,
    H, TQ, TK, offset, low, high, scale, threshold, inverse_share,
    D: tl.constexpr, T: tl.constexpr, TABLE: tl.constexpr, BIAS: tl.constexpr,
    VALUES: tl.constexpr, POSITION: tl.constexpr, CAUSAL: tl.constexpr, PACKED: tl.constexpr,
    LOCAL: tl.constexpr, EDGE: tl.constexpr, DROP: tl.constexpr, SKEW: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """Output and log of the sum of weights of T queries of one (batch row, head)."""
    flags: tl.constexpr = Flags(
        D, T, TABLE, BIAS, VALUES, POSITION, CAUSAL, PACKED, LOCAL, EDGE, DROP, SKEW, PRECISION
    )
    blocks = tl.cdiv(TQ, T)
    i0 = (blocks - 1 - tl.program_id(0) % blocks) * T  # long rows first
    bh = (tl.program_id(0) // blocks).to(tl.int64)
    b = bh // H
    h = bh % H
    p0 = offset + i0
    query_base = QueryBase(
        Q + b * qb + h * qh, P + b * pb + h * ph, Q, LSE, LSE, QUERY_CODES + b * TQ,
        ROW_RANDOM + bh * TQ, qt, pt, qt, TQ, offset,
    )  # fmt: skip
    key_base = KeyBase(
        K + b * kb + h * kh, V + b * vb + h * vh, KEY_CODES + b * TK, COLUMN_RANDOM + bh * TK,
        kt, vt, TK,
    )  # fmt: skip
    tables = Tables(E + h * eh, BIASES + h * bh_bias, A + h * ah, low, high)
    numbers = Numbers(scale, threshold, inverse_share)
    queries = load_queries(query_base, i0, flags, False)
    first, stop = keys_seen(KEY_FIRST + b * TQ, KEY_STOP + b * TQ, i0, TQ, TK, p0, flags)
    m0, m1, m2, m3 = tile_range(first, stop, p0, low, high, T, flags)

    top = tl.full([T], -1e30, tl.float32)
    none = tl.zeros([T], tl.float32)
    state = Forward(tl.zeros([T, D], tl.float32), top, none, none, none, none)
    if VALUES:
        before = tl.zeros([T, T], queries.q.dtype)
        state = Forward(state.acc, top, none, none, before, none)
    if TABLE or BIAS or VALUES:
        far = none
        if TABLE:
            far = meet_row(queries.position, tables.table, high - low, D)
        for m in range(m0, m1):
            state = forward_tile(
                state, queries, key_base, tables, far, high - low, p0 + m * T, p0, numbers, flags,
                FAR,
            )  # fmt: skip
        if VALUES:
            state = take_far_values(state, tables, high - low, flags)
    if TABLE:
        hi = by_distance(queries.position, tables.table, -m1 * T, tables, SKEW, flags)
        state = Forward(
            state.acc, state.top, state.total, hi, state.before, state.far_weights
        )  # fmt: skip
    for m in range(m1, m2):
        state = forward_tile(
            state, queries, key_base, tables, none, 0, p0 + m * T, p0, numbers, flags, NEAR
        )
    if CAUSAL:
        if m3 > m2:
            state = forward_tile(
                state, queries, key_base, tables, none, 0, p0, p0, numbers, flags, DIAGONAL
            )
        elif VALUES:
            state = take_remainder(state, tables, (1 - m2) * T, flags)
    elif TABLE or BIAS or VALUES:
        if VALUES:
            state = take_remainder(state, tables, (1 - m2) * T, flags)
        if TABLE:
            far = meet_row(queries.position, tables.table, 0, D)
        for m in range(m2, m3):
            state = forward_tile(
                state, queries, key_base, tables, far, 0, p0 + m * T, p0, numbers, flags, FAR
            )
        if VALUES:
            state = take_far_values(state, tables, 0, flags)
    soft = Softmax(state.acc, state.top, state.total)
    finish(soft, OUT + b * ob + h * oh, LSE + bh * TQ, i0, TQ, ot, inverse_share, flags)
