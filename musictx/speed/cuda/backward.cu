// Causal attention with a relative term, backward: gradients of q, k, v and the table in one pass over the tiles.
//
// A block has 128 queries, as in the forward pass, and meets the keys in order. Weights are computed again: relative logits
// and q k^T as there, P = 2^(logits - log_sum). With dP = dO V^T and delta = <o, do>: dS = P (dP - delta), and
//   dV += P^T dO    dK += dS^T Q    dQ += dS K + dG E    dE += dG^T Q    with dG[i, i - j] = dS[i, j]
// (all but dV and dE's clipping times the natural scale at the end). P and dS go to shared memory as they are; dS once more
// as dG, by distance: a cell of row r and column c has its place in column D0 + r - c of row r, in a ring of 256 distances,
// so this store is the skew turned round. A chunk of 64 distances is complete when the tile 64 below is done, so each step
// finishes one. Products that contract over the 128 queries belong to the whole block: a warp has 16 keys (or distances) x
// half the head. dQ stays in registers; dK, dV and dE are added up in float32 in memory, by blocks at the same time.
//
// In the sums' memory the numbers of a head lie in another order, so that a lane adds 4 neighbours at once: number
// 16 x + 8 y + 2 z + e at place 16 x + 4 z + 2 y + e.

enum { Q_TILE = BLOCK_M * PITCH, CELLS = BLOCK_M * 128 /* 64 numbers of 2 bytes a row */, RING = BLOCK_M * 512 };
enum { AT_K = 0, AT_V = 2 * TILE, AT_Q = 4 * TILE, AT_UP = AT_Q + Q_TILE, AT_P = AT_UP + Q_TILE, AT_DS = AT_P + CELLS };
enum { AT_DG = AT_DS + CELLS, AT_T = AT_DG + RING, SHARED_BYTES = AT_T + 4 * TABLE_TILE };

// Rows of a warp's 16 queries lie together in shared memory: query 8 a + b in row 16 b + a.
struct Lane {
    u32 pool[7], later[8];      // as in the forward pass
    float dq[HEAD / 8][4], log_sum[2], delta[2], beyond[2], far_sum[2];
    u32 a_at, cells_at;         // shared addresses: A operand of the warp's queries; its rows of P and dS for this lane
#if PACKED
    int code[2];
#endif
#if DROP
    u32 random[2];
#endif
};

// The place of a piece of 8 distances in a row of the ring: any 8 neighbouring rows meet all banks, and so do (nearly) the
// cells that a warp stores at once, one piece further from row to row.
HIDDEN int ring_piece(int row, int piece) {
    const int a = row & 7;
    return piece ^ (((a << 1) ^ ((a >> 2) * 3)) & 7);
}

HIDDEN void load_a(u32 (&a)[HEAD / 16][4], u32 at) {
#pragma unroll
    for (int kk = 0; kk < HEAD / 16; kk++) load_matrices(a[kk], next16(at, kk));
}

// What the block adds to 16 rows (of keys or distances) x HEAD / 2 numbers: x^T y over 128 queries. x_at: this lane's
// address of x for ldmatrix, whose next 16 queries are x_pitch further on; y_at that of y.
HIDDEN void contract(float (&sum)[HEAD / 16][4], u32 x_at, int x_pitch, u32 y_at) {
#pragma unroll
    for (int kk = 0; kk < BLOCK_M / 16; kk++) {
        u32 a[4];
        load_transposed(a, x_at + kk * x_pitch);
#pragma unroll
        for (int n = 0; n < HEAD / 32; n++) {
            u32 b[4];
            load_transposed(b, next16(y_at, n) + kk * 16 * PITCH);
            mma(sum[2 * n], a, b[0], b[1]);
            mma(sum[2 * n + 1], a, b[2], b[3]);
        }
    }
}

