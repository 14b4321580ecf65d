// Causal attention with a relative term, backward, heads of 64: gradients of q, k, v and the table in one pass over the tiles.
//
// A block has 128 queries, as in the forward pass, and meets the keys in order. Weights are computed again: relative logits
// and q k^T as there, P = 2^(logits - log_sum). With dP = dO V^T and delta = <o, do>: dS = P (dP - delta), and
//   dV += P^T dO    dK += dS^T Q    dQ += dS K + dG E    dE += dG^T Q    with dG[i, i - j] = dS[i, j]
// (all but dV times the natural scale at the end). P and dS go to shared memory as they are; dS once more
// as dG, by distance: a cell of row r and column c has its place in column D0 + r - c of row r, in a ring of 256 distances,
// so this store is the skew turned round. A chunk of 64 distances is complete when the tile 64 below is done, so each step
// finishes one. dQ stays in registers; dK, dV and dE are added up in float32 in memory, by blocks at the same time.
//
// All products but the table's with queries are those of warpgroups. Those that need a tile's P, dS and dG run while the next
// tile's relative logits are computed: a step begins with the products of the tile before, and the last are done after the loop.
// A warpgroup has 64 of the block's queries. Of the sums over all 128 the first has dV and the other dK, and each half the head
// of dE.
//
// In the sums' memory 8 rows lie together so that a warp adds 128 neighbours at once: number 16 x + 8 y + 2 z + e of row
// 8 i + g at place 512 i + 128 x + 16 g + 4 z + 2 y + e.

// Blocks that run next to each other have this many tokens of (batch row, head) pairs: their sums fit into the second level
// of cache.
enum { TOKENS_AT_ONCE = 32768 };
enum { Q_TILE = BLOCK_M * PITCH, CELLS = BLOCK_M * 128 /* 64 numbers of 2 bytes a row */, CHUNKS = 4 /* of 64 distances */ };
enum { AT_K = 0, AT_V = 2 * TILE, AT_Q = 3 * TILE, AT_UP = AT_Q + Q_TILE, AT_P = AT_UP + Q_TILE, AT_DS = AT_P + CELLS };
enum { AT_DG = AT_DS + CELLS, AT_T = AT_DG + CHUNKS * CELLS, SHARED_BYTES = AT_T + 4 * TABLE_TILE };

// Rows of a warp's 16 queries lie together in shared memory: row 16 b + g has query 8 a + b with a = turned(g), row 16 b + 8 + g
// the one with 15 - a.
struct Lane {
    u32 pool[7], later[8];      // as in the forward pass
    float dq[HEAD / 8][4], log_sum[2], delta[2], beyond[2], far_sum[2];
    u32 a_at;                   // shared address of the warp's queries for ldmatrix and stmatrix
#if PACKED
    int code[2];
#endif
#if DROP
    u32 random[2];
#endif
};

// Where a step stands: key tile from j0 on, distance d0 of the block's first query to it, and whether there was a tile before.
struct Place { int j0, d0; bool before, near_before; };

HIDDEN int in_eights(int rows) { return (rows + 7) / 8 * 8 * HEAD; }

HIDDEN int sum_of(int row) { return (row >> 3) * 8 * HEAD + (row & 7) * 16; }

HIDDEN int slot(int d) { return d >> 6 & 3; }

HIDDEN void load_a(u32 (&a)[HEAD / 16][4], u32 at) {
#pragma unroll
    for (int kk = 0; kk < HEAD / 16; kk++) load_matrices(a[kk], next16(at, kk));
}

// The products of the tile before, in flight. Its dG's chunk of 64 distances from d0 + 128 on is complete.
template <int MODE> HIDDEN void begin_products(float (&both)[8][4], float (&part)[4][4], const Tile& t, Lane& r, int d0) {
    const int half = group_now(), P = d0 >> 6 & 1;
    multiply_begin(both);
    multiply_begin(r.dq);
    const u32 x = place(t.base + (half ? AT_DS : AT_P)), y = place(t.base + (half ? AT_Q : AT_UP));
#pragma unroll
    for (int kk = 0; kk < BLOCK_M / 16; kk++) multiply_tiles<1, 1>(both, x + kk * 128, y + kk * PITCH, kk > 0);
    if (MODE != FAR) {
        const u32 chunk = place(t.base + AT_DG + slot(d0 + 128) * CELLS), rows = place(t.base + AT_T + slot(d0 + 192) * TABLE_TILE), q = place(t.base + AT_Q + half * HEAD);
        multiply_begin(part);
#pragma unroll
        for (int kk = 0; kk < BLOCK_M / 16; kk++) multiply_half(part, chunk + kk * 128, q + kk * PITCH, kk > 0);
#pragma unroll
        for (int kk = 0; kk < 4; kk++) multiply_tiles<0, 1>(r.dq, chunk + half * 4 * 128 + 2 * kk, rows + kk * PITCH, true);
    }
    const u32 ds = place(t.base + AT_DS + half * 64 * 128), k = place(t.base + AT_K + (1 - P) * TILE);
#pragma unroll
    for (int kk = 0; kk < 4; kk++) multiply_tiles<0, 1>(r.dq, ds + 2 * kk, k + kk * PITCH, true);
    multiply_commit();
}

