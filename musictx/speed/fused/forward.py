"""The forward pass (algebra: fused/skew.py)."""

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
    Softmax,
    Tables,
    far_logits,
    load_keys,
    load_queries,
)
from musictx.speed.fused.skew import relative_logits, table_product, tile_range
from musictx.speed.fused.tile import store_output, update_softmax, visible_keys


@triton.jit
def forward_tile(
    soft, hi, queries, key_base, tables, far, j0, p0, scalars, flags: tl.constexpr,
    KIND: tl.constexpr,
):  # fmt: skip
    """Update the state of the softmax and R_k (``hi``), which each tile passes to the next, with
    the keys j0..j0+T-1."""
    keys = load_keys(key_base, j0, flags)
    relative = 0.0
    if flags.TABLE:
        relative, hi = relative_logits(queries.q, hi, far, p0 - j0, tables, flags, KIND)
    soft = update_softmax(soft, queries, keys, relative, tables, scalars, flags, KIND)
    return soft, hi


@triton.jit(do_not_specialize=NOT_SPECIALISED)
def forward(
    Q, K, V, E, BIASES, QUERY_CODES, KEY_CODES, KEY_FIRST, ROW_RANDOM, COLUMN_RANDOM, OUT, LSE,
    qb, qh, qt, kb, kh, kt, vb, vh, vt, ob, oh, ot, eh, bh_bias,
    H, TQ, TK, offset, low, high, scale, threshold, inverse_share,
    D: tl.constexpr, T: tl.constexpr, TABLE: tl.constexpr, BIAS: tl.constexpr,
    PACKED: tl.constexpr, EDGE: tl.constexpr, DROP: tl.constexpr, SKEW: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """Output and log of the sum of weights of T queries of one (batch row, head)."""
    flags: tl.constexpr = Flags(D, T, TABLE, BIAS, PACKED, EDGE, DROP, SKEW, PRECISION)
    blocks = tl.cdiv(TQ, T)
    i0 = (blocks - 1 - tl.program_id(0) % blocks) * T  # late queries first: they have most keys
    bh = (tl.program_id(0) // blocks).to(tl.int64)
    b = bh // H
    h = bh % H
    p0 = offset + i0
    query_base = QueryBase(
        Q + b * qb + h * qh, Q, LSE, LSE, QUERY_CODES + b * TQ, ROW_RANDOM + bh * TQ, qt, qt, TQ,
        offset,
    )  # fmt: skip
    key_base = KeyBase(
        K + b * kb + h * kh, V + b * vb + h * vh, KEY_CODES + b * TK, COLUMN_RANDOM + bh * TK,
        kt, vt, TK,
    )  # fmt: skip
    tables = Tables(E + h * eh, BIASES + h * bh_bias, low, high)
    scalars = Scalars(scale, threshold, inverse_share)
    queries = load_queries(query_base, i0, flags, False)
    first, stop = visible_keys(KEY_FIRST + b * TQ, i0, TQ, TK, p0, flags)
    m0, m1, m2, m3 = tile_range(first, stop, p0, high, T, flags)

    top = tl.full([T], -1e30, tl.float32)
    zeros = tl.zeros([T], tl.float32)
    soft = Softmax(tl.zeros([T, D], tl.float32), top, zeros)
    hi = zeros
    if TABLE or BIAS:
        far = zeros
        if TABLE:
            far = far_logits(queries.q, tables, D)
        for m in range(m0, m1):
            soft, hi = forward_tile(
                soft, hi, queries, key_base, tables, far, p0 + m * T, p0, scalars, flags, FAR
            )
    if TABLE:
        hi = table_product(queries.q, -m1 * T, tables, flags)
    for m in range(m1, m2):
        soft, hi = forward_tile(
            soft, hi, queries, key_base, tables, zeros, p0 + m * T, p0, scalars, flags, NEAR
        )
    if m3 > m2:
        soft, hi = forward_tile(
            soft, hi, queries, key_base, tables, zeros, p0, p0, scalars, flags, DIAGONAL
        )
    store_output(soft, OUT + b * ob + h * oh, LSE + bh * TQ, i0, TQ, ot, inverse_share, flags)
