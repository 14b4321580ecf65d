// Causal attention with a relative term, forward. The skew is that of common.cuh.
//
//   logits[i, j] = scale * (q_i . k_j + q_i . E[min(i - j, M - 1)]),  softmax over j <= i of the query's piece,  times V

enum { AT_K = 0, AT_V = 2 * TILE, AT_T = 4 * TILE, SHARED_BYTES = 4 * TILE + 2 * TABLE_TILE };

// The state of a lane. All indices are constants after unrolling, so it stays in registers.
struct Lane {
    u32 q[HEAD / 16][4];        // A operand of the warp's 16 queries
    u32 pool[7];                // earlier n-tiles of G, packed halves: g for row a = g, 7 - g for row a = 15 - g
    u32 next_logits[8];         // relative logits of row a = 15 - g in the next tile
    float o[HEAD / 8][4], m[2], l[2];   // online softmax: weighted values, highest logit, sum of weights
    float clipped_logit[2];     // q . E[M - 1], for tiles where all distances are clipped
#if PACKED
    int code[2];
#endif
#if DROP
    u32 random[2];
#endif
};

// c += q k^T for the warp's 16 queries and the 64 keys of the tile at `k_at`; c holds relative logits.
DEVICE void add_products(float (&c)[8][4], const Tile& t, u32 k_at, const u32 (&q)[HEAD / 16][4]) {
#if WGMMA
    wgmma_fence(c);
#pragma unroll
    for (int kk = 0; kk < HEAD / 16; kk++) wgmma_registers<0>(c, q[kk], descriptor_address(t.base + k_at + 32 * kk));
    wgmma_finish(c);
#else
    u32 at[HEAD / 32];
#pragma unroll
    for (int h = 0; h < HEAD / 32; h++) at[h] = advance32(t.b_at, h);
#pragma unroll
    for (int h = 0; h < HEAD / 32; h++) {
#pragma unroll
        for (int n = 0; n < 8; n++) {
            u32 b[4];
            ldmatrix(b, at[h] + k_at + n * 8 * PITCH);
            mma(c[n], q[2 * h], b[0], b[1]);
            mma(c[n], q[2 * h + 1], b[2], b[3]);
        }
    }
#endif
}