// The rows g and g + 8 of such a sum to memory; the lane's numbers are neighbours there.
HIDDEN void add_rows(float* row0, float* row1, const float (&sum)[HEAD / 16][4]) {
#pragma unroll
    for (int n = 0; n < HEAD / 32; n++) {
        if (row0) add4(row0 + 16 * n, sum[2 * n][0], sum[2 * n][1], sum[2 * n + 1][0], sum[2 * n + 1][1]);
        if (row1) add4(row1 + 16 * n, sum[2 * n][2], sum[2 * n][3], sum[2 * n + 1][2], sum[2 * n + 1][3]);
    }
}

template <int MODE> HIDDEN void step(const Arguments& p, const Tile& t, Lane& r, int P, int j0, int d0, const int* codes, const int* column_random, float* dk, float* dv, float* dtable) {
    copy_wait();
    show_to_multiply();
    __syncthreads();            // buffers are full, and all warps have left the products of the step before
    if (!(MODE == LAST && P == 1)) {
        fetch_keys(t, AT_K + (1 - P) * TILE, AT_V + (1 - P) * TILE, j0 + 64);
        if (MODE == NEAR) fetch_table(t, AT_T + ((d0 - 64) >> 6 & 3) * TABLE_TILE, d0 - 64);
        copy_commit();
    }
    const int thread = thread_now(), lane = thread & 31, b = thread >> 5, pair = 2 * (lane & 3);

    float c[8][4];
#if WGMMA
    float dp[8][4];
#endif
    {
        u32 q[HEAD / 16][4], y[8], z[8];
        load_a(q, r.a_at + AT_Q);
        if (MODE != FAR) {
#pragma unroll
            for (int n = 0; n < 8; n++) z[n] = r.later[n];
            if (!(MODE == LAST && P == 1)) skew(t, AT_T + (d0 >> 6 & 3) * TABLE_TILE, q, r.pool, r.later, y);
        }
#pragma unroll
        for (int n = 0; n < 8; n++) {
            if (MODE == FAR) { c[n][0] = c[n][1] = r.beyond[0]; c[n][2] = c[n][3] = r.beyond[1]; }
            else {
                if (MODE == LAST && P == 1) c[n][0] = c[n][1] = 0.f;
                else unpack_half(c[n][0], c[n][1], y[n]);
                unpack_half(c[n][2], c[n][3], z[n]);
            }
        }
#if WGMMA                       // q k^T and dO V^T at the same time
        u32 up[HEAD / 16][4];
        load_a(up, r.a_at + AT_UP);
#pragma unroll
        for (int n = 0; n < 8; n++) { dp[n][0] = dp[n][1] = DROP ? 0.f : -r.delta[0]; dp[n][2] = dp[n][3] = DROP ? 0.f : -r.delta[1]; }
        multiply_begin(c);
        multiply_begin(dp);
#pragma unroll
        for (int kk = 0; kk < HEAD / 16; kk++) multiply<0>(c, q[kk], place(t.base + AT_K + P * TILE + 32 * kk));
#pragma unroll
        for (int kk = 0; kk < HEAD / 16; kk++) multiply<0>(dp, up[kk], place(t.base + AT_V + P * TILE + 32 * kk));
        multiply_end(c);
        multiply_wait(dp);
#else
        add_products(c, t, AT_K + P * TILE, q);
#endif
    }
    if (MODE == LAST) hide_later(c, P == 1, t.g);
#if PACKED
    hide_pieces(c, codes, j0, t.length, r.code[0], r.code[1]);
#endif

    u32 ds[8][2];
    {
#if !WGMMA
        u32 up[HEAD / 16][4];
        load_a(up, r.a_at + AT_UP);
#endif
#pragma unroll
        for (int n = 0; n < 8; n++) {
#if WGMMA
            float (&d)[4] = dp[n];
#else
            float d[4];
#pragma unroll
            for (int i = 0; i < 4; i++) d[i] = DROP ? 0.f : -r.delta[i >> 1];
#pragma unroll
            for (int h = 0; h < HEAD / 32; h++) {
                u32 v[4];
                load_matrices(v, next32(t.b_at, h) + AT_V + P * TILE + n * 8 * PITCH);
                mma(d, up[2 * h], v[0], v[1]);
                mma(d, up[2 * h + 1], v[2], v[3]);
            }
#endif
            float used[4];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const float weight = power2(c[n][i] * t.c - r.log_sum[i >> 1]);
                used[i] = weight;
#if DROP
                const u32 column = column_random[min(j0 + 8 * n + pair + (i & 1), t.length - 1)];
                const float factor = keeps(r.random[i >> 1], column, p.threshold) ? p.inverse_share : 0.f;
                used[i] = weight * factor;
                d[i] = d[i] * factor - r.delta[i >> 1];
#endif
                d[i] *= weight;
            }
            if (MODE == FAR) {
                r.far_sum[0] += d[0] + d[1];
                r.far_sum[1] += d[2] + d[3];
            }
            ds[n][0] = pack(d[0], d[1]);
            ds[n][1] = pack(d[2], d[3]);
            const u32 at = flip(r.cells_at, n << 4);
            store4(at + AT_P, pack(used[0], used[1]));
            store4((at ^ 112) + ((15 - 2 * t.g) * 128) + AT_P, pack(used[2], used[3]));     // row 15 - g: its pieces are turned by 7 - g
            store4(at + AT_DS, ds[n][0]);
            store4((at ^ 112) + ((15 - 2 * t.g) * 128) + AT_DS, ds[n][1]);
        }
    }
    if (MODE != FAR) {          // by distance: D0 + r - c, and one less for the odd column
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const int a = i ? 15 - t.g : t.g;
            const u32 row = t.base + AT_DG + (16 * b + a) * 512;
#pragma unroll
            for (int n = 0; n < 8; n++) {
                const int d = d0 + 8 * a + b - 8 * n - pair;
                store2(row + (ring_piece(a, d >> 3 & 31) << 4) + (d & 7) * 2, ds[n][i]);
                store2(row + (ring_piece(a, (d - 1) >> 3 & 31) << 4) + ((d - 1) & 7) * 2, ds[n][i] >> 16);
            }
        }
    }
