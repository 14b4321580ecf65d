"""Functions of one tile of the fused kernel: masks, softmax, gradients. speed/fused/common.py
explains the names."""

import triton
import triton.language as tl

from musictx.speed.fused.common import DIAGONAL, FAR, assign_tile, load_rows, load_vector, table_row


@triton.jit
def ceil_div(x, n: tl.constexpr):
    """x / n rounded up, for negative x too (// rounds towards 0 on GPUs)."""
    return tl.where(x > 0, (x + n - 1) // n, -((-x) // n))


@triton.jit
def floor_div(x, n: tl.constexpr):
    """x / n rounded down."""
    return -ceil_div(-x, n)


@triton.jit
def visible_keys(first_keys, i0, queries, keys, p0, flags: tl.constexpr):
    """(first, stop): the queries of the tile attend only to the keys first..stop-1."""
    first = 0
    if flags.PACKED:
        first = tl.min(load_vector(first_keys, i0, queries, keys, flags.T))
    return first, tl.minimum(keys, p0 + flags.T)


@triton.jit
def attending_queries(stop_queries, j0, queries, keys, offset, flags: tl.constexpr):
    """(first, stop): only the queries first..stop-1 attend to keys of the tile."""
    stop = queries
    if flags.PACKED:
        stop = tl.max(load_vector(stop_queries, j0, keys, 0, flags.T))
    return tl.maximum(j0 - offset, 0), stop


@triton.jit
def logits(queries, keys, relative, tables, scale, flags: tl.constexpr, KIND: tl.constexpr):
    """Return (x, factor), whose product is the logits of one tile. The caller fuses the factor with
    its next operation. ``relative`` is used only with TABLE.

    Without a bias, x is q k^T + relative and the factor is the scale. With a bias, x is
    scale (q k^T + relative) + bias and the factor is 1; FAR tiles use the last bias.
    """
    if flags.TABLE:
        s = tl.dot(queries.q, tl.trans(keys.k), relative, input_precision=flags.PRECISION)
    else:
        s = tl.dot(queries.q, tl.trans(keys.k), input_precision=flags.PRECISION)
    if flags.BIAS:
        if KIND == FAR:
            s = s * scale + tl.load(tables.bias + (tables.high - tables.low))
        else:
            distance = queries.positions[:, None] - keys.positions[None, :]
            s = s * scale + tl.load(tables.bias + table_row(distance, tables))
        scale = 1.0
    return s, scale


@triton.jit
def mask_cells(x, fill, queries, keys, flags: tl.constexpr, KIND: tl.constexpr):
    """x where the query may attend to the key, ``fill`` elsewhere. Adding a mask would not suffice,
    because masked cells may be NaN."""
    if KIND == DIAGONAL:
        x = tl.where(keys.positions[None, :] <= queries.positions[:, None], x, fill)
    if flags.EDGE:
        inside = (keys.positions >= 0) & (keys.positions < keys.count)
        x = tl.where(inside[None, :], x, fill)
    if flags.PACKED:
        x = tl.where(keys.codes[None, :] == queries.codes[:, None], x, fill)
    return x


@triton.jit
def keep_mask(row_random, column_random, threshold):
    """Which weights dropout keeps. 24 bits of a hash of the query's and the key's random number
    decide, so that the mask does not depend on the tile size."""
    x = row_random.to(tl.uint32, bitcast=True)[:, None] ^ column_random.to(tl.uint32, bitcast=True)
    x ^= x >> 16
    x *= 0x7FEB352D
    x ^= x >> 15
    x *= 0x846CA68B
    return (x >> 8).to(tl.int32) >= threshold


@triton.jit
def weights(queries, keys, relative, tables, scalars, flags: tl.constexpr, KIND: tl.constexpr):
    """The attention weights of one tile, computed with the log of each row's sum of weights."""
    s, scale = logits(queries, keys, relative, tables, scalars.scale, flags, KIND)
    p = tl.exp2(s * scale - queries.log[:, None])
    return mask_cells(p, 0.0, queries, keys, flags, KIND)


@triton.jit
def gradients(p, upstream, queries, keys, scalars, flags: tl.constexpr):
    """Return the weights after dropout and dS, the gradient of the natural logits, in float32. The
    gradients that are computed from dS still have to be multiplied by the scale."""
    dp = tl.dot(upstream.do, tl.trans(keys.v), input_precision=flags.PRECISION)
    kept_weights = p
    if flags.DROP:
        keep = keep_mask(queries.random, keys.random, scalars.threshold)
        dp = tl.where(keep, dp * scalars.inverse_share, 0.0)
        kept_weights = tl.where(keep, p * scalars.inverse_share, 0.0)
    return kept_weights, p * (dp - upstream.inner[:, None])


@triton.jit
def inner_products(
    OUT, DO, INNER, ob, oh, ot, gb, gh, gt, H, TQ, D: tl.constexpr, T: tl.constexpr
):  # fmt: skip
    """INNER[i] = <o_i, do_i>, the sum over keys of weight times its gradient, in float32."""
    start, bh, b, h = assign_tile(TQ, H, T, False)
    o = load_rows(OUT + b * ob + h * oh, start, TQ, ot, T, D).to(tl.float32)
    do = load_rows(DO + b * gb + h * gh, start, TQ, gt, T, D).to(tl.float32)
    t = start + tl.arange(0, T)
    tl.store(INNER + bh * TQ + t, tl.sum(o * do, 1), mask=t < TQ)
