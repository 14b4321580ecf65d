"""The backward passes of plan A: over queries (dq and the tables) and over keys (dk and dv).

The algebra is that of attention/fused/gather.py.
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
    load_vector,
    logits,
    mask_cells,
    store_rows,
    table_row,
)
from musictx.attention.fused.gather import (
    distance_chunk,
    lower_half,
    skew,
    tiles_before,
)


@triton.jit
def query_tile(
    dq,
    hi,
    before,
    far,
    far_sum,
    q,
    do,
    log,
    delta,
    k_base,
    v_base,
    table,
    bias,
    dtable,
    dbias,
    factor,
    firsts,
    columns_random,
    first_query,
    row_random,
    j0,
    p0,
    kt,
    vt,
    TK,
    low,
    high,
    scale,
    threshold,
    inverse_share,
    D: tl.constexpr,
    T: tl.constexpr,
    TABLE: tl.constexpr,
    BIAS: tl.constexpr,
    BIAS_GRADIENT: tl.constexpr,
    PACKED: tl.constexpr,
    EDGE: tl.constexpr,
    DROP: tl.constexpr,
    FIXED: tl.constexpr,
    SKEW: tl.constexpr,
    PRECISION: tl.constexpr,
    KIND: tl.constexpr,
):
    """What the keys j0..j0+T-1 add to dq (before scaling) and to the gradients of the tables.

    ``hi`` is R_k; ``before`` the dS of the tile before, by distance; ``far_sum`` adds up dS of
    clipped distances, which all belong to the last row.
    """
    t = tl.arange(0, T)
    k = load_rows(k_base, j0, TK, kt, T, D)
    v = load_rows(v_base, j0, TK, vt, T, D)
    start = 0.0
    if TABLE:
        if KIND == FAR:
            start = tl.zeros([T, T], tl.float32) + far[:, None]
        elif KIND == NEAR:
            chunk = distance_chunk(table, p0 - j0 - T, low, high, T, D)
            lo = tl.dot(q, tl.trans(chunk), input_precision=PRECISION).to(SKEW)
            start = skew(tl.where(lower_half(p0 - j0, T), hi, lo), p0 - j0, T).to(tl.float32)
            hi = lo
        else:
            start = skew(hi, p0 - j0, T).to(tl.float32)
    rows = p0 + t
    columns = j0 + t
    step = scale
    if BIAS:
        step = 1.0
    s = logits(q, k, start, bias, rows, columns, low, high, scale, TABLE, BIAS, KIND, PRECISION)
    first_key = columns
    if PACKED:
        first_key = load_vector(firsts, j0, TK, -1, T)
    p = mask_cells(
        tl.exp2(s * step - log[:, None]),
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
        keep = kept(row_random, load_vector(columns_random, j0, TK, 0, T), threshold)
        dp = tl.where(keep, dp * inverse_share, 0.0)
    exact = p * (dp - delta[:, None])
    ds = exact.to(q.dtype)
    dq = tl.dot(ds, k, dq, input_precision=PRECISION)
    if TABLE or BIAS_GRADIENT:
        if KIND == FAR:
            far_sum += tl.sum(exact, 1)
        else:
            by_distance = skew(ds, p0 - j0, T)
            full = tl.where(lower_half(p0 - j0, T), by_distance, before)
            before = by_distance
            row = table_row(p0 - j0 + t, low, high)
            if TABLE:
                chunk = distance_chunk(table, p0 - j0, low, high, T, D)
                dq = tl.dot(full, chunk, dq, input_precision=PRECISION)
                gradient = tl.dot(tl.trans(full), q, input_precision=PRECISION)
                add_to_rows(dtable, row, gradient, factor, D, FIXED)
            if BIAS_GRADIENT:
                add(dbias + row, tl.sum(full.to(tl.float32), 0), factor, FIXED)
    return dq, hi, before, far_sum


@triton.jit(do_not_specialize=PLAIN_NUMBERS)
def backward_query(
    Q, K, V, E, BIASES, FIRST_QUERY, FIRST_KEY, ROW_RANDOM, COLUMN_RANDOM, DO, LSE, DELTA, FACTOR,
    DQ, DE, DBIAS,
    qb, qh, qt, kb, kh, kt, vb, vh, vt, gb, gh, gt, db, dh, dt, eh, bh_bias,
    H, TQ, TK, low, high, slots, scale, natural, threshold, inverse_share,
    D: tl.constexpr, T: tl.constexpr, TABLE: tl.constexpr, BIAS: tl.constexpr,
    BIAS_GRADIENT: tl.constexpr, PACKED: tl.constexpr, EDGE: tl.constexpr, DROP: tl.constexpr,
    FIXED: tl.constexpr, SKEW: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Gradient of T queries of one (batch row, head), and their share of the tables'."""
    blocks = tl.cdiv(TQ, T)
    i0 = (blocks - 1 - tl.program_id(0) % blocks) * T
    bh = (tl.program_id(0) // blocks).to(tl.int64)
    b = bh // H
    h = bh % H
    p0 = TK - TQ + i0
    t = tl.arange(0, T)
    q = load_rows(Q + b * qb + h * qh, i0, TQ, qt, T, D)
    do = load_rows(DO + b * gb + h * gh, i0, TQ, gt, T, D)
    log = load_vector(LSE + bh * TQ, i0, TQ, BIG, T)
    delta = load_vector(DELTA + bh * TQ, i0, TQ, 0.0, T)
    k_base = K + b * kb + h * kh
    v_base = V + b * vb + h * vh
    table = E + h * eh
    bias = BIASES + h * bh_bias
    slot = bh % slots
    dtable = DE + slot * (high - low + 1) * D
    dbias = DBIAS + slot * (high - low + 1)
    factor = 1.0
    if FIXED:
        factor = tl.load(FACTOR)
    firsts = FIRST_KEY + b * TK
    columns_random = COLUMN_RANDOM + bh * TK
    first_query = t
    if PACKED:
        first_query = load_vector(FIRST_QUERY + b * TQ, i0, TQ, TK, T)
    row_random = first_query
    if DROP:
        row_random = load_vector(ROW_RANDOM + bh * TQ, i0, TQ, 0, T)
    tiles, far_tiles = tiles_before(p0, first_query, high, T, PACKED, TABLE or BIAS)

    dq = tl.zeros([T, D], tl.float32)
    far_sum = tl.zeros([T], tl.float32)
    far = far_sum
    hi = far
    before = far
    last = far
    if TABLE:
        last = tl.load(table + (high - low) * D + tl.arange(0, D)).to(tl.float32)
        far = tl.sum(q.to(tl.float32) * last[None, :], 1)
        chunk = distance_chunk(table, (tiles - far_tiles) * T, low, high, T, D)
        hi = tl.dot(q, tl.trans(chunk), input_precision=PRECISION).to(SKEW)
    if TABLE or BIAS_GRADIENT:
        before = tl.zeros([T, T], q.dtype)
    if TABLE or BIAS:
        for n in range(0, far_tiles):
            dq, hi, before, far_sum = query_tile(
                dq, hi, before, far, far_sum, q, do, log, delta, k_base, v_base, table, bias,
                dtable, dbias, factor, firsts, columns_random, first_query, row_random,
                p0 - (tiles - n) * T, p0, kt, vt, TK, low, high, scale, threshold,
                inverse_share, D, T, TABLE, BIAS, BIAS_GRADIENT, PACKED, EDGE, DROP, FIXED, SKEW,
                PRECISION, FAR,
            )  # fmt: skip
    for n in range(far_tiles, tiles):
        dq, hi, before, far_sum = query_tile(
            dq, hi, before, far, far_sum, q, do, log, delta, k_base, v_base, table, bias,
            dtable, dbias, factor, firsts, columns_random, first_query, row_random,
            p0 - (tiles - n) * T, p0, kt, vt, TK, low, high, scale, threshold,
            inverse_share, D, T, TABLE, BIAS, BIAS_GRADIENT, PACKED, EDGE, DROP, FIXED, SKEW,
            PRECISION, NEAR,
        )  # fmt: skip
    dq, hi, before, far_sum = query_tile(
        dq, hi, before, far, far_sum, q, do, log, delta, k_base, v_base, table, bias,
        dtable, dbias, factor, firsts, columns_random, first_query, row_random,
        p0, p0, kt, vt, TK, low, high, scale, threshold,
        inverse_share, D, T, TABLE, BIAS, BIAS_GRADIENT, PACKED, EDGE, DROP, FIXED, SKEW,
        PRECISION, DIAGONAL,
    )  # fmt: skip
    if TABLE or BIAS_GRADIENT:  # noqa: SIM102 (the outer one is decided when compiling)
        if far_tiles > 0:
            row = high - low
            if TABLE:
                dq += far_sum[:, None] * last[None, :]
                gradient = tl.sum(far_sum[:, None] * q.to(tl.float32), 0)
                add(dtable + row * D + tl.arange(0, D), gradient, factor, FIXED)
            if BIAS_GRADIENT:
                add(dbias + row, tl.sum(far_sum), factor, FIXED)
    store_rows(DQ + b * db + h * dh, i0, TQ, dt, dq * natural, T, D)


@triton.jit
def key_tile(
    dk,
    dv,
    k,
    v,
    last,
    q_base,
    do_base,
    logs,
    deltas,
    table,
    bias,
    firsts,
    rows_random,
    first_key,
    column_random,
    m,
    j0,
    qt,
    gt,
    TQ,
    TK,
    low,
    high,
    scale,
    threshold,
    inverse_share,
    D: tl.constexpr,
    T: tl.constexpr,
    TABLE: tl.constexpr,
    BIAS: tl.constexpr,
    PACKED: tl.constexpr,
    DROP: tl.constexpr,
    SKEW: tl.constexpr,
    PRECISION: tl.constexpr,
    KIND: tl.constexpr,
):
    """What the T queries from position j0 + mT add to dk (before scaling) and dv."""
    t = tl.arange(0, T)
    p0 = j0 + m * T
    i0 = p0 - (TK - TQ)
    q = load_rows(q_base, i0, TQ, qt, T, D)
    start = 0.0
    if TABLE:
        if KIND == FAR:
            far = tl.sum(q.to(tl.float32) * last[None, :], 1)
            start = tl.zeros([T, T], tl.float32) + far[:, None]
        else:
            chunk = distance_chunk(table, m * T, low, high, T, D)
            y = tl.dot(q, tl.trans(chunk), input_precision=PRECISION).to(SKEW)
            if KIND == NEAR:
                chunk = distance_chunk(table, m * T - T, low, high, T, D)
                lo = tl.dot(q, tl.trans(chunk), input_precision=PRECISION).to(SKEW)
                y = tl.where(lower_half(m * T, T), y, lo)
            start = skew(y, m * T, T).to(tl.float32)
    rows = p0 + t
    columns = j0 + t
    step = scale
    if BIAS:
        step = 1.0
    s = logits(q, k, start, bias, rows, columns, low, high, scale, TABLE, BIAS, KIND, PRECISION)
    first_query = rows
    if PACKED:
        first_query = load_vector(firsts, i0, TQ, -2, T)
    log = load_vector(logs, i0, TQ, BIG, T)
    p = mask_cells(
        tl.exp2(s * step - log[:, None]),
        0.0,
        rows,
        columns,
        first_query,
        first_key,
        KIND == DIAGONAL,
        False,
        PACKED,
    )
    do = load_rows(do_base, i0, TQ, gt, T, D)
    dp = tl.dot(do, tl.trans(v), input_precision=PRECISION)
    if DROP:
        keep = kept(load_vector(rows_random, i0, TQ, 0, T), column_random, threshold)
        dp = tl.where(keep, dp * inverse_share, 0.0)
        dropped = tl.where(keep, p * inverse_share, 0.0).to(do.dtype)
        dv = tl.dot(tl.trans(dropped), do, dv, input_precision=PRECISION)
    else:
        dv = tl.dot(tl.trans(p.to(do.dtype)), do, dv, input_precision=PRECISION)
    delta = load_vector(deltas, i0, TQ, 0.0, T)
    ds = (p * (dp - delta[:, None])).to(q.dtype)
    dk = tl.dot(tl.trans(ds), q, dk, input_precision=PRECISION)
    return dk, dv


@triton.jit(do_not_specialize=PLAIN_NUMBERS)
def backward_key(
    Q, K, V, E, BIASES, FIRST_QUERY, FIRST_KEY, LAST_QUERY, ROW_RANDOM, COLUMN_RANDOM, DO, LSE,
    DELTA, DK, DV,
    qb, qh, qt, kb, kh, kt, vb, vh, vt, gb, gh, gt, db, dh, dt, wb, wh, wt, eh, bh_bias,
    H, TQ, TK, low, high, scale, natural, threshold, inverse_share,
    D: tl.constexpr, T: tl.constexpr, TABLE: tl.constexpr, BIAS: tl.constexpr,
    PACKED: tl.constexpr, DROP: tl.constexpr, SKEW: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Gradients of T keys and values of one (batch row, head): they see no earlier query."""
    blocks = tl.cdiv(TK, T)
    j0 = (tl.program_id(0) % blocks) * T  # early keys have the most queries: first
    bh = (tl.program_id(0) // blocks).to(tl.int64)
    b = bh // H
    h = bh % H
    k = load_rows(K + b * kb + h * kh, j0, TK, kt, T, D)
    v = load_rows(V + b * vb + h * vh, j0, TK, vt, T, D)
    q_base = Q + b * qb + h * qh
    do_base = DO + b * gb + h * gh
    logs = LSE + bh * TQ
    deltas = DELTA + bh * TQ
    table = E + h * eh
    bias = BIASES + h * bh_bias
    firsts = FIRST_QUERY + b * TQ
    rows_random = ROW_RANDOM + bh * TQ
    first_key = tl.arange(0, T)
    end = TQ
    if PACKED:
        first_key = load_vector(FIRST_KEY + b * TK, j0, TK, -1, T)
        end = tl.max(load_vector(LAST_QUERY + b * TK, j0, TK, -1, T)) + 1
    column_random = first_key
    if DROP:
        column_random = load_vector(COLUMN_RANDOM + bh * TK, j0, TK, 0, T)
    last = tl.zeros([D], tl.float32)
    if TABLE:
        last = tl.load(table + (high - low) * D + tl.arange(0, D)).to(tl.float32)

    # The tile of queries at position j0 + mT begins with query j0 + mT - before.
    before = TK - TQ
    first = tl.maximum(before - j0, 0) // T
    stop = tl.maximum(tl.cdiv(end + before - j0, T), 0)
    middle = stop
    if TABLE or BIAS:
        middle = tl.minimum(tl.maximum(tl.cdiv(high + T - 1, T), 1), stop)
    dk = tl.zeros([T, D], tl.float32)
    dv = tl.zeros([T, D], tl.float32)
    for m in range(first, tl.minimum(stop, 1)):
        dk, dv = key_tile(
            dk, dv, k, v, last, q_base, do_base, logs, deltas, table, bias, firsts, rows_random,
            first_key, column_random, m, j0, qt, gt, TQ, TK, low, high, scale, threshold,
            inverse_share, D, T, TABLE, BIAS, PACKED, DROP, SKEW, PRECISION, DIAGONAL,
        )  # fmt: skip
    for m in range(tl.maximum(first, 1), middle):
        dk, dv = key_tile(
            dk, dv, k, v, last, q_base, do_base, logs, deltas, table, bias, firsts, rows_random,
            first_key, column_random, m, j0, qt, gt, TQ, TK, low, high, scale, threshold,
            inverse_share, D, T, TABLE, BIAS, PACKED, DROP, SKEW, PRECISION, NEAR,
        )  # fmt: skip
    if TABLE or BIAS:
        for m in range(tl.maximum(first, middle), stop):
            dk, dv = key_tile(
                dk, dv, k, v, last, q_base, do_base, logs, deltas, table, bias, firsts,
                rows_random, first_key, column_random, m, j0, qt, gt, TQ, TK, low, high, scale,
                threshold, inverse_share, D, T, TABLE, BIAS, PACKED, DROP, SKEW, PRECISION, FAR,
            )  # fmt: skip
    store_rows(DK + b * db + h * dh, j0, TK, dt, dk * natural, T, D)
    store_rows(DV + b * wb + h * wh, j0, TK, wt, dv, T, D)