#if WGMMA
    u32 dsa[4][4];
#pragma unroll
    for (int kk = 0; kk < 4; kk++) { dsa[kk][0] = ds[2 * kk][0]; dsa[kk][1] = ds[2 * kk][1]; dsa[kk][2] = ds[2 * kk + 1][0]; dsa[kk][3] = ds[2 * kk + 1][1]; }
    settle(dsa);
    multiply_begin(r.dq);
#pragma unroll
    for (int kk = 0; kk < 4; kk++) multiply<1>(r.dq, dsa[kk], place(t.base + AT_K + P * TILE + kk * 16 * PITCH));
    multiply_end(r.dq);
#else
#pragma unroll
    for (int kk = 0; kk < 4; kk++) {
        const u32 a[4] = {ds[2 * kk][0], ds[2 * kk][1], ds[2 * kk + 1][0], ds[2 * kk + 1][1]};
#pragma unroll
        for (int n = 0; n < HEAD / 16; n++) {
            u32 k[4];
            load_transposed(k, next16(t.v_at, n) + AT_K + P * TILE + kk * 16 * PITCH);
            mma(r.dq[2 * n], a, k[0], k[1]);
            mma(r.dq[2 * n + 1], a, k[2], k[3]);
        }
    }
#endif
    show_to_multiply();
    __syncthreads();            // P, dS and dG are complete

    const int group = b & 3, half = b >> 2;                         // 16 keys or distances, half of the head
    const int query = (lane & 7) + ((lane >> 4) << 3), second = (lane >> 3) & 1;    // of an A operand
#if !WGMMA
    const u32 x_at = t.base + query * 128 + (((2 * group + second) ^ (query & 7)) << 4);
#endif
    const int numbers = half * (HEAD / 16) + (lane >> 4);           // piece of a B operand
    const u32 y_at = t.base + (lane & 15) * PITCH + swizzled(lane & 15, numbers);
    const int offset = half * (HEAD / 2) + 4 * (lane & 3);
