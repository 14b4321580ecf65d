"""The forward pass of plan B; the panels are those of fused/panel/skew.py."""

import triton
import triton.language as tl

from musictx.attention.fused.common import (
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
from musictx.attention.fused.panel.skew import fill_panel, key_range, read_panel, same_for_all
from musictx.attention.fused.tile import absorb, finish, keys_seen


@triton.jit
def forward_tile(
    soft, queries, key_base, relative, tables, j0, numbers, flags: tl.constexpr, KIND: tl.constexpr
):
    """Take in the keys j0..j0+N-1 whose relative logits are ``relative``."""
    keys = load_keys(key_base, j0, flags)
    soft, _, _ = absorb(soft, queries, keys, relative, tables, 0, numbers, flags, KIND)
    return soft


@triton.jit(do_not_specialize=PLAIN_NUMBERS)
def forward(
    Q, P, K, V, E, QUERY_CODES, KEY_CODES, KEY_FIRST, ROW_RANDOM, COLUMN_RANDOM, PANEL, OUT, LSE,
    qb, qh, qt, pb, ph, pt, kb, kh, kt, vb, vh, vt, ob, oh, ot, eh,
    BH, H, TQ, TK, low, high, scale, threshold, inverse_share,
    D: tl.constexpr, M: tl.constexpr, N: tl.constexpr, C: tl.constexpr, SEGMENT: tl.constexpr,
    POSITION: tl.constexpr, PACKED: tl.constexpr, LOCAL: tl.constexpr, EDGE: tl.constexpr,
    DROP: tl.constexpr, SKEW: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Output and log of the sum of weights of M queries of one (batch row, head) after another."""
    flags: tl.constexpr = Flags(
        D, M, N, True, False, False, POSITION, True, PACKED, LOCAL, EDGE, DROP, SKEW, PRECISION
    )
    blocks = tl.cdiv(TQ, M)
    size: tl.constexpr = M * (SEGMENT + M + 1) + 2 * M
    panel = PANEL + tl.program_id(0).to(tl.int64) * size
    numbers = Numbers(scale, threshold, inverse_share)
    for task in range(tl.program_id(0), blocks * BH, tl.num_programs(0)):
        i0 = (blocks - 1 - task % blocks) * M  # long rows first
        bh = tl.cast(task // blocks, tl.int64)
        b = bh // H
        h = bh % H
        p0 = TK - TQ + i0
        query_base = QueryBase(
            Q + b * qb + h * qh, P + b * pb + h * ph, Q, LSE, LSE, QUERY_CODES + b * TQ,
            ROW_RANDOM + bh * TQ, qt, pt, qt, TQ, TK - TQ,
        )  # fmt: skip
        key_base = KeyBase(
            K + b * kb + h * kh, V + b * vb + h * vh, KEY_CODES + b * TK, COLUMN_RANDOM + bh * TK,
            kt, vt, TK,
        )  # fmt: skip
        table = E + h * eh
        tables = Tables(table, table, table, low, high)
        queries = load_queries(query_base, i0, flags, False)
        first_keys = KEY_FIRST + b * TQ
        first, _ = keys_seen(first_keys, first_keys, i0, TQ, TK, p0, flags)
        first, near = key_range(first, p0, high, flags)
        soft = Softmax(
            tl.zeros([M, D], tl.float32), tl.full([M], -1e30, tl.float32), tl.zeros([M], tl.float32)
        )
        far = meet_row(queries.position, table, high - low, D)
        for j0 in range(first, near, N):
            relative = same_for_all(far, flags)
            soft = forward_tile(
                soft, queries, key_base, relative, tables, j0, numbers, flags, FAR
            )  # fmt: skip
        for s0 in range(near, p0 + M, SEGMENT):
            end = tl.minimum(s0 + SEGMENT, p0 + M)
            full = tl.maximum(tl.minimum(p0, end), s0)  # keys from here on may be later
            tl.debug_barrier()
            fill_panel(panel, queries.position, tables, p0 + M - 1 - s0, C, SEGMENT, SKEW, flags)
            tl.debug_barrier()
            for j0 in range(s0, full, N):
                relative = read_panel(panel, j0 - s0, SEGMENT, flags)
                soft = forward_tile(
                    soft, queries, key_base, relative, tables, j0, numbers, flags, NEAR
                )  # fmt: skip
            for j0 in range(full, end, N):
                relative = read_panel(panel, j0 - s0, SEGMENT, flags)
                soft = forward_tile(
                    soft, queries, key_base, relative, tables, j0, numbers, flags, DIAGONAL
                )  # fmt: skip
        finish(soft, OUT + b * ob + h * oh, LSE + bh * TQ, i0, TQ, ot, inverse_share, flags)
