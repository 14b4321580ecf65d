"""The skew of the fused kernel: one gather in registers reorders the relative logits of a tile.

For a tile of T queries and T keys whose first query is delta = kT positions after its first key,
let R_k = Q_block . (rows kT..kT+T-1 of the table)^T. The distance of cell (r, c) is delta + r - c,
so

    Y[r, w] = R_k[r, w] if w <= r else R_{k-1}[r, w],     relative[r, c] = Y[r, (r - c) mod T]

As keys ascend, R_{k-1} of one tile is R_k of the next, so each tile needs only one product. The
gather is its own inverse: in the backward pass the same gather reorders dS from keys to distances.
The cells of the distances kT..kT+T-1 are those with w <= r of this tile and those with w > r of the
previous tile. The softmax is that of FlashAttention (Dao 2023); no matrix of size length x length
is ever in memory.

Tiles are aligned so that every delta is a multiple of T. Only the tile with delta = 0 has keys that
are later than a query.
"""

import triton
import triton.language as tl

from musictx.speed.fused.common import FAR, NEAR, table_row
from musictx.speed.fused.tile import ceil_div, floor_div


@triton.jit
def skew(x, delta, T: tl.constexpr):
    """x[r, (r - c) mod T]: reorder from distances to keys, or from keys to distances.

    ``delta``, a multiple of T, does not change the result. It makes the T x T indices depend on the
    loop; otherwise the compiler would compute them before the loop and keep them in registers.
    """
    t = tl.arange(0, T)
    return tl.gather(x, ((t + delta)[:, None] - t[None, :]) & (T - 1), 1)


@triton.jit
def lower_triangle(delta, T: tl.constexpr):
    """Cells (r, w) with w <= r; for ``delta`` see :func:`skew`."""
    t = tl.arange(0, T)
    return (t + delta)[None, :] <= (t + delta)[:, None]


@triton.jit
def distance_chunk(delta, tables, flags: tl.constexpr):
    """Rows of the table for the distances delta..delta+T-1."""
    row = table_row(delta + tl.arange(0, flags.T), tables)
    return tl.load(tables.table + row[:, None] * flags.D + tl.arange(0, flags.D)[None, :])


@triton.jit
def table_product(x, delta, tables, flags: tl.constexpr):
    """x times the table's rows for the distances delta..delta+T-1."""
    chunk = distance_chunk(delta, tables, flags)
    return tl.dot(x, tl.trans(chunk), input_precision=flags.PRECISION).to(flags.SKEW)


@triton.jit
def relative_logits(x, upper, far_logit, delta, tables, flags: tl.constexpr, KIND: tl.constexpr):
    """Return the relative logits, x times the table's row for each cell's distance, (T, T) float32,
    and R_{k-1}, the ``upper`` of the next tile. ``far_logit`` is x times the last row."""
    T: tl.constexpr = flags.T
    if KIND == FAR:
        cells = tl.zeros([T, T], tl.float32) + far_logit[:, None]
    elif KIND == NEAR:
        lower = table_product(x, delta - T, tables, flags)
        cells = skew(tl.where(lower_triangle(delta, T), upper, lower), delta, T).to(tl.float32)
        upper = lower
    else:
        cells = skew(upper, delta, T).to(tl.float32)
    return cells, upper


@triton.jit
def tile_range(first, stop, p0, high, T: tl.constexpr, flags: tl.constexpr):
    """The tiles with the keys first..stop-1. Tile m begins at key p0 + m T, so tile 0 is the
    diagonal: m0..m1-1 are FAR, m1..m2-1 are NEAR, and m2..m3-1, at most one, is DIAGONAL."""
    m0 = floor_div(first - p0, T)
    m3 = ceil_div(stop - p0, T)
    m1 = m0
    if flags.TABLE or flags.BIAS:
        m1 = tl.maximum(m0, 1 - ceil_div(high + T - 1, T))
    m2 = tl.maximum(tl.minimum(m3, 0), m0)
    return m0, tl.minimum(m1, m2), m2, m3
