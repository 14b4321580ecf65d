// Common to both passes: tiles in shared memory, and the skew in registers.
//
// A block has 128 queries of one (batch row, head) and 8 warps; warp b has the rows r = 8 a + b. Keys come in tiles of 64:
// column c = 8 t + w. The distance of a cell is (D0 + b - w) + 8 (a - t), where D0 = first query - first key. So with
//   G_b[a, u, w] = q_(8 a + b) . E[D0 + b + 8 u - w]        the relative logit of (a, t, w) is G_b[a, a - t, w].
// G_b is an mma whose B operand is table rows in descending distance; their addresses depend on the warp's b. The rest of
// the skew selects whole n-tiles u = a - t: a barrel shifter of three stages on packed halves, controlled by three bits of the
// lane number.
//
// The 16 rows of a warp's mma are a = 0..7 (row g of the accumulator, g = lane / 4) and a = 15 - g (row g + 8). So the two
// rows of a lane shift by g and, one tile later, by 7 - g: the second row's shifter gives the relative logits of the NEXT tile
// (u grows by 8 per step), which stay in 8 registers for one step. Of the previous step's n-tiles the first row needs g and
// the second 7 - g, so they share 7 registers.
//
// Names: ..._at is an address in shared memory, or an offset from its base; a vector is 16 bytes of a row.

// The argument of all kernels; musictx/speed/cuda/kernel.py has the same fields in the same order. Strides are in elements.
struct Arguments {
    const half_t *q, *k, *v, *table, *out, *up;     // out, up: the output and its gradient, for the backward pass
    half_t* result;                                 // the output, or the gradient of q
    float *log_sum;                                 // base 2, (batch, heads, length)
    float *dk, *dv, *dtable;                        // accumulators in the layout of backward.cu: (batch, heads, length, HEAD) twice, (slots, rows, HEAD)
    const int *query_codes, *key_codes, *key_first, *row_random, *column_random;
    int q_batch, q_head, q_row, k_batch, k_head, k_row, v_batch, v_head, v_row;
    int out_batch, out_head, out_row, up_batch, up_head, up_row, result_batch, result_head, result_row;
    int heads, length, rows, table_head, slots, threshold;
    float scale, natural_scale, inverse_share;      // scale = natural_scale * log2(e)
};

enum { BLOCK_M = 128, BLOCK_N = 64, THREADS = 256, PITCH = 2 * HEAD /* bytes of a shared row */, TABLE_ROWS = 72 };
enum { TILE = BLOCK_N * PITCH, TABLE_TILE = TABLE_ROWS * PITCH };
enum { VECTORS = HEAD / 8 /* in a row */, ROWS_PER_PASS = THREADS / VECTORS };
enum { FAR = 0, NEAR = 1, LAST = 2 };
#define NO_KEYS 1e30f           // log of the sum of weights of a query that attends to no key
#define LOWEST_LOGIT -1e30f

struct Tile {
    const half_t *k, *v, *table;    // of this batch row and head
    int k_row, v_row, length, rows;
    u32 base;                       // of shared memory
    u32 b_at, v_at, t_at;           // this lane's rows for ldmatrix; advance16 and advance32 give the other vectors of a row
    int g;                          // the first row of this lane, first_row(lane / 4)
    bool bit4, bit2, bit1;          // of g
    float c;                        // Arguments::scale
};

DEVICE u32 select(bool p, u32 yes, u32 no) { return p ? yes : no; }

// The first row a, 0 to 7, of lane group g; its second row is 15 - a. PERMUTED avoids nearly all bank conflicts where a warp
// stores cells by distance: there the vector advances by one from row to row, and so does the 128-byte swizzle.
DEVICE int first_row(int g) { return PERMUTED ? ((g << 1) ^ (g >> 2) * 3) & 7 : g; }

