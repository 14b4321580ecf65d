// Causal attention with a relative term, backward, heads of 64: gradients of q, k, v and the table in one pass over the tiles.
//
// A block has 128 queries, as in the forward pass, and processes the keys in ascending order. Logits and weights are recomputed:
// P = 2^(logits - log_sum). With dP = dO V^T and inner = <o, do>: dS = P (dP - inner), and
//   dV += P^T dO    dK += dS^T Q    dQ += dS K + dG E    dE += dG^T Q    with dG[i, i - j] = dS[i, j]
// (all but dV times natural_scale at the end). P and dS go to shared memory in their own order, and dS also as dG, by distance:
// the cell of row r and column c is stored in row r at column D0 + r - c of a ring of 256 distances, which inverts the skew. A
// chunk of 64 distances is complete after the tile 64 below it, so each step completes one. dQ stays in registers; dK, dV and dE
// are accumulated in float32 in global memory, by several blocks at once.
//
// All products except queries times table use WGMMA. Those that need a tile's P, dS and dG run while the next tile's relative
// logits are computed: a step begins with the products of the previous tile, and the last ones follow the loop. Each warpgroup
// has 64 of the block's queries. Of the sums over all 128 queries, the first warpgroup computes dV and the second dK, and each
// computes half the channels of dE.
//
// Layout of the accumulators in global memory: 8 rows are interleaved, so that a warp adds 128 adjacent numbers at once. Number
// 16 x + 8 y + 2 z + e of row 8 i + g is at index 512 i + 128 x + 16 g + 4 z + 2 y + e.

// The number of tokens, over all (batch row, head) pairs, that are processed at once: their accumulators fit into the L2 cache.
enum { TOKENS_AT_ONCE = 32768 };
enum { Q_TILE = BLOCK_M * PITCH, CELLS = BLOCK_M * 128 /* 64 numbers of 2 bytes a row */, CHUNKS = 4 /* of 64 distances */ };
enum { AT_K = 0, AT_V = 2 * TILE, AT_Q = 3 * TILE, AT_UP = AT_Q + Q_TILE, AT_P = AT_UP + Q_TILE, AT_DS = AT_P + CELLS };
enum { AT_DG = AT_DS + CELLS, AT_T = AT_DG + CHUNKS * CELLS, SHARED_BYTES = AT_T + 4 * TABLE_TILE };

// The 16 queries of warp b are adjacent in shared memory: row 16 b + g has query 8 a + b with a = first_row(g), row 16 b + 8 + g
// the query with 15 - a.
struct Lane {
    u32 pool[7], next_logits[8];        // as in the forward pass
    float dq[HEAD / 8][4], log_sum[2], inner[2], clipped_logit[2], far_ds[2];
    u32 queries_at;                     // of the warp's queries, for ldmatrix and stmatrix
#if PACKED
    int code[2];
#endif
#if DROP
    u32 random[2];
#endif
};

// The position of a step: the first key j0 of its tile, the distance d0 from there to the block's first query, whether there was
// a previous tile, and whether that was not FAR.
struct Position { int j0, d0; bool has_previous, previous_is_near; };

DEVICE int padded_size(int rows) { return (rows + 7) / 8 * 8 * HEAD; }

DEVICE int sum_offset(int row) { return (row >> 3) * 8 * HEAD + (row & 7) * 16; }

DEVICE int ring_slot(int d) { return d >> 6 & 3; }

DEVICE void load_a_operand(u32 (&a)[HEAD / 16][4], u32 at) {
#pragma unroll
    for (int kk = 0; kk < HEAD / 16; kk++) ldmatrix(a[kk], advance16(at, kk));
}