// Processes one tile of 64 keys. The parity of the step is the index of its buffer. FAR: all distances are clipped. LAST: the two
// tiles at the diagonal (parity 0: D0 = 0, parity 1: D0 = -64).
template <int MODE> DEVICE void step(const Arguments& p, const Tile& t, Lane& r, int parity, int j0, int d0, const int* codes, const int* column_random) {
    copy_async_wait();
    fence_for_wgmma();
    __syncthreads();            // this step's buffer is full, and no warp reads the other one any more
    if (!(MODE == LAST && parity == 1)) {
        fetch_keys(t, AT_K + (1 - parity) * TILE, AT_V + (1 - parity) * TILE, j0 + 64);
        if (MODE != LAST) fetch_table(t, AT_T + (1 - parity) * TABLE_TILE, d0 - 64);
        copy_async_commit();
    }

    u32 y[8], z[8];             // packed relative logits of this tile, rows a = g and a = 15 - g
    if (MODE != FAR) {
#pragma unroll
        for (int n = 0; n < 8; n++) z[n] = r.next_logits[n];
        if (!(MODE == LAST && parity == 1)) skew(t, AT_T + parity * TABLE_TILE, r.q, r.pool, r.next_logits, y);     // else all new distances are negative
    }
    float c[8][4];
#pragma unroll
    for (int n = 0; n < 8; n++) {
        if (MODE == FAR) { c[n][0] = c[n][1] = r.clipped_logit[0]; c[n][2] = c[n][3] = r.clipped_logit[1]; }
        else {
            if (MODE == LAST && parity == 1) c[n][0] = c[n][1] = 0.f;        // row g attends to no key of this tile
            else unpack_half(c[n][0], c[n][1], y[n]);
            unpack_half(c[n][2], c[n][3], z[n]);
        }
    }
    add_products(c, t, AT_K + parity * TILE, r.q);
    if (MODE == LAST) mask_later_keys(c, parity == 1, t.g);
#if PACKED
    mask_other_pieces(c, codes, j0, t.length, r.code[0], r.code[1]);
#endif
    float highest[2] = {r.m[0], r.m[1]};
#pragma unroll
    for (int n = 0; n < 8; n++) {
        highest[0] = fmaxf(highest[0], fmaxf(c[n][0], c[n][1]));
        highest[1] = fmaxf(highest[1], fmaxf(c[n][2], c[n][3]));
    }
#pragma unroll
    for (int i = 0; i < 2; i++) {
        highest[i] = fmaxf(highest[i], shuffle_xor(highest[i], 1));
        highest[i] = fmaxf(highest[i], shuffle_xor(highest[i], 2));
        const float factor = exp2_approx((r.m[i] - highest[i]) * t.c);
        r.m[i] = highest[i];
        r.l[i] *= factor;
#pragma unroll
        for (int n = 0; n < HEAD / 8; n++) { r.o[n][2 * i] *= factor; r.o[n][2 * i + 1] *= factor; }
    }
#if WGMMA
    u32 all_weights[4][4];
#endif
    u32 v_at[HEAD / 16];
#pragma unroll
    for (int n = 0; n < HEAD / 16; n++) v_at[n] = advance16(t.v_at, n);
    const float shift[2] = {highest[0] * t.c, highest[1] * t.c};
#pragma unroll
    for (int kk = 0; kk < 4; kk++) {
#pragma unroll
        for (int n = 2 * kk; n < 2 * kk + 2; n++) {
#pragma unroll
            for (int i = 0; i < 4; i++) c[n][i] = exp2_approx(c[n][i] * t.c - shift[i >> 1]);
            r.l[0] += c[n][0]; r.l[0] += c[n][1];
            r.l[1] += c[n][2]; r.l[1] += c[n][3];
#if DROP
#pragma unroll
            for (int e = 0; e < 2; e++) {
                const u32 column = column_random[min(j0 + 8 * n + 2 * (thread_index() & 3) + e, t.length - 1)];
                if (!keep_weight(r.random[0], column, p.threshold)) c[n][e] = 0.f;
                if (!keep_weight(r.random[1], column, p.threshold)) c[n][2 + e] = 0.f;
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
            ldmatrix_trans(b, v_at[n] + AT_V + parity * TILE + kk * 16 * PITCH);
            mma(r.o[2 * n], weights, b[0], b[1]);
            mma(r.o[2 * n + 1], weights, b[2], b[3]);
        }
#endif
    }
#if WGMMA
    materialise(all_weights);
    wgmma_fence(r.o);
#pragma unroll
    for (int kk = 0; kk < 4; kk++) wgmma_registers<1>(r.o, all_weights[kk], descriptor_address(t.base + AT_V + parity * TILE + kk * 16 * PITCH));
    wgmma_finish(r.o);
#endif
}

// grid (ceil(length / 128), batch * heads), 256 threads, SHARED_BYTES of dynamic shared memory.
extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS) relative_forward(const __grid_constant__ Arguments p) {
    DYNAMIC_SHARED;
    const int i0 = ((int)gridDim.x - 1 - (int)blockIdx.x) * BLOCK_M;        // the blocks with the most keys first
    const int batch = blockIdx.y / p.heads, head = blockIdx.y % p.heads;
    Tile t;
    init_tile(t, p, shared_address(shared), batch, head);
    const int* codes = PACKED ? p.key_codes + (long long)batch * p.length : 0;
    const int* column_random = DROP ? p.column_random + (long long)blockIdx.y * p.length : 0;

    int d0 = i0 - 64 * first_step(p, batch, i0);
    const int near_start = i0 - 64 * first_near(i0, p.rows);

    Lane r;
    load_rows(r.q, p.q + ((long long)batch * p.q_batch + (long long)head * p.q_head), p.q_row, i0, p.length);
#pragma unroll
    for (int n = 0; n < HEAD / 8; n++) { r.o[n][0] = r.o[n][1] = r.o[n][2] = r.o[n][3] = 0.f; }
#pragma unroll
    for (int i = 0; i < 2; i++) {
        r.m[i] = LOWEST_LOGIT; r.l[i] = 0.f;
#if PACKED
        r.code[i] = p.query_codes[(long long)batch * p.length + min(query_index(i0, i), p.length - 1)];
#endif
#if DROP
        r.random[i] = p.row_random[(long long)blockIdx.y * p.length + min(query_index(i0, i), p.length - 1)];
#endif
    }

    fetch_keys(t, AT_K, AT_V, i0 - d0);
    if (d0 > near_start) {
        copy_async_commit();
        last_row_logits(r.clipped_logit, t, r.q);
#pragma unroll 1
        for (; d0 > near_start; d0 -= 64) step<FAR>(p, t, r, (d0 >> 6) & 1, i0 - d0, d0, codes, column_random);
        const u32 f0 = pack_half(r.clipped_logit[0], r.clipped_logit[0]), f1 = pack_half(r.clipped_logit[1], r.clipped_logit[1]);
#pragma unroll
        for (int n = 0; n < 8; n++) r.next_logits[n] = f1;
#pragma unroll
        for (int j = 0; j < 7; j++) r.pool[j] = select(t.g > j, f0, f1);
    } else {                    // the n-tiles before the first tile: two calls of skew
        fetch_table(t, AT_T, d0 + 128);
        fetch_table(t, AT_T + TABLE_TILE, d0 + 64);
        copy_async_commit();
        copy_async_wait();
        __syncthreads();
        u32 y[8];
#pragma unroll
        for (int j = 0; j < 7; j++) r.pool[j] = 0u;
#pragma unroll 1
        for (int parity = 0; parity < 2; parity++) skew(t, AT_T + parity * TABLE_TILE, r.q, r.pool, r.next_logits, y);
        __syncthreads();
        fetch_table(t, AT_T, d0);
        copy_async_commit();
    }
#pragma unroll 1
    for (; d0 > 0; d0 -= 64) step<NEAR>(p, t, r, (d0 >> 6) & 1, i0 - d0, d0, codes, column_random);
#pragma unroll 1
    for (int parity = 0; parity < 2; parity++) step<LAST>(p, t, r, parity, i0 + 64 * parity, -64 * parity, codes, column_random);

    float factor[2];
#pragma unroll
    for (int i = 0; i < 2; i++) {
        r.l[i] += shuffle_xor(r.l[i], 1);
        r.l[i] += shuffle_xor(r.l[i], 2);
        const bool empty = r.l[i] == 0.f;
        factor[i] = empty ? 0.f : (DROP ? p.inverse_share : 1.f) / r.l[i];
        const int at = query_index(i0, i);
        if ((thread_index() & 3) == 0 && at < p.length)
            p.log_sum[(long long)blockIdx.y * p.length + at] = empty ? NO_KEYS : r.m[i] * t.c + log2_approx(r.l[i]);
    }
    __syncthreads();            // the tiles of keys are free now
    store_rows(p.result + ((long long)batch * p.result_batch + (long long)head * p.result_head), p.result_row, i0, p.length, r.o, factor[0], factor[1], shared);
}
