"""The backward passes of plan B: over queries (dq and the table) and over keys (dk and dv).

The panels are those of attention/fused/panel.py.
"""

import triton
import triton.language as tl

from musictx.attention.fused.common import (
    BIG,
    DIAGONAL,
    FAR,
    NEAR,
    PLAIN_NUMBERS,
    add,
    add_to_rows,
    kept,
    load_rows,
    load_table,
    load_vector,
    logits,
    mask_cells,
    store_rows,
    table_row,
)
from musictx.attention.fused.panel import (
    fill_panel,
    key_range,
    read_panel,
)


@triton.jit
def gradient_tile(
    dq,
    relative,
    q,
    do,
    log,
    delta,
    k_base,
    v_base,
    firsts,
    columns_random,
    first_query,
    row_random,
    j0,
    p0,
    kt,
    vt,
    TK,
    scale,
    threshold,
    inverse_share,
    D: tl.constexpr,
    M: tl.constexpr,
    N: tl.constexpr,
    PACKED: tl.constexpr,
    EDGE: tl.constexpr,
    DROP: tl.constexpr,
    PRECISION: tl.constexpr,
    KIND: tl.constexpr,
):
    """dq with the share of the keys j0..j0+N-1, and the gradient of their logits (float32)."""
    rows = p0 + tl.arange(0, M)
    columns = j0 + tl.arange(0, N)
    k = load_rows(k_base, j0, TK, kt, N, D)
    v = load_rows(v_base, j0, TK, vt, N, D)
    s = logits(q, k, relative, 0, rows, columns, 0, 0, scale, True, False, KIND, PRECISION)
    first_key = columns
    if PACKED:
        first_key = load_vector(firsts, j0, TK, -1, N)
    p = mask_cells(
        tl.exp2(s * scale - log[:, None]),
        0.0,
        rows,
        columns,
        first_query,
        first_key,
        KIND == DIAGONAL,
        EDGE,
        PACKED,
    )
    dp = tl.dot(do, tl.trans(v), input_precision=PRECISION)
    if DROP:
        keep = kept(row_random, load_vector(columns_random, j0, TK, 0, N), threshold)
        dp = tl.where(keep, dp * inverse_share, 0.0)
    ds = p * (dp - delta[:, None])
    dq = tl.dot(ds.to(q.dtype), k, dq, input_precision=PRECISION)
    return dq, ds