// Starts the products of the previous tile. Its dG is complete for the chunk of 64 distances from d0 + 128 on.
template <int MODE> DEVICE void start_products(float (&dkv)[8][4], float (&de)[4][4], const Tile& t, Lane& r, int d0) {
    const int half = warpgroup(), parity = d0 >> 6 & 1;
    wgmma_fence(dkv);
    wgmma_fence(r.dq);
    const u32 x = descriptor_address(t.base + (half ? AT_DS : AT_P)), y = descriptor_address(t.base + (half ? AT_Q : AT_UP));
#pragma unroll
    for (int kk = 0; kk < BLOCK_M / 16; kk++) wgmma_shared<1, 1>(dkv, x + kk * 128, y + kk * PITCH, kk > 0);
    if (MODE != FAR) {
        const u32 chunk = descriptor_address(t.base + AT_DG + ring_slot(d0 + 128) * CELLS), rows = descriptor_address(t.base + AT_T + ring_slot(d0 + 192) * TABLE_TILE), q = descriptor_address(t.base + AT_Q + half * HEAD);
        wgmma_fence(de);
#pragma unroll
        for (int kk = 0; kk < BLOCK_M / 16; kk++) wgmma_shared_half(de, chunk + kk * 128, q + kk * PITCH, kk > 0);
#pragma unroll
        for (int kk = 0; kk < 4; kk++) wgmma_shared<0, 1>(r.dq, chunk + half * 4 * 128 + 2 * kk, rows + kk * PITCH, true);
    }
    const u32 ds = descriptor_address(t.base + AT_DS + half * 64 * 128), k = descriptor_address(t.base + AT_K + (1 - parity) * TILE);
#pragma unroll
    for (int kk = 0; kk < 4; kk++) wgmma_shared<0, 1>(r.dq, ds + 2 * kk, k + kk * PITCH, true);
    wgmma_commit();
}

// Waits for the products of start_products (PENDING later groups may still run) and adds them to the accumulators in memory.
template <int MODE, int PENDING> DEVICE void finish_products(float (&dkv)[8][4], float (&de)[4][4], const Arguments& p, const Tile& t, Lane& r, const Position& at, float* dk, float* dv, float* dtable) {
    wgmma_wait<PENDING>(dkv);
    wgmma_wait<PENDING>(r.dq);
    if (MODE != FAR) wgmma_wait<PENDING>(de);
    const int thread = thread_index(), lane = thread & 31, half = thread >> 7, row = 16 * (thread >> 5 & 3) + (lane >> 2);
    const int j = at.j0 - 64 + row;
    float* to = (half ? dk : dv) + (sum_offset(j) + 4 * (lane & 3));
    if (at.has_previous && j < t.length) {
#pragma unroll
        for (int n = 0; n < 4; n++) atomic_add4(to + 128 * n, dkv[2 * n][0], dkv[2 * n][1], dkv[2 * n + 1][0], dkv[2 * n + 1][1]);
    }
    if (at.has_previous && j + 8 < t.length) {
#pragma unroll
        for (int n = 0; n < 4; n++) atomic_add4(to + 8 * HEAD + 128 * n, dkv[2 * n][2], dkv[2 * n][3], dkv[2 * n + 1][2], dkv[2 * n + 1][3]);
    }
    if (MODE != FAR && at.previous_is_near) {
        const int d = at.d0 + 128 + row;
        float* first = dtable + (sum_offset(min(d, t.rows - 1)) + half * 256 + 4 * (lane & 3));
        float* second = dtable + (sum_offset(min(d + 8, t.rows - 1)) + half * 256 + 4 * (lane & 3));
#pragma unroll
        for (int n = 0; n < 2; n++) {
            atomic_add4(first + 128 * n, de[2 * n][0], de[2 * n][1], de[2 * n + 1][0], de[2 * n + 1][1]);
            atomic_add4(second + 128 * n, de[2 * n][2], de[2 * n][3], de[2 * n + 1][2], de[2 * n + 1][3]);
        }
    }
}

// Stores 16 cells of a row by distance: column 8 n + pair has distance `distance` - 8 n, and the next column has one less, which
// lies in the preceding vector if the first is at the beginning of its vector.
DEVICE void store_by_distance(const Tile& t, int row, int distance, const u32 (&ds)[8][2], int i) {
    const u32 lane_at = t.base + AT_DG + row * 128 + ((row & 7) << 4) + (distance & 7) * 2;
    u32 at[9];
#pragma unroll
    for (int n = 0; n < 9; n++) {
        const int x = (distance >> 3 << 4) - 16 * n;    // bits 16 to 64: the vector; 128 and 256: the chunk in the ring
        at[n] = multiply_add(x & 0x180, CELLS / 128, lane_at ^ (x & 0x70));
    }
    const bool first = (distance & 7) == 0;
    const int below = first ? 14 : -2;
#pragma unroll
    for (int n = 0; n < 8; n++) {
        store_shared2(at[n], ds[n][i]);
        store_shared2((first ? at[n + 1] : at[n]) + below, ds[n][i] >> 16);
    }
}

