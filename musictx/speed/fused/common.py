"""Common to all passes of the fused kernel: named tuples, loading and storing of rows.

A tile is T queries and T keys of one (batch row, head), number ``bh``. Query i has the position of
key ``offset + i``, even if there is no such key. A tile's first query is ``i0`` at position ``p0``,
its first key ``j0``; ``delta = p0 - j0``. Tiles are numbered from the diagonal: m = -delta / T in
programs for queries, delta / T in programs for keys. ``upper`` and ``lower`` are R_k and R_{k-1} of
skew.py. Logits are to base 2, because the kernels use exp2.

qb, qh and qt are the strides of Q by batch row, head and token; those of DO begin with g, of DQ and
DK with d, of DV with w. eh and bias_h are the strides by head of the table E and of BIASES. LSE is
the log of the sums of weights. Named tuples group the arguments: ``...Base`` has the pointers and
strides of all queries or keys of one (batch row, head), ``...Rows`` the values of one tile.
"""

from typing import Any, NamedTuple

import triton
import triton.language as tl

#: Kinds of tiles by distance. FAR: all distances are clipped to the last row of the tables.
FAR = tl.constexpr(0)
NEAR = tl.constexpr(1)
DIAGONAL = tl.constexpr(2)  # delta is 0: only these tiles have keys later than a query
#: Integer arguments for whose values Triton must not compile specialised kernels.
NOT_SPECIALISED = ["H", "offset", "low", "high", "slots", "threshold"]
#: The log of the sum of weights of a query that attends to no key; exp2(-NO_KEYS) is 0.
NO_KEYS = tl.constexpr(1e30)


class Flags(NamedTuple):
    """Constants for which a kernel is compiled."""

    D: Any  # head size
    T: Any  # the number of queries, and of keys, of a tile
    TABLE: Any  # whether there is a table of a vector for each distance
    BIAS: Any  # whether there is a bias for each distance
    PACKED: Any  # whether a query attends only to keys with its own code (piece)
    EDGE: Any  # whether tiles may begin before the first key
    DROP: Any  # whether there is dropout
    SKEW: Any  # dtype of relative logits in the skew
    PRECISION: Any  # precision of products of float32 inputs
    BIAS_GRADIENT: Any = False  # whether to compute the gradient of the bias


class QueryBase(NamedTuple):
    """All queries: pointers, token strides, their number, the position of the first."""

    q: Any
    do: Any
    log: Any
    inner: Any
    codes: Any
    random: Any
    q_stride: Any
    do_stride: Any
    count: Any
    offset: Any


class KeyBase(NamedTuple):
    """All keys: pointers, token strides, their number."""

    k: Any
    v: Any
    codes: Any
    random: Any
    k_stride: Any
    v_stride: Any
    count: Any


class QueryRows(NamedTuple):
    """The queries of a tile. Fields that a kernel does not use hold the positions."""

    q: Any
    log: Any
    positions: Any
    codes: Any
    random: Any


class Upstream(NamedTuple):
    """The gradient of the output of a tile's queries, and <output, gradient> of each."""

    do: Any
    inner: Any


class KeyRows(NamedTuple):
    """The keys of a tile, and the number of all keys."""

    k: Any
    v: Any
    positions: Any
    codes: Any
    random: Any
    count: Any


class Tables(NamedTuple):
    """The tables of one head: pointers, and the distances low..high of their rows."""

    table: Any
    bias: Any
    low: Any
    high: Any


class Scalars(NamedTuple):
    """The factor of the logits; dropout's threshold; 1 / the share of weights that it keeps."""

    scale: Any
    threshold: Any
    inverse_share: Any


class Softmax(NamedTuple):
    """The state of the online softmax: sum of weights times values, maximum, sum of weights."""

    acc: Any
    top: Any
    total: Any


