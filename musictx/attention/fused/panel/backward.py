"""The backward passes of plan B: over queries (dq and the table) and over keys (dk and dv).

The panels are those of attention/fused/panel/skew.py.
"""

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
    Tables,
    add,
    add_to_rows,
    load_keys,
    load_queries,
    load_table,
    load_upstream,
    meet_row,
    store_rows,
    table_row,
)
from musictx.attention.fused.panel.skew import fill_panel, key_range, read_panel, same_for_all
from musictx.attention.fused.tile import (
    gradients,
    key_gradients,
    keys_seen,
    queries_seeing,
    weights,
)


@triton.jit
def query_tile(
    dq,
    upstream,
    queries,
    key_base,
    relative,
    tables,
    j0,
    numbers,
    flags: tl.constexpr,
    KIND: tl.constexpr,
):
    """dq with the share of the keys j0..j0+N-1, and the gradient of their logits (float32)."""
    keys = load_keys(key_base, j0, flags)
    p = weights(queries, keys, relative, tables, 0, numbers, flags, KIND)
    _, ds = gradients(p, upstream, queries, keys, 0.0, numbers, flags)
    dq = tl.dot(ds.to(queries.q.dtype), keys.k, dq, input_precision=flags.PRECISION)
    return dq, ds


@triton.jit
def panel_tile(
    dq, upstream, queries, key_base, panel, sink, tables, s0, j0, numbers, SEGMENT: tl.constexpr,
    flags: tl.constexpr, KIND: tl.constexpr,
):  # fmt: skip
    """The same where relative logits come from a panel; their gradient goes to the panel ``sink``
    (skewed view)."""
    relative = read_panel(panel, j0 - s0, SEGMENT, flags)
    dq, ds = query_tile(dq, upstream, queries, key_base, relative, tables, j0, numbers, flags, KIND)
    r = tl.arange(0, flags.M)
    x = j0 - s0 + tl.arange(0, flags.N)
    place = (flags.M - 1) + r[:, None] * (SEGMENT + flags.M - 1) + x[None, :]
    tl.store(sink + place, ds.to(queries.q.dtype))
    return dq


