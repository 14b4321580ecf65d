"""The forward pass (algebra: fused/skew.py)."""

import triton
import triton.language as tl

from musictx.speed.fused.common import (
    DIAGONAL,
    FAR,
    NEAR,
    NO_KEYS,
    NOT_SPECIALISED,
    Flags,
    KeyBase,
    QueryBase,
    Scalars,
    Softmax,
    Tables,
    assign_tile,
    far_logits,
    load_keys,
    load_queries,
    store_rows,
)
from musictx.speed.fused.skew import relative_logits, table_product, tile_range
from musictx.speed.fused.tile import keep_mask, logits, mask_cells, visible_keys


@triton.jit
def forward_tile(
    soft, upper, queries, key_base, tables, far_logit, m, p0, scalars, flags: tl.constexpr,
    KIND: tl.constexpr,
):  # fmt: skip
    """Update the softmax with tile m. Return its state and the ``upper`` of the next tile."""
    j0 = p0 + m * flags.T
    keys = load_keys(key_base, j0, flags)
    relative = 0.0
    if flags.TABLE:
        relative, upper = relative_logits(queries.q, upper, far_logit, p0 - j0, tables, flags, KIND)
    s, scale = logits(queries, keys, relative, tables, scalars.scale, flags, KIND)
    s = mask_cells(s, float("-inf"), queries, keys, flags, KIND)
    top = tl.maximum(soft.top, tl.max(s, 1) * scale)  # requires scale > 0
    rescale = tl.exp2(soft.top - top)
    p = tl.exp2(s * scale - top[:, None])
    total = soft.total * rescale + tl.sum(p, 1)
    if flags.DROP:
        p = tl.where(keep_mask(queries.random, keys.random, scalars.threshold), p, 0.0)
    acc = soft.acc * rescale[:, None]
    acc = tl.dot(p.to(keys.v.dtype), keys.v, acc, input_precision=flags.PRECISION)
    return Softmax(acc, top, total), upper


@triton.jit(do_not_specialize=NOT_SPECIALISED)
def forward(
    Q, K, V, E, BIASES, QUERY_CODES, KEY_CODES, KEY_FIRST, ROW_RANDOM, COLUMN_RANDOM, OUT, LSE,
    qb, qh, qt, kb, kh, kt, vb, vh, vt, ob, oh, ot, eh, bias_h,
    H, TQ, TK, offset, low, high, scale, threshold, inverse_share,
    D: tl.constexpr, T: tl.constexpr, TABLE: tl.constexpr, BIAS: tl.constexpr,
    PACKED: tl.constexpr, EDGE: tl.constexpr, DROP: tl.constexpr, SKEW: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """Output and log of the sum of weights of T queries of one (batch row, head)."""
    flags: tl.constexpr = Flags(D, T, TABLE, BIAS, PACKED, EDGE, DROP, SKEW, PRECISION)
    i0, bh, b, h = assign_tile(TQ, H, T, True)  # late queries first: they have most keys
    p0 = offset + i0
    query_base = QueryBase(
        Q + b * qb + h * qh, Q, LSE, LSE, QUERY_CODES + b * TQ, ROW_RANDOM + bh * TQ, qt, qt, TQ,
        offset,
    )  # fmt: skip
    key_base = KeyBase(
        K + b * kb + h * kh, V + b * vb + h * vh, KEY_CODES + b * TK, COLUMN_RANDOM + bh * TK,
        kt, vt, TK,
    )  # fmt: skip
    tables = Tables(E + h * eh, BIASES + h * bias_h, low, high)
    scalars = Scalars(scale, threshold, inverse_share)
    queries = load_queries(query_base, i0, flags, BACKWARD=False)
    first, stop = visible_keys(KEY_FIRST + b * TQ, i0, TQ, TK, p0, flags)
    m0, m1, m2, m3 = tile_range(first, stop, p0, high, T, flags)

    top = tl.full([T], -1e30, tl.float32)
    zeros = tl.zeros([T], tl.float32)
    soft = Softmax(tl.zeros([T, D], tl.float32), top, zeros)
    upper = zeros
    if TABLE or BIAS:
        far_logit = zeros
        if TABLE:
            far_logit = far_logits(queries.q, tables, D)
        for m in range(m0, m1):
            soft, upper = forward_tile(
                soft, upper, queries, key_base, tables, far_logit, m, p0, scalars, flags, FAR
            )
    if TABLE:
        upper = table_product(queries.q, -m1 * T, tables, flags)
    for m in range(m1, m2):
        soft, upper = forward_tile(
            soft, upper, queries, key_base, tables, zeros, m, p0, scalars, flags, NEAR
        )
    if m3 > m2:
        soft, upper = forward_tile(
            soft, upper, queries, key_base, tables, zeros, 0, p0, scalars, flags, DIAGONAL
        )
    out = OUT + b * ob + h * oh
    log_sum = LSE + bh * TQ
    empty = soft.total == 0.0
    divisor = tl.where(empty, 1.0, soft.total)
    store_rows(out, i0, TQ, ot, soft.acc * (inverse_share / divisor)[:, None], T, D)
    t = i0 + tl.arange(0, T)
    log = tl.where(empty, NO_KEYS, soft.top + tl.log2(divisor))
    tl.store(log_sum + t, log, mask=(t >= 0) & (t < TQ))
