"""Plan B of the fused kernel: relative logits skewed by two row lengths over one scratch memory.

For M queries and a segment of keys, the logits by distance are written to a panel with P numbers to
a row and read again with P - 1 to a row: row r has moved r places, so the same memory is the matrix
by key. Column c of the panel holds distance top - c, where top is the distance of the last query
to the first key of the segment; natural view 1 + r P + c, skewed view M + r (P - 1) + x for the key
x of the segment. P - 1 is a multiple of the vector width, so the reads are whole aligned vectors.
The gradient dS takes the way back through a second panel: written skewed (row length W - 1), read
natural (row length W). Cells of the second panel that belong to no key lie between the skewed rows
and are never written: they are 0 from the start and stay so.

The panel belongs to one program and stays in the L2 cache. No loop both writes and reads it: a
loop that writes, a barrier, a loop that reads, a barrier (compilers may move loads over stores
within a loop). The first panel is never initialised: cells that nothing was written to may hold NaN
and are hidden by choice, not by sums. Programs are persistent and go through the blocks in strides.

Only for causal attention of the last tokens to all, with a table and neither bias nor table of
values.
"""

import triton
import triton.language as tl

from musictx.attention.fused.common import (
    load_table,
)
from musictx.attention.fused.tile import floor_div


@triton.jit
def fill_panel(
    panel, x, tables, top, C: tl.constexpr, LENGTH: tl.constexpr, dtype: tl.constexpr,
    flags: tl.constexpr,
):  # fmt: skip
    """Write the logits of M queries for the distances top, top - 1, ..., 0 (natural view); LENGTH
    keys to a panel."""
    r = tl.arange(0, flags.M)
    W: tl.constexpr = LENGTH + flags.M
    for c0 in range(0, tl.minimum(W, top + 1), C):
        c = c0 + tl.arange(0, C)
        e = load_table(tables.table, top - c, tables.low, tables.high, flags.D)
        cells = tl.dot(x, tl.trans(e), input_precision=flags.PRECISION).to(dtype)
        tl.store(panel + 1 + r[:, None] * (W + 1) + c[None, :], cells)


@triton.jit
def read_panel(panel, x0, LENGTH: tl.constexpr, flags: tl.constexpr):
    """The logits of M queries for the keys x0..x0+N-1 of the panel's (skewed view)."""
    r = tl.arange(0, flags.M)
    x = x0 + tl.arange(0, flags.N)
    return tl.load(panel + flags.M + r[:, None] * (LENGTH + flags.M) + x[None, :]).to(tl.float32)


@triton.jit
def same_for_all(far, flags: tl.constexpr):
    """The relative logits of a FAR tile."""
    return tl.zeros([flags.M, flags.N], tl.float32) + far[:, None]


@triton.jit
def key_range(first, p0, high, flags: tl.constexpr):
    """The first key to look at and the first that is not FAR for all, whole tiles before p0; keys
    before 0 may be among them."""
    first = p0 + tl.minimum(floor_div(first - p0, flags.N), 0) * flags.N
    near = first + tl.maximum(p0 - high + 1 - first, 0) // flags.N * flags.N
    return first, near
