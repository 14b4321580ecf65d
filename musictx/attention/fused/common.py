"""Device functions that both plans of the fused kernel share.

Names: T rows of queries or keys to a tile, D numbers to a head; ``base`` pointers stand at the
first row of one (batch row, head); ``p0`` is the position of a tile's first query among the keys,
``j0`` its first key, ``delta = p0 - j0``. Logits are kept in units of log 2, so that exp2 serves.
"""

import triton
import triton.language as tl

#: Kinds of tiles by distance. FAR: every distance is clipped to the last row of the table.
FAR = tl.constexpr(0)
NEAR = tl.constexpr(1)
DIAGONAL = tl.constexpr(2)  # the only one with keys later than a query
#: Numbers whose value must not lead to a new compilation.
PLAIN_NUMBERS = ["H", "BH", "low", "high", "slots", "threshold"]
#: log of the sum of weights of a row that sees nothing: its weights become exp2(-BIG) = 0.
BIG = tl.constexpr(1e30)


@triton.jit
def load_rows(base, start, length, stride, T: tl.constexpr, D: tl.constexpr):
    """Rows start..start+T-1 of (length, D); rows outside are 0."""
    t = tl.arange(0, T)
    inside = (start + t >= 0) & (start + t < length)
    here = base + tl.cast(start, tl.int64) * stride
    place = here + t[:, None] * stride + tl.arange(0, D)[None, :]
    return tl.load(place, mask=inside[:, None], other=0.0)


@triton.jit
def store_rows(base, start, length, stride, values, T: tl.constexpr, D: tl.constexpr):
    """Write rows start..start+T-1 of (length, D), those that exist."""
    t = tl.arange(0, T)
    inside = (start + t >= 0) & (start + t < length)
    here = base + tl.cast(start, tl.int64) * stride
    place = here + t[:, None] * stride + tl.arange(0, D)[None, :]
    tl.store(place, values.to(base.dtype.element_ty), mask=inside[:, None])


@triton.jit
def load_vector(base, start, length, other, T: tl.constexpr):
    """Entries start..start+T-1 of (length,); ``other`` outside."""
    t = start + tl.arange(0, T)
    return tl.load(base + t, mask=(t >= 0) & (t < length), other=other)


@triton.jit
def table_row(distance, low, high):
    """The row of the tables that a distance is clipped to."""
    return tl.minimum(tl.maximum(distance, low), high) - low


@triton.jit
def load_table(base, distance, low, high, D: tl.constexpr):
    """Rows of the table for a vector of distances: (T, D)."""
    row = table_row(distance, low, high)
    return tl.load(base + row[:, None] * D + tl.arange(0, D)[None, :])


@triton.jit
def load_bias(base, rows, columns, low, high):
    """The bias of each pair of a query (position) and a key, clipped: (T, T)."""
    return tl.load(base + table_row(rows[:, None] - columns[None, :], low, high))