// The offset in bytes of a vector within row `row` of a tile: a swizzle, so that any 8 adjacent rows cover all banks.
DEVICE int swizzle(int row, int vector) { return (HEAD >= 64 ? vector ^ (row & 7) : vector ^ ((row >> 1) & 3)) << 4; }

// The address of number 32 h, or 16 n, in the row that begins at `at`.
DEVICE u32 advance32(u32 at, int h) { return flip(at, (h & 1) * 64) + (h >> 1) * 128; }
DEVICE u32 advance16(u32 at, int n) { return flip(at, (n & 3) * 32) + (n >> 2) * 128; }

// Copies the keys and values of rows j0 to j0 + 63 to shared memory; rows beyond the length become zeros. What depends on the
// thread is computed again in each call, because storing it would take ten registers.
DEVICE void fetch_keys(const Tile& t, u32 k_to, u32 v_to, int j0) {
    const int thread = thread_index(), row = thread / VECTORS, vector = thread % VECTORS;
    const u32 to = t.base + row * PITCH + swizzle(row, vector);
#pragma unroll
    for (int i = 0; i < BLOCK_N / ROWS_PER_PASS; i++) {
        const int j = j0 + row + ROWS_PER_PASS * i;
        const bool valid = j < t.length;
        const int at = valid ? j : 0;
        copy_async16(to + k_to + i * ROWS_PER_PASS * PITCH, t.k + ((long long)at * t.k_row + vector * 8), valid);
        copy_async16(to + v_to + i * ROWS_PER_PASS * PITCH, t.v + ((long long)at * t.v_row + vector * 8), valid);
    }
}

// Copies the table rows of the distances d0 - 64 to d0 + 7, clipped to 0..rows-1 (cells below 0 are masked later).
DEVICE void fetch_table(const Tile& t, u32 tile_at, int d0) {
    const int thread = thread_index(), row = thread / VECTORS, vector = thread % VECTORS;
    const u32 to = t.base + row * PITCH + swizzle(row, vector);
#pragma unroll
    for (int i = 0; i < (TABLE_ROWS + ROWS_PER_PASS - 1) / ROWS_PER_PASS; i++) {
        const int d = min(max(d0 - 64 + row + ROWS_PER_PASS * i, 0), t.rows - 1);
        copy_async16_if(to + tile_at + i * ROWS_PER_PASS * PITCH, t.table + (d * HEAD + vector * 8), ROWS_PER_PASS * (i + 1) <= TABLE_ROWS || row < TABLE_ROWS - ROWS_PER_PASS * i);
    }
}

// y[t] = n-tile u = shift - t of 15 (u = i - 7), shift = 4 bit4 + 2 bit2 + bit1: 28 selects.
DEVICE void barrel_shift(bool bit4, bool bit2, bool bit1, const u32 (&x)[15], u32 (&y)[8]) {
    u32 a[11], b[9];
#pragma unroll
    for (int i = 0; i < 11; i++) a[i] = select(bit4, x[i + 4], x[i]);
#pragma unroll
    for (int i = 0; i < 9; i++) b[i] = select(bit2, a[i + 2], a[i]);
#pragma unroll
    for (int i = 0; i < 8; i++) y[7 - i] = select(bit1, b[i + 1], b[i]);
}