// Waits for them (LEFT later groups may still run) and adds the sums to those in memory.
template <int MODE, int LEFT> HIDDEN void end_products(float (&both)[8][4], float (&part)[4][4], const Arguments& p, const Tile& t, Lane& r, const Place& at, float* dk, float* dv, float* dtable) {
    multiply_wait<LEFT>(both);
    multiply_wait<LEFT>(r.dq);
    if (MODE != FAR) multiply_wait<LEFT>(part);
    const int thread = thread_now(), lane = thread & 31, half = thread >> 7, row = 16 * (thread >> 5 & 3) + (lane >> 2);
    const int j = at.j0 - 64 + row;
    float* to = (half ? dk : dv) + (sum_of(j) + 4 * (lane & 3));
    if (at.before && j < t.length) {
#pragma unroll
        for (int n = 0; n < 4; n++) add4(to + 128 * n, both[2 * n][0], both[2 * n][1], both[2 * n + 1][0], both[2 * n + 1][1]);
    }
    if (at.before && j + 8 < t.length) {
#pragma unroll
        for (int n = 0; n < 4; n++) add4(to + 8 * HEAD + 128 * n, both[2 * n][2], both[2 * n][3], both[2 * n + 1][2], both[2 * n + 1][3]);
    }
    if (MODE != FAR && at.near_before) {
        const int d = at.d0 + 128 + row;
        float* first = dtable + (sum_of(min(d, t.rows - 1)) + half * 256 + 4 * (lane & 3));
        float* second = dtable + (sum_of(min(d + 8, t.rows - 1)) + half * 256 + 4 * (lane & 3));
#pragma unroll
        for (int n = 0; n < 2; n++) {
            add4(first + 128 * n, part[2 * n][0], part[2 * n][1], part[2 * n + 1][0], part[2 * n + 1][1]);
            add4(second + 128 * n, part[2 * n][2], part[2 * n][3], part[2 * n + 1][2], part[2 * n + 1][3]);
        }
    }
}

// A row's 16 cells to their places by distance: those of column 8 n + pair at `distance` - 8 n, and the next column's one below,
// which is in the piece below where the first is in its piece's first place.
HIDDEN void store_by_distance(const Tile& t, int row, int distance, const u32 (&ds)[8][2], int i) {
    const u32 lane_at = t.base + AT_DG + row * 128 + ((row & 7) << 4) + (distance & 7) * 2;
    u32 at[9];
#pragma unroll
    for (int n = 0; n < 9; n++) {
        const int x = (distance >> 3 << 4) - 16 * n;    // bits 16 to 64: the piece; 128 and 256: the chunk
        at[n] = multiply_add(x & 0x180, CELLS / 128, lane_at ^ (x & 0x70));
    }
    const bool first = (distance & 7) == 0;
    const int below = first ? 14 : -2;
#pragma unroll
    for (int n = 0; n < 8; n++) {
        store2(at[n], ds[n][i]);
        store2((first ? at[n + 1] : at[n]) + below, ds[n][i] >> 16);
    }
}