template <int MODE> DEVICE void step(const Arguments& p, const Tile& t, Lane& r, const Position& at, const int* codes, const int* column_random, float* dk, float* dv, float* dtable) {
    copy_async_wait();
    fence_for_wgmma();
    __syncthreads();            // keys, values and table have arrived; P, dS and dG of the previous tile are complete
    const int d0 = at.d0, j0 = at.j0, parity = d0 >> 6 & 1;
    float dkv[8][4], de[4][4], c[8][4], dp[8][4];
    start_products<MODE>(dkv, de, t, r, d0);
    {
        u32 q[HEAD / 16][4], y[8], z[8];
        load_a_operand(q, r.queries_at + AT_Q);
        if (MODE != FAR) {
#pragma unroll
            for (int n = 0; n < 8; n++) z[n] = r.next_logits[n];
            skew(t, AT_T + ring_slot(d0) * TABLE_TILE, q, r.pool, r.next_logits, y);
        }
#pragma unroll
        for (int n = 0; n < 8; n++) {
            if (MODE == FAR) { c[n][0] = c[n][1] = r.clipped_logit[0]; c[n][2] = c[n][3] = r.clipped_logit[1]; }
            else { unpack_half(c[n][0], c[n][1], y[n]); unpack_half(c[n][2], c[n][3], z[n]); }
            dp[n][0] = dp[n][1] = DROP ? 0.f : -r.inner[0];
            dp[n][2] = dp[n][3] = DROP ? 0.f : -r.inner[1];
        }
        materialise(q);
        const u32 k = descriptor_address(t.base + AT_K + parity * TILE), up = descriptor_address(t.base + AT_UP + warpgroup() * 64 * PITCH), v = descriptor_address(t.base + AT_V);
        wgmma_fence(c);
        wgmma_fence(dp);
#pragma unroll
        for (int kk = 0; kk < HEAD / 16; kk++) wgmma_registers<0>(c, q[kk], k + 2 * kk);
#pragma unroll
        for (int kk = 0; kk < HEAD / 16; kk++) wgmma_shared<0, 0>(dp, up + 2 * kk, v + 2 * kk, true);
        wgmma_commit();
    }
    finish_products<MODE, 1>(dkv, de, p, t, r, at, dk, dv, dtable);     // while q k^T and dO V^T run
    wgmma_wait(c);
    wgmma_wait(dp);
    __syncthreads();            // no warp reads these values, the previous keys, P, dS and dG any more
    if (d0 >= 0) {
        fetch_keys(t, AT_K + (1 - parity) * TILE, AT_V, j0 + 64);
        if (MODE != FAR) fetch_table(t, AT_T + ring_slot(d0 - 64) * TABLE_TILE, d0 - 64);
        copy_async_commit();
    }
    if (MODE != FAR && d0 <= 0) mask_later_keys(c, d0 < 0, t.g);
#if PACKED
    mask_other_pieces(c, codes, j0, t.length, r.code[0], r.code[1]);
#endif
    const int thread = thread_index(), lane = thread & 31, b = thread >> 5, pair = 2 * (lane & 3);
    u32 ds[8][2];
#pragma unroll
    for (int n = 0; n < 8; n += 2) {
        u32 weight_pairs[2][2];
#pragma unroll
        for (int m = n; m < n + 2; m++) {
            float weights[4];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const float weight = exp2_approx(c[m][i] * t.c - r.log_sum[i >> 1]);
                weights[i] = weight;
#if DROP
                const u32 column = column_random[min(j0 + 8 * m + pair + (i & 1), t.length - 1)];
                const float factor = keep_weight(r.random[i >> 1], column, p.threshold) ? p.inverse_share : 0.f;
                weights[i] = weight * factor;
                dp[m][i] = dp[m][i] * factor - r.inner[i >> 1];
#endif
                dp[m][i] *= weight;
            }
            if (MODE == FAR) {
                r.far_ds[0] += dp[m][0] + dp[m][1];
                r.far_ds[1] += dp[m][2] + dp[m][3];
            }
#pragma unroll
            for (int i = 0; i < 2; i++) {
                weight_pairs[m - n][i] = pack(weights[2 * i], weights[2 * i + 1]);
                ds[m][i] = pack(dp[m][2 * i], dp[m][2 * i + 1]);
            }
        }
        stmatrix(flip(r.queries_at, n << 4) + AT_P, weight_pairs[0][0], weight_pairs[0][1], weight_pairs[1][0], weight_pairs[1][1]);
        stmatrix(flip(r.queries_at, n << 4) + AT_DS, ds[n][0], ds[n][1], ds[n + 1][0], ds[n + 1][1]);
    }
    if (MODE != FAR) {
        const int row = 16 * b + (lane >> 2);
        store_by_distance(t, row, d0 + 8 * t.g + b - pair, ds, 0);
        store_by_distance(t, row + 8, d0 + 8 * (15 - t.g) + b - pair, ds, 1);
    }
}