#if WGMMA                       // the first 4 warps dV, the others dK: 64 keys x 64 numbers, while they do what follows
    float both[8][4] = {};
    multiply_begin(both);
#pragma unroll
    for (int kk = 0; kk < BLOCK_M / 16; kk++)
        multiply_tiles<1, 1>(both, place(t.base + (half ? AT_DS : AT_P)) + kk * 128, place(t.base + (half ? AT_Q : AT_UP)) + kk * PITCH, kk > 0);
    multiply_commit();
#else
    {
        float sum[HEAD / 16][4] = {};
        contract(sum, x_at + AT_P, 16 * 128, y_at + AT_UP);
        const int j = j0 + 16 * group + (lane >> 2);
        add_rows(j < t.length ? dv + (long long)j * HEAD + offset : 0, j + 8 < t.length ? dv + (long long)(j + 8) * HEAD + offset : 0, sum);
    }
    {
        float sum[HEAD / 16][4] = {};
        contract(sum, x_at + AT_DS, 16 * 128, y_at + AT_Q);
        const int j = j0 + 16 * group + (lane >> 2);
        add_rows(j < t.length ? dk + (long long)j * HEAD + offset : 0, j + 8 < t.length ? dk + (long long)(j + 8) * HEAD + offset : 0, sum);
    }
#endif
    if (MODE != FAR) {          // the distances from d0 + 64 on are complete
        const int chunk = d0 + 64, piece = (chunk >> 3) + 2 * group + second;
        float sum[HEAD / 16][4] = {};
        contract(sum, t.base + AT_DG + query * 512 + (ring_piece(query, piece & 31) << 4), 16 * 512, y_at + AT_Q);
        const int d = chunk + 16 * group + (lane >> 2);
        add_rows(dtable + (long long)min(d, t.rows - 1) * HEAD + offset, dtable + (long long)min(d + 8, t.rows - 1) * HEAD + offset, sum);
    }
#if WGMMA
    multiply_wait(both);
    {
        const int j = j0 + 16 * group + (lane >> 2);
        float* to = (half ? dk : dv) + (long long)j * HEAD + 4 * (lane & 3);
#pragma unroll
        for (int n = 0; n < 4; n++) {
            if (j < t.length) add4(to + 16 * n, both[2 * n][0], both[2 * n][1], both[2 * n + 1][0], both[2 * n + 1][1]);
            if (j + 8 < t.length) add4(to + 8 * HEAD + 16 * n, both[2 * n][2], both[2 * n][3], both[2 * n + 1][2], both[2 * n + 1][3]);
        }
    }
#endif
    if (MODE != FAR) {
        const int chunk = d0 + 64;
        const int a = (lane & 8) ? 15 - (lane & 7) : lane & 7;      // row of the A operand: a = g, then a = 15 - g
        const u32 rows = AT_T + ((chunk + 64) >> 6 & 3) * TABLE_TILE;   // whose first 64 are this chunk's
#if WGMMA
        u32 x[4][4];
#pragma unroll
        for (int kk = 0; kk < 4; kk++)
            load_matrices(x[kk], t.base + AT_DG + (16 * b + a) * 512 + (ring_piece(a, ((chunk >> 3) + 2 * kk + (lane >> 4)) & 31) << 4));
        multiply_begin(r.dq);
#pragma unroll
        for (int kk = 0; kk < 4; kk++) multiply<1>(r.dq, x[kk], place(t.base + rows + kk * 16 * PITCH));
        multiply_end(r.dq);
#else
#pragma unroll
        for (int kk = 0; kk < 4; kk++) {
            u32 x[4];
            load_matrices(x, t.base + AT_DG + (16 * b + a) * 512 + (ring_piece(a, ((chunk >> 3) + 2 * kk + (lane >> 4)) & 31) << 4));
#pragma unroll
            for (int n = 0; n < HEAD / 16; n++) {
                u32 e[4];
                load_transposed(e, next16(t.v_at, n) + rows + kk * 16 * PITCH);
                mma(r.dq[2 * n], x, e[0], e[1]);
                mma(r.dq[2 * n + 1], x, e[2], e[3]);
            }
        }
#endif
    }
}

