"""Plan A of the fused kernel: square tiles, relative logits skewed by one gather in registers.

Let R_k = Q_block . (rows kT..kT+T-1 of the table)^T, for a tile of T queries and T keys whose first
query stands delta = kT after its first key. The distance of cell (r, c) is delta + r - c, so

    Y[r, w] = R_k[r, w] if w <= r else R_{k-1}[r, w],     relative[r, c] = Y[r, (r - c) mod T]

As keys ascend, R_{k-1} of one tile is R_k of the next: one product a tile, none wasted. The gather
is its own inverse, so the backward pass takes dS apart with the same gather: the complete gradient
of R_k has the w <= r of this tile and the w > r of the tile before. The softmax is that of
FlashAttention (Dao 2023); nothing of size length x length is ever in memory.

Tiles are laid so that every delta is a multiple of T; only the tile with delta = 0 has later keys.
"""

import triton
import triton.language as tl

from musictx.attention.fused.common import (
    BIG,
    DIAGONAL,
    FAR,
    NEAR,
    PLAIN_NUMBERS,
    absorb,
    add,
    add_to_rows,
    finish,
    kept,
    load_rows,
    load_table,
    load_vector,
    logits,
    mask_cells,
    store_rows,
    table_row,
)


@triton.jit
def skew(x, delta, T: tl.constexpr):
    """x[r, (r - c) mod T]: relative logits by distance -> by key, and back.

    ``delta`` is a multiple of T and so changes nothing; it ties the T x T indices to the loop, or
    the compiler would keep them in registers from before it.
    """
    t = tl.arange(0, T)
    return tl.gather(x, ((t + delta)[:, None] - t[None, :]) & (T - 1), 1)


@triton.jit
def distance_chunk(base, delta, low, high, T: tl.constexpr, D: tl.constexpr):
    """Rows of the table for the distances delta..delta+T-1."""
    return load_table(base, delta + tl.arange(0, T), low, high, D)


@triton.jit
def lower_half(delta, T: tl.constexpr):
    """Cells (r, w) with w <= r; for ``delta`` see :func:`skew`."""
    t = tl.arange(0, T)
    return (t + delta)[None, :] <= (t + delta)[:, None]


@triton.jit
def tiles_before(
    p0, first_query, high, T: tl.constexpr, PACKED: tl.constexpr, RELATIVE: tl.constexpr
):  # fmt: skip
    """How many tiles there are before the diagonal one, and how many of them are FAR."""
    first = 0
    if PACKED:
        first = tl.minimum(tl.min(first_query), p0)
    tiles = tl.cdiv(p0 - first, T)
    far = 0
    if RELATIVE:
        far = tl.maximum(tiles + 1 - tl.cdiv(high + T - 1, T), 0)
        far = tl.minimum(far, tiles)
    return tiles, far


@triton.jit
def forward_tile(
    acc,
    top,
    total,
    hi,
    far,
    q,
    k_base,
    v_base,
    table,
    bias,
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
    D: tl.constexpr,
    T: tl.constexpr,
    TABLE: tl.constexpr,
    BIAS: tl.constexpr,
    PACKED: tl.constexpr,
    EDGE: tl.constexpr,
    DROP: tl.constexpr,
    SKEW: tl.constexpr,
    PRECISION: tl.constexpr,
    KIND: tl.constexpr,
):
    """Take in the keys j0..j0+T-1; ``hi`` is R_k, handed on as R_{k-1}."""
    t = tl.arange(0, T)
    k = load_rows(k_base, j0, TK, kt, T, D)
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
    s = mask_cells(
        s, float("-inf"), rows, columns, first_query, first_key, KIND == DIAGONAL, EDGE, PACKED
    )
    keep = t
    if DROP:
        keep = kept(row_random, load_vector(columns_random, j0, TK, 0, T), threshold)
    v = load_rows(v_base, j0, TK, vt, T, D)
    acc, top, total = absorb(acc, top, total, s, step, v, keep, DROP, PRECISION)
    return acc, top, total, hi