// Computes the next n-tiles of G from the table tile at `table_at`, and the relative logits: y for row a = g of this tile,
// `next_logits` for row a = 15 - g of the next tile. The previous n-tiles u = 1..7 share a pool: row a = g reads only u = 1..g,
// row a = 15 - g only u = 1..7-g, so entry u - 1 belongs to the first row and entry 7 - u to the second.
DEVICE void skew(const Tile& t, u32 table_at, const u32 (&q)[HEAD / 16][4], u32 (&pool)[7], u32 (&next_logits)[8], u32 (&y)[8]) {
    u32 n0[8], n1[8], x[15], at[HEAD / 32];
#pragma unroll
    for (int h = 0; h < HEAD / 32; h++) at[h] = advance32(t.t_at, h);
#pragma unroll
    for (int k = 7; k >= 0; k--) {      // n-tile u = k - 7
        float sum[4] = {0.f, 0.f, 0.f, 0.f};
#pragma unroll
        for (int h = 0; h < HEAD / 32; h++) {
            u32 b[4];
            ldmatrix(b, at[h] + table_at + k * 8 * PITCH);
            mma(sum, q[2 * h], b[0], b[1]);
            mma(sum, q[2 * h + 1], b[2], b[3]);
        }
        n0[k] = pack_half(sum[0], sum[1]);
        n1[k] = pack_half(sum[2], sum[3]);
    }
#pragma unroll
    for (int i = 0; i < 15; i++) x[i] = i < 8 ? n0[i & 7] : pool[(i - 8) % 7];
    barrel_shift(t.bit4, t.bit2, t.bit1, x, y);
#pragma unroll
    for (int i = 0; i < 15; i++) x[i] = i < 8 ? n1[i & 7] : pool[(14 - i) % 7];
    barrel_shift(!t.bit4, !t.bit2, !t.bit1, x, next_logits);
#pragma unroll
    for (int j = 0; j < 7; j++) pool[j] = select(t.g > j, n0[j], n1[6 - j]);
}

// Masks keys later than the query in the two tiles at the diagonal: the query of row g attends to column 8 n + w if
// 8 n + w <= D0 + b + 8 g. In the second tile (D0 = -64) row a = g attends to no key; in the first (D0 = 0) row a = 15 - g to all.
DEVICE void mask_later_keys(float (&c)[8][4], bool second, int g) {
    const int thread = thread_index(), edge = (thread >> 5) + 8 * first_row((thread & 31) >> 2) - 2 * (thread & 3);
#pragma unroll
    for (int n = 0; n < 8; n++) {
        const int left = edge - 8 * n;
        if (!second) {
            if (left < 0) c[n][0] = -INF;
            if (left < 1) c[n][1] = -INF;
        } else {
            c[n][0] = c[n][1] = -INF;
            const int other = left + 56 - 16 * g;
            if (other < 0) c[n][2] = -INF;
            if (other < 1) c[n][3] = -INF;
        }
    }
}

// Masks keys of other pieces; `codes` has the codes of all keys, and the tile begins at key j0.
DEVICE void mask_other_pieces(float (&c)[8][4], const int* codes, int j0, int length, int code0, int code1) {
#pragma unroll
    for (int n = 0; n < 8; n++) {
#pragma unroll
        for (int e = 0; e < 2; e++) {
            const int code = codes[min(j0 + 8 * n + 2 * (thread_index() & 3) + e, length - 1)];
            if (code != code0) c[n][e] = -INF;
            if (code != code1) c[n][2 + e] = -INF;
        }
    }
}

// Whether dropout keeps a weight, by 24 bits of a hash of the random numbers of its query and its key.
DEVICE bool keep_weight(u32 row, u32 column, int threshold) {
    u32 x = row ^ column;
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    x *= 0x846ca68bu;
    return (int)(x >> 8) >= threshold;
}

// The first step (tile of 64 keys), rounded down to an even number, in which a query of the block attends to a key.
DEVICE int first_step(const Arguments& p, int batch, int i0) {
#if PACKED
    float first = (float)i0;    // exact: fewer than 2^24 keys
    for (int i = 0; i < 4; i++) {
        const int at = i0 + 32 * i + (thread_index() & 31);
        if (at < p.length) first = fminf(first, (float)p.key_first[(long long)batch * p.length + at]);
    }
    for (int m = 1; m < 32; m *= 2) first = fminf(first, shuffle_xor(first, m));
    return (int)first / 128 * 2;
#else
    return 0;
#endif
}

// The first step, rounded down to an even number, with a distance that is not clipped.
DEVICE int first_near(int i0, int rows) { return i0 - 62 - rows >= 0 ? ((i0 - 62 - rows) / 64 + 1) & ~1 : 0; }