// A block's 128 rows to shared memory, query 8 a + b in row 16 b + a; zeros beyond the length.
HIDDEN void fetch_queries(const Tile& t, u32 to, const half_t* from, int row_stride, int i0) {
    const int thread = thread_now(), piece = thread % PIECES;
#pragma unroll 1
    for (int row = thread / PIECES; row < BLOCK_M; row += ROWS_A_PASS) {
        const int i = i0 + 8 * (row & 15) + (row >> 4);
        const bool valid = i < t.length;
        copy16(t.base + to + row * PITCH + swizzled(row, piece), from + ((long long)(valid ? i : 0) * row_stride + piece * 8), valid);
    }
}

// The clipped distances of FAR tiles: far_sum times row M - 1 to dq, far_sum times q to that row's gradient.
HIDDEN void spread_far(const Tile& t, Lane& r, float* dtable) {
    const int pair = 2 * ((int)threadIdx.x & 3), last = (t.rows - 1) * HEAD;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        r.far_sum[i] += shuffle_xor(r.far_sum[i], 1);
        r.far_sum[i] += shuffle_xor(r.far_sum[i], 2);
    }
#pragma unroll
    for (int n = 0; n < HEAD / 8; n++) {
        const u32 e = *(const u32*)(t.table + (last + 8 * n + pair));
#pragma unroll
        for (int i = 0; i < 4; i++) r.dq[n][i] += r.far_sum[i >> 1] * value((i & 1) ? e >> 16 : e & 0xffff);
    }
    u32 q[HEAD / 16][4];
    load_a(q, r.a_at + AT_Q);
#pragma unroll
    for (int n = 0; n < HEAD / 8; n++) {        // n-tile n is registers 2 (n & 1) and that + 1 of k-step n / 2
        float x[2];
#pragma unroll
        for (int e = 0; e < 2; e++) {
            x[e] = r.far_sum[0] * value(q[n >> 1][2 * (n & 1)] >> (16 * e) & 0xffff) + r.far_sum[1] * value(q[n >> 1][2 * (n & 1) + 1] >> (16 * e) & 0xffff);
            for (int m = 4; m < 32; m *= 2) x[e] += shuffle_xor(x[e], m);
        }
        if (t.g == 0) {
            float* to = dtable + last + 16 * (n >> 1) + 2 * pair + 2 * (n & 1);
            add1(to, x[0]); add1(to + 1, x[1]);
        }
    }
}