// Copies a block's 128 rows to shared memory; zeros beyond the length.
DEVICE void fetch_queries(const Tile& t, u32 to, const half_t* from, int row_stride, int i0) {
    const int thread = thread_index(), vector = thread % VECTORS;
#pragma unroll 1
    for (int row = thread / VECTORS; row < BLOCK_M; row += ROWS_PER_PASS) {
        const int a = first_row(row & 7), i = i0 + 8 * (row & 8 ? 15 - a : a) + (row >> 4);
        const bool valid = i < t.length;
        copy_async16(t.base + to + row * PITCH + swizzle(row, vector), from + ((long long)(valid ? i : 0) * row_stride + vector * 8), valid);
    }
}

// The gradients of FAR tiles, whose distances all have the table's last row: adds far_ds times that row to dq, and far_ds
// times q to the gradient of the row.
DEVICE void far_gradients(const Tile& t, Lane& r, float* dtable) {
    const int pair = 2 * ((int)threadIdx.x & 3), last = (t.rows - 1) * HEAD;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        r.far_ds[i] += shuffle_xor(r.far_ds[i], 1);
        r.far_ds[i] += shuffle_xor(r.far_ds[i], 2);
    }
#pragma unroll
    for (int n = 0; n < HEAD / 8; n++) {
        const u32 e = *(const u32*)(t.table + (last + 8 * n + pair));
#pragma unroll
        for (int i = 0; i < 4; i++) r.dq[n][i] += r.far_ds[i >> 1] * to_float((i & 1) ? e >> 16 : e & 0xffff);
    }
    u32 q[HEAD / 16][4];
    load_a_operand(q, r.queries_at + AT_Q);
#pragma unroll
    for (int n = 0; n < HEAD / 8; n++) {        // n-tile n is registers 2 (n & 1) and that + 1 of k-step n / 2
        float x[2];
#pragma unroll
        for (int e = 0; e < 2; e++) {
            x[e] = r.far_ds[0] * to_float(q[n >> 1][2 * (n & 1)] >> (16 * e) & 0xffff) + r.far_ds[1] * to_float(q[n >> 1][2 * (n & 1) + 1] >> (16 * e) & 0xffff);
            for (int m = 4; m < 32; m *= 2) x[e] += shuffle_xor(x[e], m);
        }
        if (t.g == 0) {
            float* to = dtable + sum_offset(t.rows - 1) + 128 * (n >> 1) + 2 * pair + 2 * (n & 1);
            atomic_add1(to, x[0]); atomic_add1(to + 1, x[1]);
        }
    }
}

// Assigns to this CUDA block a (batch row, head) pair and a block of its queries, the last queries first.
DEVICE void assign_block(const Arguments& p, int& pair, int& block) {
    const int pairs = gridDim.x, blocks = gridDim.y, at_once = max(1, TOKENS_AT_ONCE / p.length);
    const int number = blockIdx.y * pairs + blockIdx.x, first = number / (at_once * blocks) * at_once;
    const int rest = number - first * blocks, members = min(at_once, pairs - first);
    pair = first + rest % members;
    block = blocks - 1 - rest / members;
}