@triton.jit
def logits(
    q,
    k,
    relative,
    bias,
    rows,
    columns,
    low,
    high,
    scale,
    TABLE: tl.constexpr,
    BIAS: tl.constexpr,
    KIND: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """q k^T + relative of one tile (``relative`` is read if TABLE), to be scaled by the caller: one
    instruction with what follows. With a bias: scaled already, the bias added."""
    if TABLE:
        s = tl.dot(q, tl.trans(k), relative, input_precision=PRECISION)
    else:
        s = tl.dot(q, tl.trans(k), input_precision=PRECISION)
    if BIAS:
        if KIND == FAR:
            s = s * scale + tl.load(bias + (high - low))
        else:
            s = s * scale + load_bias(bias, rows, columns, low, high)
    return s


@triton.jit
def add(place, values, factor, FIXED: tl.constexpr):
    """Add float32 values to numbers that other programs add to.

    FIXED: the numbers are int64 in units of 1 / factor. Sums of integers do not depend on their
    order, so the result is the same in every run.
    """
    if FIXED:
        tl.atomic_add(place, (values * factor).to(tl.int64), sem="relaxed")
    else:
        tl.atomic_add(place, values, sem="relaxed")


@triton.jit
def add_to_rows(base, row, values, factor, D: tl.constexpr, FIXED: tl.constexpr):
    """Add (T, D) to rows of the table's gradient; several may be the same row."""
    add(base + row[:, None] * D + tl.arange(0, D)[None, :], values, factor, FIXED)


@triton.jit
def mask_cells(
    x,
    fill,
    rows,
    columns,
    first_query,
    first_key,
    CAUSAL: tl.constexpr,
    EDGE: tl.constexpr,
    PACKED: tl.constexpr,
):
    """x where the query may look at the key, ``fill`` elsewhere: by choice, never by sums, because
    hidden cells may hold NaN."""
    if CAUSAL:
        x = tl.where(columns[None, :] <= rows[:, None], x, fill)
    if PACKED:
        x = tl.where(first_key[None, :] == first_query[:, None], x, fill)
    elif EDGE:
        x = tl.where(columns[None, :] >= 0, x, fill)
    return x


@triton.jit
def kept(row_keys, column_keys, threshold):
    """Which weights dropout keeps: 24 bits of a hash of one random number for each query and one
    for each key, so it does not depend on how the work is cut into tiles."""
    x = row_keys.to(tl.uint32, bitcast=True)[:, None] ^ column_keys.to(tl.uint32, bitcast=True)
    x ^= x >> 16
    x *= 0x7FEB352D
    x ^= x >> 15
    x *= 0x846CA68B
    return (x >> 8).to(tl.int32) >= threshold


@triton.jit
def absorb(
    acc, top, total, s, scale, v, kept_cells, DROP: tl.constexpr, PRECISION: tl.constexpr
):  # fmt: skip
    """One step of softmax in passing: (sum of weights times values, maximum, sum of weights).
    Logits are scale * s, scale > 0."""
    new_top = tl.maximum(top, tl.max(s, 1) * scale)
    shrink = tl.exp2(top - new_top)
    p = tl.exp2(s * scale - new_top[:, None])
    total = total * shrink + tl.sum(p, 1)
    if DROP:
        p = tl.where(kept_cells, p, 0.0)
    acc = tl.dot(p.to(v.dtype), v, acc * shrink[:, None], input_precision=PRECISION)
    return acc, new_top, total


@triton.jit
def finish(
    acc,
    top,
    total,
    out,
    log_sum,
    start,
    length,
    stride,
    inverse_share,
    T: tl.constexpr,
    D: tl.constexpr,
):
    """Divide by the sum of weights and store the rows and the log of their sums."""
    empty = total == 0.0
    divisor = tl.where(empty, 1.0, total)
    store_rows(out, start, length, stride, acc * (inverse_share / divisor)[:, None], T, D)
    t = start + tl.arange(0, T)
    log = tl.where(empty, BIG, top + tl.log2(divisor))
    tl.store(log_sum + t, log, mask=(t >= 0) & (t < length))


@triton.jit
def row_products(
    OUT, DO, DELTA, ob, oh, ot, gb, gh, gt, H, TQ, D: tl.constexpr, T: tl.constexpr
):  # fmt: skip
    """DELTA[i] = <o_i, do_i>, the sum over keys of weight times its gradient, in float32."""
    blocks = tl.cdiv(TQ, T)
    start = (tl.program_id(0) % blocks) * T
    bh = (tl.program_id(0) // blocks).to(tl.int64)
    b = bh // H
    h = bh % H
    o = load_rows(OUT + b * ob + h * oh, start, TQ, ot, T, D).to(tl.float32)
    do = load_rows(DO + b * gb + h * gh, start, TQ, gt, T, D).to(tl.float32)
    t = start + tl.arange(0, T)
    tl.store(DELTA + bh * TQ + t, tl.sum(o * do, 1), mask=t < TQ)