template <int MODE> HIDDEN void step(const Arguments& p, const Tile& t, Lane& r, const Place& at, const int* codes, const int* column_random, float* dk, float* dv, float* dtable) {
    copy_wait();
    show_to_multiply();
    __syncthreads();            // keys, values and table are there; P, dS and dG of the tile before are complete
    const int d0 = at.d0, j0 = at.j0, P = d0 >> 6 & 1;
    float both[8][4], part[4][4], c[8][4], dp[8][4];
    begin_products<MODE>(both, part, t, r, d0);
    {
        u32 q[HEAD / 16][4], y[8], z[8];
        load_a(q, r.a_at + AT_Q);
        if (MODE != FAR) {
#pragma unroll
            for (int n = 0; n < 8; n++) z[n] = r.later[n];
            skew(t, AT_T + slot(d0) * TABLE_TILE, q, r.pool, r.later, y);
        }
#pragma unroll
        for (int n = 0; n < 8; n++) {
            if (MODE == FAR) { c[n][0] = c[n][1] = r.beyond[0]; c[n][2] = c[n][3] = r.beyond[1]; }
            else { unpack_half(c[n][0], c[n][1], y[n]); unpack_half(c[n][2], c[n][3], z[n]); }
            dp[n][0] = dp[n][1] = DROP ? 0.f : -r.delta[0];
            dp[n][2] = dp[n][3] = DROP ? 0.f : -r.delta[1];
        }
        settle(q);
        const u32 k = place(t.base + AT_K + P * TILE), up = place(t.base + AT_UP + group_now() * 64 * PITCH), v = place(t.base + AT_V);
        multiply_begin(c);
        multiply_begin(dp);
#pragma unroll
        for (int kk = 0; kk < HEAD / 16; kk++) multiply<0>(c, q[kk], k + 2 * kk);
#pragma unroll
        for (int kk = 0; kk < HEAD / 16; kk++) multiply_tiles<0, 0>(dp, up + 2 * kk, v + 2 * kk, true);
        multiply_commit();
    }
    end_products<MODE, 1>(both, part, p, t, r, at, dk, dv, dtable);     // while q k^T and dO V^T run
    multiply_wait(c);
    multiply_wait(dp);
    __syncthreads();            // all have left these values, the keys before, P, dS and dG
    if (d0 >= 0) {
        fetch_keys(t, AT_K + (1 - P) * TILE, AT_V, j0 + 64);
        if (MODE != FAR) fetch_table(t, AT_T + slot(d0 - 64) * TABLE_TILE, d0 - 64);
        copy_commit();
    }
    if (MODE != FAR && d0 <= 0) hide_later(c, d0 < 0, t.g);
#if PACKED
    hide_pieces(c, codes, j0, t.length, r.code[0], r.code[1]);
#endif
    const int thread = thread_now(), lane = thread & 31, b = thread >> 5, pair = 2 * (lane & 3);
    u32 ds[8][2];
#pragma unroll
    for (int n = 0; n < 8; n += 2) {
        u32 used[2][2];
#pragma unroll
        for (int m = n; m < n + 2; m++) {
            float weights[4];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const float weight = power2(c[m][i] * t.c - r.log_sum[i >> 1]);
                weights[i] = weight;
#if DROP
                const u32 column = column_random[min(j0 + 8 * m + pair + (i & 1), t.length - 1)];
                const float factor = keeps(r.random[i >> 1], column, p.threshold) ? p.inverse_share : 0.f;
                weights[i] = weight * factor;
                dp[m][i] = dp[m][i] * factor - r.delta[i >> 1];
#endif
                dp[m][i] *= weight;
            }
            if (MODE == FAR) {
                r.far_sum[0] += dp[m][0] + dp[m][1];
                r.far_sum[1] += dp[m][2] + dp[m][3];
            }
#pragma unroll
            for (int i = 0; i < 2; i++) {
                used[m - n][i] = pack(weights[2 * i], weights[2 * i + 1]);
                ds[m][i] = pack(dp[m][2 * i], dp[m][2 * i + 1]);
            }
        }
        store_matrices(flip(r.a_at, n << 4) + AT_P, used[0][0], used[0][1], used[1][0], used[1][1]);
        store_matrices(flip(r.a_at, n << 4) + AT_DS, ds[n][0], ds[n][1], ds[n + 1][0], ds[n + 1][1]);
    }
    if (MODE != FAR) {
        const int row = 16 * b + (lane >> 2);
        store_by_distance(t, row, d0 + 8 * t.g + b - pair, ds, 0);
        store_by_distance(t, row + 8, d0 + 8 * (15 - t.g) + b - pair, ds, 1);
    }
}