@triton.jit(do_not_specialize=PLAIN_NUMBERS)
def backward_query(
    Q, K, V, E, FIRST_QUERY, FIRST_KEY, ROW_RANDOM, COLUMN_RANDOM, PANEL, GRADIENTS, DO, LSE,
    DELTA, FACTOR, DQ, DE,
    qb, qh, qt, kb, kh, kt, vb, vh, vt, gb, gh, gt, db, dh, dt, eh,
    BH, H, TQ, TK, low, high, slots, scale, natural, threshold, inverse_share,
    D: tl.constexpr, M: tl.constexpr, N: tl.constexpr, C: tl.constexpr, SEGMENT: tl.constexpr,
    PACKED: tl.constexpr, EDGE: tl.constexpr, DROP: tl.constexpr, FIXED: tl.constexpr,
    SKEW: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Gradient of M queries at a time, and their share of the table's."""
    blocks = tl.cdiv(TQ, M)
    W: tl.constexpr = SEGMENT + M
    size: tl.constexpr = M * (W + 1) + 2 * M
    panel = PANEL + tl.program_id(0).to(tl.int64) * size
    gradients = GRADIENTS + tl.program_id(0).to(tl.int64) * size
    r = tl.arange(0, M)
    factor = 1.0
    if FIXED:
        factor = tl.load(FACTOR)
    for task in range(tl.program_id(0), blocks * BH, tl.num_programs(0)):
        i0 = (blocks - 1 - task % blocks) * M
        bh = tl.cast(task // blocks, tl.int64)
        b = bh // H
        h = bh % H
        p0 = TK - TQ + i0
        q = load_rows(Q + b * qb + h * qh, i0, TQ, qt, M, D)
        do = load_rows(DO + b * gb + h * gh, i0, TQ, gt, M, D)
        log = load_vector(LSE + bh * TQ, i0, TQ, BIG, M)
        delta = load_vector(DELTA + bh * TQ, i0, TQ, 0.0, M)
        k_base = K + b * kb + h * kh
        v_base = V + b * vb + h * vh
        table = E + h * eh
        dtable = DE + (bh % slots) * (high - low + 1) * D
        firsts = FIRST_KEY + b * TK
        columns_random = COLUMN_RANDOM + bh * TK
        first_query = r
        if PACKED:
            first_query = load_vector(FIRST_QUERY + b * TQ, i0, TQ, TK, M)
        row_random = first_query
        if DROP:
            row_random = load_vector(ROW_RANDOM + bh * TQ, i0, TQ, 0, M)
        first, near = key_range(p0, first_query, high, N, PACKED)
        dq = tl.zeros([M, D], tl.float32)

        last = tl.load(table + (high - low) * D + tl.arange(0, D)).to(tl.float32)
        far = tl.sum(q.to(tl.float32) * last[None, :], 1)
        far_sum = tl.zeros([M], tl.float32)
        for j0 in range(first, near, N):
            relative = tl.zeros([M, N], tl.float32) + far[:, None]
            dq, ds = gradient_tile(
                dq, relative, q, do, log, delta, k_base, v_base, firsts, columns_random,
                first_query, row_random, j0, p0, kt, vt, TK, scale, threshold, inverse_share,
                D, M, N, PACKED, EDGE, DROP, PRECISION, FAR,
            )  # fmt: skip
            far_sum += tl.sum(ds, 1)
        if near > first:
            dq += far_sum[:, None] * last[None, :]
            gradient = tl.sum(far_sum[:, None] * q.to(tl.float32), 0)
            add(dtable + (high - low) * D + tl.arange(0, D), gradient, factor, FIXED)

        for s0 in range(near, p0 + M, SEGMENT):
            top = p0 + M - 1 - s0
            end = tl.minimum(s0 + SEGMENT, p0 + M)
            full = tl.maximum(tl.minimum(p0, end), s0)
            tl.debug_barrier()
            fill_panel(panel, q, table, top, low, high, D, M, C, SEGMENT, SKEW, PRECISION)
            tl.debug_barrier()
            for j0 in range(s0, full, N):
                relative = read_panel(panel, j0 - s0, M, N, SEGMENT)
                dq, ds = gradient_tile(
                    dq, relative, q, do, log, delta, k_base, v_base, firsts, columns_random,
                    first_query, row_random, j0, p0, kt, vt, TK, scale, threshold, inverse_share,
                    D, M, N, PACKED, EDGE, DROP, PRECISION, NEAR,
                )  # fmt: skip
                x = j0 - s0 + tl.arange(0, N)
                place = gradients + (M - 1) + r[:, None] * (W - 1) + x[None, :]
                tl.store(place, ds.to(q.dtype))
            for j0 in range(full, end, N):
                relative = read_panel(panel, j0 - s0, M, N, SEGMENT)
                dq, ds = gradient_tile(
                    dq, relative, q, do, log, delta, k_base, v_base, firsts, columns_random,
                    first_query, row_random, j0, p0, kt, vt, TK, scale, threshold, inverse_share,
                    D, M, N, PACKED, EDGE, DROP, PRECISION, DIAGONAL,
                )  # fmt: skip
                x = j0 - s0 + tl.arange(0, N)
                place = gradients + (M - 1) + r[:, None] * (W - 1) + x[None, :]
                tl.store(place, ds.to(q.dtype))
            tl.debug_barrier()
            for c0 in range(0, tl.minimum(W, top + 1), C):
                c = c0 + tl.arange(0, C)
                full_ds = tl.load(gradients + r[:, None] * W + c[None, :])
                e = load_table(table, top - c, low, high, D)
                dq = tl.dot(full_ds, e, dq, input_precision=PRECISION)
                gradient = tl.dot(tl.trans(full_ds), q, input_precision=PRECISION)
                row = table_row(top - c, low, high)
                add_to_rows(dtable, row, gradient, factor, D, FIXED)
        store_rows(DQ + b * db + h * dh, i0, TQ, dt, dq * natural, M, D)


@triton.jit
def key_tile(
    dk,
    dv,
    relative,
    k,
    v,
    q,
    do_base,
    logs,
    deltas,
    firsts,
    rows_random,
    first_key,
    column_random,
    i0,
    j0,
    gt,
    TQ,
    TK,
    scale,
    threshold,
    inverse_share,
    D: tl.constexpr,
    M: tl.constexpr,
    N: tl.constexpr,
    PACKED: tl.constexpr,
    DROP: tl.constexpr,
    PRECISION: tl.constexpr,
    KIND: tl.constexpr,
):
    """What the queries i0..i0+M-1 add to dk (before scaling) and dv."""
    rows = TK - TQ + i0 + tl.arange(0, M)
    columns = j0 + tl.arange(0, N)
    s = logits(q, k, relative, 0, rows, columns, 0, 0, scale, True, False, KIND, PRECISION)
    first_query = rows
    if PACKED:
        first_query = load_vector(firsts, i0, TQ, -2, M)
    log = load_vector(logs, i0, TQ, BIG, M)
    p = mask_cells(
        tl.exp2(s * scale - log[:, None]),
        0.0,
        rows,
        columns,
        first_query,
        first_key,
        KIND == DIAGONAL,
        False,
        PACKED,
    )
    do = load_rows(do_base, i0, TQ, gt, M, D)
    dp = tl.dot(do, tl.trans(v), input_precision=PRECISION)
    if DROP:
        keep = kept(load_vector(rows_random, i0, TQ, 0, M), column_random, threshold)
        dp = tl.where(keep, dp * inverse_share, 0.0)
        dropped = tl.where(keep, p * inverse_share, 0.0).to(do.dtype)
        dv = tl.dot(tl.trans(dropped), do, dv, input_precision=PRECISION)
    else:
        dv = tl.dot(tl.trans(p.to(do.dtype)), do, dv, input_precision=PRECISION)
    delta = load_vector(deltas, i0, TQ, 0.0, M)
    ds = (p * (dp - delta[:, None])).to(q.dtype)
    dk = tl.dot(tl.trans(ds), q, dk, input_precision=PRECISION)
    return dk, dv


@triton.jit(do_not_specialize=PLAIN_NUMBERS)
def backward_key(
    Q, K, V, E, FIRST_QUERY, FIRST_KEY, LAST_QUERY, ROW_RANDOM, COLUMN_RANDOM, PANEL, DO, LSE,
    DELTA, DK, DV,
    qb, qh, qt, kb, kh, kt, vb, vh, vt, gb, gh, gt, db, dh, dt, wb, wh, wt, eh,
    BH, H, TQ, TK, low, high, scale, natural, threshold, inverse_share,
    D: tl.constexpr, M: tl.constexpr, N: tl.constexpr, C: tl.constexpr, SEGMENT: tl.constexpr,
    PACKED: tl.constexpr, DROP: tl.constexpr, SKEW: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Gradients of N keys and values at a time. Here each M queries have a panel of their own, of a
    segment of N keys; SEGMENT queries are filled before they are read."""
    blocks = tl.cdiv(TK, N)
    size: tl.constexpr = M * (N + M + 1) + 2 * M
    panel = PANEL + tl.program_id(0).to(tl.int64) * (SEGMENT // M * size)
    before = TK - TQ
    for task in range(tl.program_id(0), blocks * BH, tl.num_programs(0)):
        j0 = (task % blocks) * N  # early keys have the most queries: first
        bh = tl.cast(task // blocks, tl.int64)
        b = bh // H
        h = bh % H
        k = load_rows(K + b * kb + h * kh, j0, TK, kt, N, D)
        v = load_rows(V + b * vb + h * vh, j0, TK, vt, N, D)
        q_base = Q + b * qb + h * qh
        do_base = DO + b * gb + h * gh
        logs = LSE + bh * TQ
        deltas = DELTA + bh * TQ
        table = E + h * eh
        firsts = FIRST_QUERY + b * TQ
        rows_random = ROW_RANDOM + bh * TQ
        first_key = tl.arange(0, N)
        end = TQ
        if PACKED:
            first_key = load_vector(FIRST_KEY + b * TK, j0, TK, -1, N)
            end = tl.max(load_vector(LAST_QUERY + b * TK, j0, TK, -1, N)) + 1
        column_random = first_key
        if DROP:
            column_random = load_vector(COLUMN_RANDOM + bh * TK, j0, TK, 0, N)
        last = tl.load(table + (high - low) * D + tl.arange(0, D)).to(tl.float32)
        first = tl.maximum(j0 - before, 0) // M * M
        beyond = tl.maximum(high + j0 + N - 1 - before - first, 0)
        middle = tl.minimum(first + tl.cdiv(beyond, M) * M, tl.maximum(end, first))
        dk = tl.zeros([N, D], tl.float32)
        dv = tl.zeros([N, D], tl.float32)
        for t0 in range(first, middle, SEGMENT):
            stop = tl.minimum(t0 + SEGMENT, middle)
            tl.debug_barrier()
            for i0 in range(t0, stop, M):
                q = load_rows(q_base, i0, TQ, qt, M, D)
                here = panel + (i0 - t0) // M * size
                top = before + i0 + M - 1 - j0
                fill_panel(here, q, table, top, low, high, D, M, C, N, SKEW, PRECISION)
            tl.debug_barrier()
            for i0 in range(t0, stop, M):
                q = load_rows(q_base, i0, TQ, qt, M, D)
                relative = read_panel(panel + (i0 - t0) // M * size, 0, M, N, N)
                dk, dv = key_tile(
                    dk, dv, relative, k, v, q, do_base, logs, deltas, firsts, rows_random,
                    first_key, column_random, i0, j0, gt, TQ, TK, scale, threshold,
                    inverse_share, D, M, N, PACKED, DROP, PRECISION, DIAGONAL,
                )  # fmt: skip
        for i0 in range(middle, end, M):
            q = load_rows(q_base, i0, TQ, qt, M, D)
            far = tl.sum(q.to(tl.float32) * last[None, :], 1)
            relative = tl.zeros([M, N], tl.float32) + far[:, None]
            dk, dv = key_tile(
                dk, dv, relative, k, v, q, do_base, logs, deltas, firsts, rows_random,
                first_key, column_random, i0, j0, gt, TQ, TK, scale, threshold,
                inverse_share, D, M, N, PACKED, DROP, PRECISION, FAR,
            )  # fmt: skip
        store_rows(DK + b * db + h * dh, j0, TK, dt, dk * natural, N, D)
        store_rows(DV + b * wb + h * wh, j0, TK, wt, dv, N, D)