// grid (batch * heads, ceil(length / 128)), 256 threads, SHARED_BYTES of dynamic shared memory.
extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS) relative_backward(const __grid_constant__ Arguments p) {
    DYNAMIC_SHARED;
    int bh, block;
    assign_block(p, bh, block);
    const int i0 = block * BLOCK_M, batch = bh / p.heads, head = bh % p.heads, lane = threadIdx.x & 31, b = threadIdx.x >> 5;
    Tile t;
    init_tile(t, p, shared_address(shared), batch, head);
    const int* codes = PACKED ? p.key_codes + (long long)batch * p.length : 0;
    const int* column_random = DROP ? p.column_random + (long long)bh * p.length : 0;
    float* dk = p.dk + (long long)bh * padded_size(p.length);
    float* dv = p.dv + (long long)bh * padded_size(p.length);
    float* dtable = p.dtable + (long long)(bh % p.slots) * padded_size(p.rows);
    const half_t* up = p.up + ((long long)batch * p.up_batch + (long long)head * p.up_head);

    int d0 = i0 - 64 * first_step(p, batch, i0);
    const int near_start = i0 - 64 * first_near(i0, p.rows);
    fetch_queries(t, AT_Q, p.q + ((long long)batch * p.q_batch + (long long)head * p.q_head), p.q_row, i0);
    fetch_queries(t, AT_UP, up, p.up_row, i0);
    fetch_keys(t, AT_K, AT_V, i0 - d0);
    if (d0 <= near_start) {
#pragma unroll 1
        for (int d = d0 + 192; d >= d0; d -= 64) fetch_table(t, AT_T + ring_slot(d) * TABLE_TILE, d);
    }
    copy_async_commit();
    // The first tile has no previous one: zeros take its place.
    for (int at = threadIdx.x * 16; at < AT_T - AT_P; at += THREADS * 16) store_shared16(t.base + AT_P + at, 0u);
    for (int at = threadIdx.x * 16; at < TILE; at += THREADS * 16) store_shared16(t.base + AT_K + TILE + at, 0u);

    Lane r;
    r.queries_at = t.base + (16 * b + (lane & 15)) * PITCH + swizzle(lane & 15, lane >> 4);
    {
        u32 o[HEAD / 16][4], d[HEAD / 16][4];
        load_rows(o, p.out + ((long long)batch * p.out_batch + (long long)head * p.out_head), p.out_row, i0, p.length);
        load_rows(d, up, p.up_row, i0, p.length);
#pragma unroll
        for (int i = 0; i < 2; i++) {
            r.inner[i] = 0.f;
#pragma unroll
            for (int kk = 0; kk < HEAD / 16; kk++) {
#pragma unroll
                for (int x = i; x < 4; x += 2) {
                    r.inner[i] += to_float(o[kk][x] & 0xffff) * to_float(d[kk][x] & 0xffff);
                    r.inner[i] += to_float(o[kk][x] >> 16) * to_float(d[kk][x] >> 16);
                }
            }
            r.inner[i] += shuffle_xor(r.inner[i], 1);
            r.inner[i] += shuffle_xor(r.inner[i], 2);
        }
    }
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const int at = query_index(i0, i);
        r.log_sum[i] = at < p.length ? p.log_sum[(long long)bh * p.length + at] : NO_KEYS;
        r.far_ds[i] = 0.f;
#if PACKED
        r.code[i] = p.query_codes[(long long)batch * p.length + min(at, p.length - 1)];
#endif
#if DROP
        r.random[i] = p.row_random[(long long)bh * p.length + min(at, p.length - 1)];
#endif
    }
#pragma unroll
    for (int n = 0; n < HEAD / 8; n++) r.dq[n][0] = r.dq[n][1] = r.dq[n][2] = r.dq[n][3] = 0.f;

    Position at{i0 - d0, d0, false, false};
    if (d0 > near_start) {
        u32 q[HEAD / 16][4];
        load_rows(q, p.q + ((long long)batch * p.q_batch + (long long)head * p.q_head), p.q_row, i0, p.length);
        last_row_logits(r.clipped_logit, t, q);
#pragma unroll 1
        for (; at.d0 > near_start; at.d0 -= 64, at.j0 += 64, at.has_previous = true) step<FAR>(p, t, r, at, codes, column_random, dk, dv, dtable);
        far_gradients(t, r, dtable);
#pragma unroll 1
        for (int d = at.d0 + 192; d >= at.d0; d -= 64) fetch_table(t, AT_T + ring_slot(d) * TABLE_TILE, d);
        copy_async_commit();
    }
    copy_async_wait();
    __syncthreads();
    {                           // the n-tiles before the first tile: two calls of skew
        u32 q[HEAD / 16][4], y[8];
        load_a_operand(q, r.queries_at + AT_Q);
#pragma unroll
        for (int j = 0; j < 7; j++) r.pool[j] = 0u;
#pragma unroll 1
        for (int d = at.d0 + 128; d > at.d0; d -= 64) skew(t, AT_T + ring_slot(d) * TABLE_TILE, q, r.pool, r.next_logits, y);
    }
#pragma unroll 1
    for (; at.d0 >= -64; at.d0 -= 64, at.j0 += 64, at.has_previous = at.previous_is_near = true) step<NEAR>(p, t, r, at, codes, column_random, dk, dv, dtable);

    fence_for_wgmma();
    __syncthreads();            // P, dS and dG of the last tile are complete
    {
        float dkv[8][4], de[4][4];
        start_products<NEAR>(dkv, de, t, r, at.d0);
        finish_products<NEAR, 0>(dkv, de, p, t, r, at, dk, dv, dtable);
    }
    __syncthreads();            // the tiles of keys are free now
    store_rows(p.result + ((long long)batch * p.result_batch + (long long)head * p.result_head), p.result_row, i0, p.length, r.dq, p.natural_scale, p.natural_scale, shared);
}
