// Causal attention with a relative term, forward. The skew is that of common.cuh.
//
//   logits[i, j] = scale * (q_i . k_j + q_i . E[min(i - j, M - 1)]),  softmax over j <= i of the query's piece,  times V

enum { AT_K = 0, AT_V = 2 * TILE, AT_T = 4 * TILE, SHARED_BYTES = 4 * TILE + 2 * TABLE_TILE };

// What a lane keeps. Every index is a constant after unrolling: all of it lives in registers.
struct Lane {
    u32 q[HEAD / 16][4];        // A operand of the warp's 16 queries
    u32 pool[7];                // packed halves of G still to be used: g of them for row a = g, 7 - g for row a = 15 - g
    u32 later[8];               // relative logits of row a = 15 - g for the next tile
    float o[HEAD / 8][4], m[2], l[2];
    float beyond[2];            // q . E[M - 1], for tiles whose every distance is clipped
#if PACKED
    int code[2];
#endif
#if DROP
    u32 random[2];
#endif
};

// Relative logits to begin with, then + q k^T: 16 queries x 64 keys of the tile at `k_at`.
HIDDEN void add_products(float (&c)[8][4], const Tile& t, u32 k_at, const u32 (&q)[HEAD / 16][4]) {
#if WGMMA
    multiply_begin(c);
#pragma unroll
    for (int kk = 0; kk < HEAD / 16; kk++) multiply<0>(c, q[kk], place(t.base + k_at + 32 * kk));
    multiply_end(c);
#else
    u32 at[HEAD / 32];
#pragma unroll
    for (int h = 0; h < HEAD / 32; h++) at[h] = next32(t.b_at, h);
#pragma unroll
    for (int h = 0; h < HEAD / 32; h++) {
#pragma unroll
        for (int n = 0; n < 8; n++) {
            u32 b[4];
            load_matrices(b, at[h] + k_at + n * 8 * PITCH);
            mma(c[n], q[2 * h], b[0], b[1]);
            mma(c[n], q[2 * h + 1], b[2], b[3]);
        }
    }
#endif
}

// One tile of 64 keys. P: parity of the step s, its buffer. FAR: every distance is clipped. LAST: the two tiles at the
// diagonal (P = 0: D0 = 0, P = 1: D0 = -64).
template <int MODE> HIDDEN void step(const Arguments& p, const Tile& t, Lane& r, int P, int j0, int d0, const int* codes, const int* column_random) {
    copy_wait();
    show_to_multiply();
    __syncthreads();            // buffer P is full, and all warps have left buffer 1 - P
    if (!(MODE == LAST && P == 1)) {
        fetch_keys(t, AT_K + (1 - P) * TILE, AT_V + (1 - P) * TILE, j0 + 64);
        if (MODE != LAST) fetch_table(t, AT_T + (1 - P) * TABLE_TILE, d0 - 64);
        copy_commit();
    }

    u32 y[8], z[8];             // packed relative logits of this tile, rows a = g and a = 15 - g
    if (MODE != FAR) {
#pragma unroll
        for (int n = 0; n < 8; n++) z[n] = r.later[n];
        if (!(MODE == LAST && P == 1)) skew(t, AT_T + P * TABLE_TILE, r.q, r.pool, r.later, y);     // else every new distance is negative
    }
    float c[8][4];
#pragma unroll
    for (int n = 0; n < 8; n++) {
        if (MODE == FAR) { c[n][0] = c[n][1] = r.beyond[0]; c[n][2] = c[n][3] = r.beyond[1]; }
        else {
            if (MODE == LAST && P == 1) c[n][0] = c[n][1] = 0.f;        // row g sees no key of this tile
            else unpack_half(c[n][0], c[n][1], y[n]);
            unpack_half(c[n][2], c[n][3], z[n]);
        }
    }
    add_products(c, t, AT_K + P * TILE, r.q);
    if (MODE == LAST) hide_later(c, P == 1, t.g);
#if PACKED
    hide_pieces(c, codes, j0, t.length, r.code[0], r.code[1]);
#endif
    float high[2] = {r.m[0], r.m[1]};
#pragma unroll
    for (int n = 0; n < 8; n++) {
        high[0] = fmaxf(high[0], fmaxf(c[n][0], c[n][1]));
        high[1] = fmaxf(high[1], fmaxf(c[n][2], c[n][3]));
    }
#pragma unroll
    for (int i = 0; i < 2; i++) {
        high[i] = fmaxf(high[i], shuffle_xor(high[i], 1));
        high[i] = fmaxf(high[i], shuffle_xor(high[i], 2));
        const float fade = power2((r.m[i] - high[i]) * t.c);
        r.m[i] = high[i];
        r.l[i] *= fade;
#pragma unroll
        for (int n = 0; n < HEAD / 8; n++) { r.o[n][2 * i] *= fade; r.o[n][2 * i + 1] *= fade; }
    }
#if WGMMA
    u32 all_weights[4][4];
#endif
    u32 v_at[HEAD / 16];
#pragma unroll
    for (int n = 0; n < HEAD / 16; n++) v_at[n] = next16(t.v_at, n);
    const float low[2] = {high[0] * t.c, high[1] * t.c};
#pragma unroll
    for (int kk = 0; kk < 4; kk++) {
#pragma unroll
        for (int n = 2 * kk; n < 2 * kk + 2; n++) {
#pragma unroll
            for (int i = 0; i < 4; i++) c[n][i] = power2(c[n][i] * t.c - low[i >> 1]);
            r.l[0] += c[n][0]; r.l[0] += c[n][1];
            r.l[1] += c[n][2]; r.l[1] += c[n][3];
#if DROP
#pragma unroll
            for (int e = 0; e < 2; e++) {
                const u32 column = column_random[min(j0 + 8 * n + 2 * (thread_now() & 3) + e, t.length - 1)];
                if (!keeps(r.random[0], column, p.threshold)) c[n][e] = 0.f;
                if (!keeps(r.random[1], column, p.threshold)) c[n][2 + e] = 0.f;
            }
#endif
        }
        const u32 weights[4] = {pack(c[2 * kk][0], c[2 * kk][1]), pack(c[2 * kk][2], c[2 * kk][3]),
                                pack(c[2 * kk + 1][0], c[2 * kk + 1][1]), pack(c[2 * kk + 1][2], c[2 * kk + 1][3])};
#if WGMMA
#pragma unroll
        for (int i = 0; i < 4; i++) all_weights[kk][i] = weights[i];
#else
#pragma unroll
        for (int n = 0; n < HEAD / 16; n++) {
            u32 b[4];
            load_transposed(b, v_at[n] + AT_V + P * TILE + kk * 16 * PITCH);
            mma(r.o[2 * n], weights, b[0], b[1]);
            mma(r.o[2 * n + 1], weights, b[2], b[3]);
        }
#endif
    }
#if WGMMA
    settle(all_weights);
    multiply_begin(r.o);
#pragma unroll
    for (int kk = 0; kk < 4; kk++) multiply<1>(r.o, all_weights[kk], place(t.base + AT_V + P * TILE + kk * 16 * PITCH));
    multiply_end(r.o);
#endif
}