// A block's 128 rows to shared memory; zeros beyond the length.
HIDDEN void fetch_queries(const Tile& t, u32 to, const half_t* from, int row_stride, int i0) {
    const int thread = thread_now(), piece = thread % PIECES;
#pragma unroll 1
    for (int row = thread / PIECES; row < BLOCK_M; row += ROWS_A_PASS) {
        const int a = turned(row & 7), i = i0 + 8 * (row & 8 ? 15 - a : a) + (row >> 4);
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
            float* to = dtable + sum_of(t.rows - 1) + 128 * (n >> 1) + 2 * pair + 2 * (n & 1);
            add1(to, x[0]); add1(to + 1, x[1]);
        }
    }
}

// The block's (batch row, head) pair, and which block of its queries, the last first.
HIDDEN void find_block(const Arguments& p, int& pair, int& block) {
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
    find_block(p, bh, block);
    const int i0 = block * BLOCK_M, batch = bh / p.heads, head = bh % p.heads, lane = threadIdx.x & 31, b = threadIdx.x >> 5;
    Tile t;
    set_up(t, p, shared_address(shared), batch, head);
    const int* codes = PACKED ? p.key_codes + (long long)batch * p.length : 0;
    const int* column_random = DROP ? p.column_random + (long long)bh * p.length : 0;
    float* dk = p.dk + (long long)bh * in_eights(p.length);
    float* dv = p.dv + (long long)bh * in_eights(p.length);
    float* dtable = p.dtable + (long long)(bh % p.slots) * in_eights(p.rows);
    const half_t* up = p.up + ((long long)batch * p.up_batch + (long long)head * p.up_head);

    int d0 = i0 - 64 * first_step(p, batch, i0);
    const int near_from = i0 - 64 * first_near(i0, p.rows);
    fetch_queries(t, AT_Q, p.q + ((long long)batch * p.q_batch + (long long)head * p.q_head), p.q_row, i0);
    fetch_queries(t, AT_UP, up, p.up_row, i0);
    fetch_keys(t, AT_K, AT_V, i0 - d0);
    if (d0 <= near_from) {
#pragma unroll 1
        for (int d = d0 + 192; d >= d0; d -= 64) fetch_table(t, AT_T + slot(d) * TABLE_TILE, d);
    }
    copy_commit();
    // Before the first tile there is nothing: products of zeros.
    for (int at = threadIdx.x * 16; at < AT_T - AT_P; at += THREADS * 16) store16(t.base + AT_P + at, 0u);
    for (int at = threadIdx.x * 16; at < TILE; at += THREADS * 16) store16(t.base + AT_K + TILE + at, 0u);

    Lane r;
    r.a_at = t.base + (16 * b + (lane & 15)) * PITCH + swizzled(lane & 15, lane >> 4);
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

    Place at{i0 - d0, d0, false, false};
    if (d0 > near_from) {
        u32 q[HEAD / 16][4];
        load_rows(q, p.q + ((long long)batch * p.q_batch + (long long)head * p.q_head), p.q_row, i0, p.length);
        meet_last(r.beyond, t, q);
#pragma unroll 1
        for (; at.d0 > near_from; at.d0 -= 64, at.j0 += 64, at.before = true) step<FAR>(p, t, r, at, codes, column_random, dk, dv, dtable);
        spread_far(t, r, dtable);
#pragma unroll 1
        for (int d = at.d0 + 192; d >= at.d0; d -= 64) fetch_table(t, AT_T + slot(d) * TABLE_TILE, d);
        copy_commit();
    }
    copy_wait();
    __syncthreads();
    {                           // fill the window: the two productions before the first tile
        u32 q[HEAD / 16][4], y[8];
        load_a(q, r.a_at + AT_Q);
#pragma unroll
        for (int j = 0; j < 7; j++) r.pool[j] = 0u;
#pragma unroll 1
        for (int d = at.d0 + 128; d > at.d0; d -= 64) skew(t, AT_T + slot(d) * TABLE_TILE, q, r.pool, r.later, y);
    }
#pragma unroll 1
    for (; at.d0 >= -64; at.d0 -= 64, at.j0 += 64, at.before = at.near_before = true) step<NEAR>(p, t, r, at, codes, column_random, dk, dv, dtable);

    show_to_multiply();
    __syncthreads();            // P, dS and dG of the last tile are complete
    {
        float both[8][4], part[4][4];
        begin_products<NEAR>(both, part, t, r, at.d0);
        end_products<NEAR, 0>(both, part, p, t, r, at, dk, dv, dtable);
    }
    __syncthreads();            // the tiles of keys are free now
    store_rows(p.result + ((long long)batch * p.result_batch + (long long)head * p.result_head), p.result_row, i0, p.length, r.dq, p.natural, p.natural, shared);
}