@triton.jit(do_not_specialize=PLAIN_NUMBERS)
def forward(
    Q, K, V, E, BIASES, FIRST_QUERY, FIRST_KEY, ROW_RANDOM, COLUMN_RANDOM, OUT, LSE,
    qb, qh, qt, kb, kh, kt, vb, vh, vt, ob, oh, ot, eh, bh_bias,
    H, TQ, TK, low, high, scale, threshold, inverse_share,
    D: tl.constexpr, T: tl.constexpr, TABLE: tl.constexpr, BIAS: tl.constexpr,
    PACKED: tl.constexpr, EDGE: tl.constexpr, DROP: tl.constexpr, SKEW: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """Output and log of the sum of weights of T queries of one (batch row, head)."""
    blocks = tl.cdiv(TQ, T)
    i0 = (blocks - 1 - tl.program_id(0) % blocks) * T  # long rows first
    bh = (tl.program_id(0) // blocks).to(tl.int64)
    b = bh // H
    h = bh % H
    p0 = TK - TQ + i0
    q = load_rows(Q + b * qb + h * qh, i0, TQ, qt, T, D)
    k_base = K + b * kb + h * kh
    v_base = V + b * vb + h * vh
    table = E + h * eh
    bias = BIASES + h * bh_bias
    firsts = FIRST_KEY + b * TK
    columns_random = COLUMN_RANDOM + bh * TK
    first_query = tl.arange(0, T)
    if PACKED:
        first_query = load_vector(FIRST_QUERY + b * TQ, i0, TQ, TK, T)
    row_random = first_query
    if DROP:
        row_random = load_vector(ROW_RANDOM + bh * TQ, i0, TQ, 0, T)
    tiles, far_tiles = tiles_before(p0, first_query, high, T, PACKED, TABLE or BIAS)

    acc = tl.zeros([T, D], tl.float32)
    top = tl.full([T], -1e30, tl.float32)
    total = tl.zeros([T], tl.float32)
    far = total
    hi = far
    if TABLE:
        last = tl.load(table + (high - low) * D + tl.arange(0, D)).to(tl.float32)
        far = tl.sum(q.to(tl.float32) * last[None, :], 1)
        chunk = distance_chunk(table, (tiles - far_tiles) * T, low, high, T, D)
        hi = tl.dot(q, tl.trans(chunk), input_precision=PRECISION).to(SKEW)
    if TABLE or BIAS:
        for n in range(0, far_tiles):
            acc, top, total, hi = forward_tile(
                acc, top, total, hi, far, q, k_base, v_base, table, bias, firsts, columns_random,
                first_query, row_random, p0 - (tiles - n) * T, p0, kt, vt, TK, low, high, scale,
                threshold, D, T, TABLE, BIAS, PACKED, EDGE, DROP, SKEW, PRECISION, FAR,
            )  # fmt: skip
    for n in range(far_tiles, tiles):
        acc, top, total, hi = forward_tile(
            acc, top, total, hi, far, q, k_base, v_base, table, bias, firsts, columns_random,
            first_query, row_random, p0 - (tiles - n) * T, p0, kt, vt, TK, low, high, scale,
            threshold, D, T, TABLE, BIAS, PACKED, EDGE, DROP, SKEW, PRECISION, NEAR,
        )  # fmt: skip
    acc, top, total, hi = forward_tile(
        acc, top, total, hi, far, q, k_base, v_base, table, bias, firsts, columns_random,
        first_query, row_random, p0, p0, kt, vt, TK, low, high, scale,
        threshold, D, T, TABLE, BIAS, PACKED, EDGE, DROP, SKEW, PRECISION, DIAGONAL,
    )  # fmt: skip
    finish(
        acc, top, total, OUT + b * ob + h * oh, LSE + bh * TQ, i0, TQ, ot, inverse_share, T, D
    )  # fmt: skip


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