@triton.jit(do_not_specialize=PLAIN_NUMBERS)
def backward_query(
    Q, P, K, V, E, QUERY_CODES, KEY_CODES, KEY_FIRST, ROW_RANDOM, COLUMN_RANDOM, PANEL, GRADIENTS,
    DO, LSE, DELTA, FACTOR, DQ, DP, DE,
    qb, qh, qt, pb, ph, pt, kb, kh, kt, vb, vh, vt, gb, gh, gt, db, dh, dt, xb, xh, xt, eh,
    BH, H, TQ, TK, low, high, slots, scale, natural, threshold, inverse_share,
    D: tl.constexpr, M: tl.constexpr, N: tl.constexpr, C: tl.constexpr, SEGMENT: tl.constexpr,
    POSITION: tl.constexpr, PACKED: tl.constexpr, LOCAL: tl.constexpr, EDGE: tl.constexpr,
    DROP: tl.constexpr, FIXED: tl.constexpr, SKEW: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Gradient of M queries at a time, and their share of the table's."""
    flags: tl.constexpr = Flags(
        D, M, N, True, False, False, POSITION, True, PACKED, LOCAL, EDGE, DROP, SKEW, PRECISION
    )
    blocks = tl.cdiv(TQ, M)
    W: tl.constexpr = SEGMENT + M
    size: tl.constexpr = M * (W + 1) + 2 * M
    panel = PANEL + tl.program_id(0).to(tl.int64) * size
    sink = GRADIENTS + tl.program_id(0).to(tl.int64) * size
    r = tl.arange(0, M)
    factor = 1.0
    if FIXED:
        factor = tl.load(FACTOR)
    numbers = Numbers(scale, threshold, inverse_share)
    for task in range(tl.program_id(0), blocks * BH, tl.num_programs(0)):
        i0 = (blocks - 1 - task % blocks) * M
        bh = tl.cast(task // blocks, tl.int64)
        b = bh // H
        h = bh % H
        p0 = TK - TQ + i0
        query_base = QueryBase(
            Q + b * qb + h * qh, P + b * pb + h * ph, DO + b * gb + h * gh, LSE + bh * TQ,
            DELTA + bh * TQ, QUERY_CODES + b * TQ, ROW_RANDOM + bh * TQ, qt, pt, gt, TQ, TK - TQ,
        )  # fmt: skip
        key_base = KeyBase(
            K + b * kb + h * kh, V + b * vb + h * vh, KEY_CODES + b * TK, COLUMN_RANDOM + bh * TK,
            kt, vt, TK,
        )  # fmt: skip
        table = E + h * eh
        tables = Tables(table, table, table, low, high)
        dtable = DE + (bh % slots) * (high - low + 1) * D
        queries = load_queries(query_base, i0, flags, True)
        upstream = load_upstream(query_base, i0, flags)
        first_keys = KEY_FIRST + b * TQ
        first, _ = keys_seen(first_keys, first_keys, i0, TQ, TK, p0, flags)
        first, near = key_range(first, p0, high, flags)
        dq = tl.zeros([M, D], tl.float32)
        dposition = tl.zeros([M, D], tl.float32)

        far_sum = tl.zeros([M], tl.float32)
        far = meet_row(queries.position, table, high - low, D)
        for j0 in range(first, near, N):
            relative = same_for_all(far, flags)
            dq, ds = query_tile(
                dq, upstream, queries, key_base, relative, tables, j0, numbers, flags, FAR
            )  # fmt: skip
            far_sum += tl.sum(ds, 1)
        if near > first:
            d = (high - low) * D + tl.arange(0, D)
            dposition = far_sum[:, None] * tl.load(table + d).to(tl.float32)[None, :]
            gradient = tl.sum(far_sum[:, None] * queries.position.to(tl.float32), 0)
            add(dtable + d, gradient, factor, FIXED)
        if not POSITION:
            dq += dposition

        for s0 in range(near, p0 + M, SEGMENT):
            top = p0 + M - 1 - s0
            end = tl.minimum(s0 + SEGMENT, p0 + M)
            full = tl.maximum(tl.minimum(p0, end), s0)
            tl.debug_barrier()
            fill_panel(panel, queries.position, tables, top, C, SEGMENT, SKEW, flags)
            tl.debug_barrier()
            for j0 in range(s0, full, N):
                dq = panel_tile(
                    dq, upstream, queries, key_base, panel, sink, tables, s0, j0, numbers,
                    SEGMENT, flags, NEAR,
                )  # fmt: skip
            for j0 in range(full, end, N):
                dq = panel_tile(
                    dq, upstream, queries, key_base, panel, sink, tables, s0, j0, numbers,
                    SEGMENT, flags, DIAGONAL,
                )  # fmt: skip
            tl.debug_barrier()
            for c0 in range(0, tl.minimum(W, top + 1), C):
                c = c0 + tl.arange(0, C)
                ds = tl.load(sink + r[:, None] * W + c[None, :])
                e = load_table(table, top - c, low, high, D)
                if POSITION:
                    dposition = tl.dot(ds, e, dposition, input_precision=PRECISION)
                else:
                    dq = tl.dot(ds, e, dq, input_precision=PRECISION)
                gradient = tl.dot(tl.trans(ds), queries.position, input_precision=PRECISION)
                row = table_row(top - c, low, high)
                add_to_rows(dtable, row, gradient, factor, D, FIXED)
        store_rows(DQ + b * db + h * dh, i0, TQ, dt, dq * natural, M, D)
        if POSITION:
            store_rows(DP + b * xb + h * xh, i0, TQ, xt, dposition * natural, M, D)


@triton.jit(do_not_specialize=PLAIN_NUMBERS)
def backward_key(
    Q, P, K, V, E, QUERY_CODES, KEY_CODES, QUERY_STOP, ROW_RANDOM, COLUMN_RANDOM, PANEL, DO, LSE,
    DELTA, DK, DV,
    qb, qh, qt, pb, ph, pt, kb, kh, kt, vb, vh, vt, gb, gh, gt, db, dh, dt, wb, wh, wt, eh,
    BH, H, TQ, TK, low, high, scale, natural, threshold, inverse_share,
    D: tl.constexpr, M: tl.constexpr, N: tl.constexpr, C: tl.constexpr, SEGMENT: tl.constexpr,
    POSITION: tl.constexpr, PACKED: tl.constexpr, LOCAL: tl.constexpr, DROP: tl.constexpr,
    SKEW: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Gradients of N keys and values at a time. Here each M queries have a panel of their own, of a
    segment of N keys; SEGMENT queries are filled before they are read."""
    flags: tl.constexpr = Flags(
        D, M, N, True, False, False, POSITION, True, PACKED, LOCAL, False, DROP, SKEW, PRECISION
    )
    blocks = tl.cdiv(TK, N)
    size: tl.constexpr = M * (N + M + 1) + 2 * M
    panel = PANEL + tl.program_id(0).to(tl.int64) * (SEGMENT // M * size)
    offset = TK - TQ
    numbers = Numbers(scale, threshold, inverse_share)
    for task in range(tl.program_id(0), blocks * BH, tl.num_programs(0)):
        j0 = (task % blocks) * N  # early keys have the most queries: first
        bh = tl.cast(task // blocks, tl.int64)
        b = bh // H
        h = bh % H
        query_base = QueryBase(
            Q + b * qb + h * qh, P + b * pb + h * ph, DO + b * gb + h * gh, LSE + bh * TQ,
            DELTA + bh * TQ, QUERY_CODES + b * TQ, ROW_RANDOM + bh * TQ, qt, pt, gt, TQ, offset,
        )  # fmt: skip
        key_base = KeyBase(
            K + b * kb + h * kh, V + b * vb + h * vh, KEY_CODES + b * TK, COLUMN_RANDOM + bh * TK,
            kt, vt, TK,
        )  # fmt: skip
        table = E + h * eh
        tables = Tables(table, table, table, low, high)
        keys = load_keys(key_base, j0, flags)
        stop_queries = QUERY_STOP + b * TK
        first, stop = queries_seeing(stop_queries, stop_queries, j0, TQ, TK, offset, flags)
        first = first // M * M
        beyond = tl.maximum(high + j0 + N - 1 - offset - first, 0)
        middle = tl.minimum(first + tl.cdiv(beyond, M) * M, tl.maximum(stop, first))
        dk = tl.zeros([N, D], tl.float32)
        dv = tl.zeros([N, D], tl.float32)
        for t0 in range(first, middle, SEGMENT):
            upto = tl.minimum(t0 + SEGMENT, middle)
            tl.debug_barrier()
            for i0 in range(t0, upto, M):
                # Of a query that meets the table alone, no more is loaded.
                position = load_queries(query_base, i0, flags, False).position
                here = panel + (i0 - t0) // M * size
                fill_panel(here, position, tables, offset + i0 + M - 1 - j0, C, N, SKEW, flags)
            tl.debug_barrier()
            for i0 in range(t0, upto, M):
                queries = load_queries(query_base, i0, flags, True)
                relative = read_panel(panel + (i0 - t0) // M * size, 0, N, flags)
                p = weights(queries, keys, relative, tables, 0, numbers, flags, DIAGONAL)
                upstream = load_upstream(query_base, i0, flags)
                dk, dv = key_gradients(dk, dv, p, upstream, queries, keys, 0.0, numbers, flags)
        for i0 in range(middle, stop, M):
            queries = load_queries(query_base, i0, flags, True)
            relative = same_for_all(meet_row(queries.position, table, high - low, D), flags)
            p = weights(queries, keys, relative, tables, 0, numbers, flags, FAR)
            upstream = load_upstream(query_base, i0, flags)
            dk, dv = key_gradients(dk, dv, p, upstream, queries, keys, 0.0, numbers, flags)
        store_rows(DK + b * db + h * dh, j0, TK, dt, dk * natural, N, D)
        store_rows(DV + b * wb + h * wh, j0, TK, wt, dv, N, D)