// grid (ceil(length / 128), batch * heads), 256 threads, SHARED_BYTES of dynamic shared memory.
extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS) relative_forward(const __grid_constant__ Arguments p) {
    DYNAMIC_SHARED;
    const int i0 = ((int)gridDim.x - 1 - (int)blockIdx.x) * BLOCK_M;        // long rows first
    const int batch = blockIdx.y / p.heads, head = blockIdx.y % p.heads;
    Tile t;
    set_up(t, p, shared_address(shared), batch, head);
    const int* codes = PACKED ? p.key_codes + (long long)batch * p.length : 0;
    const int* column_random = DROP ? p.column_random + (long long)blockIdx.y * p.length : 0;

    int d0 = i0 - 64 * first_step(p, batch, i0);
    const int near_from = i0 - 64 * first_near(i0, p.rows);

    Lane r;
    load_rows(r.q, p.q + ((long long)batch * p.q_batch + (long long)head * p.q_head), p.q_row, i0, p.length);
#pragma unroll
    for (int n = 0; n < HEAD / 8; n++) { r.o[n][0] = r.o[n][1] = r.o[n][2] = r.o[n][3] = 0.f; }
#pragma unroll
    for (int i = 0; i < 2; i++) {
        r.m[i] = LOWEST; r.l[i] = 0.f;
#if PACKED
        r.code[i] = p.query_codes[(long long)batch * p.length + min(query_of(i0, i), p.length - 1)];
#endif
#if DROP
        r.random[i] = p.row_random[(long long)blockIdx.y * p.length + min(query_of(i0, i), p.length - 1)];
#endif
    }

    fetch_keys(t, AT_K, AT_V, i0 - d0);
    if (d0 > near_from) {
        copy_commit();
        meet_last(r.beyond, t, r.q);
#pragma unroll 1
        for (; d0 > near_from; d0 -= 64) step<FAR>(p, t, r, (d0 >> 6) & 1, i0 - d0, d0, codes, column_random);
        const u32 f0 = pack_half(r.beyond[0], r.beyond[0]), f1 = pack_half(r.beyond[1], r.beyond[1]);
#pragma unroll
        for (int n = 0; n < 8; n++) r.later[n] = f1;
#pragma unroll
        for (int j = 0; j < 7; j++) r.pool[j] = pick(t.g > j, f0, f1);
    } else {                    // fill the window: the two productions before the first tile
        fetch_table(t, AT_T, d0 + 128);
        fetch_table(t, AT_T + TABLE_TILE, d0 + 64);
        copy_commit();
        copy_wait();
        __syncthreads();
        u32 y[8];
#pragma unroll
        for (int j = 0; j < 7; j++) r.pool[j] = 0u;
#pragma unroll 1
        for (int P = 0; P < 2; P++) skew(t, AT_T + P * TABLE_TILE, r.q, r.pool, r.later, y);
        __syncthreads();
        fetch_table(t, AT_T, d0);
        copy_commit();
    }
#pragma unroll 1
    for (; d0 > 0; d0 -= 64) step<NEAR>(p, t, r, (d0 >> 6) & 1, i0 - d0, d0, codes, column_random);
#pragma unroll 1
    for (int P = 0; P < 2; P++) step<LAST>(p, t, r, P, i0 + 64 * P, -64 * P, codes, column_random);

    float over[2];
#pragma unroll
    for (int i = 0; i < 2; i++) {
        r.l[i] += shuffle_xor(r.l[i], 1);
        r.l[i] += shuffle_xor(r.l[i], 2);
        const bool empty = r.l[i] == 0.f;
        over[i] = empty ? 0.f : (DROP ? p.inverse_share : 1.f) / r.l[i];
        const int at = query_of(i0, i);
        if ((thread_now() & 3) == 0 && at < p.length)
            p.log_sum[(long long)blockIdx.y * p.length + at] = empty ? NOTHING_SEEN : r.m[i] * t.c + log_2(r.l[i]);
    }
    __syncthreads();            // the tiles of keys are free now
    store_rows(p.result + ((long long)batch * p.result_batch + (long long)head * p.result_head), p.result_row, i0, p.length, r.o, over[0], over[1], shared);
}