// grid (batch * heads, ceil(length / 128)), 256 threads, SHARED_BYTES of dynamic shared memory.
extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS) relative_backward(const __grid_constant__ Arguments p) {
    DYNAMIC_SHARED;
    int bh, block;
    find_block(p, bh, block);
    const int i0 = block * BLOCK_M, batch = bh / p.heads, head = bh % p.heads, lane = threadIdx.x & 31, b = threadIdx.x >> 5;
    Tile t;
    set_up(t, p, shared_address(shared), batch, head);
    const int* codes = PACKED ? p.key_codes + (long long)batch * p.length : 0;
    const int* column_random = DROP ? p.column_random + (long long)bh * p.length : 0;
    float* dk = p.dk + (long long)bh * p.length * HEAD;
    float* dv = p.dv + (long long)bh * p.length * HEAD;
    float* dtable = p.dtable + (long long)(bh % p.slots) * p.rows * HEAD;
    const half_t* up = p.up + ((long long)batch * p.up_batch + (long long)head * p.up_head);

    int d0 = i0 - 64 * first_step(p, batch, i0);
    const int near_from = i0 - 64 * first_near(i0, p.rows);
    fetch_queries(t, AT_Q, p.q + ((long long)batch * p.q_batch + (long long)head * p.q_head), p.q_row, i0);
    fetch_queries(t, AT_UP, up, p.up_row, i0);
    fetch_keys(t, AT_K, AT_V, i0 - d0);
    copy_commit();
    for (int at = threadIdx.x * 4; at < RING; at += THREADS * 4) store4(t.base + AT_DG + at, 0u);

    Lane r;
    {
        const int a = (lane & 8) ? 15 - (lane & 7) : lane & 7, row = 16 * b + a;
        r.a_at = t.base + row * PITCH + swizzled(row, lane >> 4);
        r.cells_at = t.base + (16 * b + t.g) * 128 + (t.g << 4) + 4 * (lane & 3);
    }
    {
        u32 o[HEAD / 16][4], d[HEAD / 16][4];
        load_rows(o, p.out + ((long long)batch * p.out_batch + (long long)head * p.out_head), p.out_row, i0, p.length);
        load_rows(d, up, p.up_row, i0, p.length);
#pragma unroll
        for (int i = 0; i < 2; i++) {
            r.delta[i] = 0.f;
#pragma unroll
            for (int kk = 0; kk < HEAD / 16; kk++) {
#pragma unroll
                for (int x = i; x < 4; x += 2) {
                    r.delta[i] += value(o[kk][x] & 0xffff) * value(d[kk][x] & 0xffff);
                    r.delta[i] += value(o[kk][x] >> 16) * value(d[kk][x] >> 16);
                }
            }
            r.delta[i] += shuffle_xor(r.delta[i], 1);
            r.delta[i] += shuffle_xor(r.delta[i], 2);
        }
    }
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const int at = query_of(i0, i);
        r.log_sum[i] = at < p.length ? p.log_sum[(long long)bh * p.length + at] : NOTHING_SEEN;
        r.far_sum[i] = 0.f;
#if PACKED
        r.code[i] = p.query_codes[(long long)batch * p.length + min(at, p.length - 1)];
#endif
#if DROP
        r.random[i] = p.row_random[(long long)bh * p.length + min(at, p.length - 1)];
#endif
    }
#pragma unroll
    for (int n = 0; n < HEAD / 8; n++) r.dq[n][0] = r.dq[n][1] = r.dq[n][2] = r.dq[n][3] = 0.f;

    if (d0 > near_from) {
        u32 q[HEAD / 16][4];
        load_rows(q, p.q + ((long long)batch * p.q_batch + (long long)head * p.q_head), p.q_row, i0, p.length);
        meet_last(r.beyond, t, q);
#pragma unroll 1
        for (; d0 > near_from; d0 -= 64) step<FAR>(p, t, r, (d0 >> 6) & 1, i0 - d0, d0, codes, column_random, dk, dv, dtable);
        spread_far(t, r, dtable);
    }
    fetch_table(t, AT_T + ((d0 + 128) >> 6 & 3) * TABLE_TILE, d0 + 128);
    fetch_table(t, AT_T + ((d0 + 64) >> 6 & 3) * TABLE_TILE, d0 + 64);
    fetch_table(t, AT_T + (d0 >> 6 & 3) * TABLE_TILE, d0);
    copy_commit();
    copy_wait();
    __syncthreads();
    {                           // fill the window: the two productions before the first tile
        u32 q[HEAD / 16][4], y[8];
        load_a(q, r.a_at + AT_Q);
#pragma unroll
        for (int j = 0; j < 7; j++) r.pool[j] = 0u;
#pragma unroll 1
        for (int d = d0 + 128; d > d0; d -= 64) skew(t, AT_T + (d >> 6 & 3) * TABLE_TILE, q, r.pool, r.later, y);
    }
#pragma unroll 1
    for (; d0 > 0; d0 -= 64) step<NEAR>(p, t, r, (d0 >> 6) & 1, i0 - d0, d0, codes, column_random, dk, dv, dtable);
#pragma unroll 1
    for (int P = 0; P < 2; P++) step<LAST>(p, t, r, P, i0 + 64 * P, -64 * P, codes, column_random, dk, dv, dtable);

    __syncthreads();            // the tiles of keys are free now
    store_rows(p.result + ((long long)batch * p.result_batch + (long long)head * p.result_head), p.result_row, i0, p.length, r.dq, p.natural, p.natural, shared);
}