@triton.jit
def assign_tile(tokens, H, T: tl.constexpr, LAST_FIRST: tl.constexpr):
    """(start, bh, b, h): the first token of this program's tile, and its batch row and head."""
    blocks = tl.cdiv(tokens, T)
    block = tl.program_id(0) % blocks
    if LAST_FIRST:
        block = blocks - 1 - block
    start = block * T
    bh = (tl.program_id(0) // blocks).to(tl.int64)
    return start, bh, bh // H, bh % H


@triton.jit
def load_rows(base, start, length, stride, T: tl.constexpr, D: tl.constexpr):
    """Rows start..start+T-1 of (length, D); rows outside are 0."""
    t = tl.arange(0, T)
    inside = (start + t >= 0) & (start + t < length)
    first = base + tl.cast(start, tl.int64) * stride
    pointers = first + t[:, None] * stride + tl.arange(0, D)[None, :]
    return tl.load(pointers, mask=inside[:, None], other=0.0)


@triton.jit
def store_rows(base, start, length, stride, values, T: tl.constexpr, D: tl.constexpr):
    """Write rows start..start+T-1 of (length, D); rows outside are skipped."""
    t = tl.arange(0, T)
    inside = (start + t >= 0) & (start + t < length)
    first = base + tl.cast(start, tl.int64) * stride
    pointers = first + t[:, None] * stride + tl.arange(0, D)[None, :]
    tl.store(pointers, values.to(base.dtype.element_ty), mask=inside[:, None])


@triton.jit
def load_vector(base, start, length, other, T: tl.constexpr):
    """Entries start..start+T-1 of (length,); ``other`` outside."""
    t = start + tl.arange(0, T)
    return tl.load(base + t, mask=(t >= 0) & (t < length), other=other)


@triton.jit
def load_queries(base, i0, flags: tl.constexpr, BACKWARD: tl.constexpr):
    """The queries i0..i0+T-1; those outside are 0 and have weights 0."""
    T: tl.constexpr = flags.T
    q = load_rows(base.q, i0, base.count, base.q_stride, T, flags.D)
    positions = base.offset + i0 + tl.arange(0, T)
    codes = positions
    if flags.PACKED:
        codes = load_vector(base.codes, i0, base.count, 0, T)
    random = positions
    if flags.DROP:
        random = load_vector(base.random, i0, base.count, 0, T)
    log = positions
    if BACKWARD:
        log = load_vector(base.log, i0, base.count, NO_KEYS, T)
    return QueryRows(q, log, positions, codes, random)


@triton.jit
def load_upstream(base, i0, flags: tl.constexpr):
    """The gradients that arrive at the queries i0..i0+T-1 in the backward pass."""
    do = load_rows(base.do, i0, base.count, base.do_stride, flags.T, flags.D)
    return Upstream(do, load_vector(base.inner, i0, base.count, 0.0, flags.T))


@triton.jit
def load_keys(base, j0, flags: tl.constexpr):
    """The keys j0..j0+T-1; those outside are 0."""
    T: tl.constexpr = flags.T
    k = load_rows(base.k, j0, base.count, base.k_stride, T, flags.D)
    v = load_rows(base.v, j0, base.count, base.v_stride, T, flags.D)
    positions = j0 + tl.arange(0, T)
    codes = positions
    if flags.PACKED:
        codes = load_vector(base.codes, j0, base.count, 0, T)
    random = positions
    if flags.DROP:
        random = load_vector(base.random, j0, base.count, 0, T)
    return KeyRows(k, v, positions, codes, random, base.count)


@triton.jit
def table_row(distance, tables):
    """The row of the tables that a distance is clipped to."""
    return tl.minimum(tl.maximum(distance, tables.low), tables.high) - tables.low


@triton.jit
def far_logits(x, tables, D: tl.constexpr):
    """<x_i, last row of the table> for each row x_i: its relative logit in FAR tiles."""
    row = tables.high - tables.low
    vector = tl.load(tables.table + row * D + tl.arange(0, D)).to(tl.float32)
    return tl.sum(x.to(tl.float32) * vector[None, :], 1)


@triton.jit
def atomic_add(pointers, values):
    """Add float32 values atomically, because other programs add to the same memory."""
    tl.atomic_add(pointers, values, sem="relaxed")