// The index of the query in row i (0: a = g, 1: a = 15 - g) of this thread's accumulators.
DEVICE int query_index(int i0, int i) {
    const int thread = threadIdx.x, g = first_row((thread & 31) >> 2);
    return i0 + 8 * (i ? 15 - g : g) + (thread >> 5);
}

DEVICE void init_tile(Tile& t, const Arguments& p, u32 base, int batch, int head) {
    const int lane = threadIdx.x & 31, b = threadIdx.x >> 5, w = lane & 7, first = lane >> 3, off = 8 + b - w;
    t.k = p.k + ((long long)batch * p.k_batch + (long long)head * p.k_head);
    t.v = p.v + ((long long)batch * p.v_batch + (long long)head * p.v_head);
    t.table = p.table + (long long)head * p.table_head;
    t.k_row = p.k_row; t.v_row = p.v_row; t.length = p.length; t.rows = p.rows; t.c = p.scale;
    t.g = first_row(lane >> 2); t.bit4 = (t.g & 4) != 0; t.bit2 = (t.g & 2) != 0; t.bit1 = (t.g & 1) != 0;
    t.base = base;
    t.b_at = base + w * PITCH + swizzle(w, first);
    t.t_at = base + off * PITCH + swizzle(off, first);
    t.v_at = base + (lane & 15) * PITCH + swizzle(lane & 15, lane >> 4);
}

// Loads the warp's 16 rows of q, the output or its gradient as an A operand; zeros beyond the length.
DEVICE void load_rows(u32 (&r)[HEAD / 16][4], const half_t* from, int row, int i0, int length) {
    const int pair = 2 * (threadIdx.x & 3);
#pragma unroll
    for (int kk = 0; kk < HEAD / 16; kk++) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int at = query_index(i0, i & 1);
            r[kk][i] = at < length ? *(const u32*)(from + ((long long)at * row + 16 * kk + 8 * (i >> 1) + pair)) : 0u;
        }
    }
}

// The products of both rows with the table's last row: their relative logits in tiles where all distances are clipped.
DEVICE void last_row_logits(float (&clipped_logit)[2], const Tile& t, const u32 (&q)[HEAD / 16][4]) {
    const u32* e = (const u32*)(t.table + ((t.rows - 1) * HEAD + 2 * (thread_index() & 3)));
    float sum[4] = {0.f, 0.f, 0.f, 0.f};
#pragma unroll
    for (int kk = 0; kk < HEAD / 16; kk++) mma(sum, q[kk], e[8 * kk], e[8 * kk + 4]);       // all 8 columns are that row
    clipped_logit[0] = sum[0]; clipped_logit[1] = sum[2];
}

// Stores the warp's 16 rows, each times a factor. They are reordered in 32 HEAD bytes of shared memory per warp.
DEVICE void store_rows(half_t* to, int row, int i0, int length, const float (&x)[HEAD / 8][4], float factor0, float factor1, unsigned char* shared) {
    const int thread = thread_index(), lane = thread & 31, b = thread >> 5, g = first_row(lane >> 2), pair = 2 * (lane & 3);
    unsigned char* mine = shared + b * 16 * PITCH;
#pragma unroll
    for (int n = 0; n < HEAD / 8; n++) {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const int a = i ? 15 - g : g;
            const float factor = i ? factor1 : factor0;
            *(u32*)(mine + a * PITCH + swizzle(a, n) + 2 * pair) = pack(x[n][2 * i] * factor, x[n][2 * i + 1] * factor);
        }
    }
    __syncwarp();
#pragma unroll
    for (int i = 0; i < VECTORS / 2; i++) {
        const int a = (32 / VECTORS) * i + lane / VECTORS, n = lane % VECTORS, at = i0 + 8 * a + b;
        if (at < length) *(uint4*)(to + ((long long)at * row + n * 8)) = *(const uint4*)(mine + a * PITCH + swizzle(a, n));
    }
}
