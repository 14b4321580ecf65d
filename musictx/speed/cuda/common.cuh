// What the two passes share: tiles in shared memory, and the skew in registers.
//
// A block has 128 queries of one (batch row, head) and 8 warps; warp b owns the rows r = 8 a + b. Keys come in tiles of 64,
// c = 8 t + w. The distance of a cell is (D0 + b - w) + 8 (a - t), D0 = first query - first key, so with
//   G_b[a, u, w] = q_(8 a + b) . E[D0 + b + 8 u - w]        the relative logit of (a, t, w) is G_b[a, a - t, w].
// G_b comes from mma with a B operand of table rows in descending distance, at row addresses of the warp's b. What is
// left of the skew picks whole n-tiles u = a - t: a barrel of three stages of selects on packed halves, steered by three bits
// of the lane.
//
// The 16 rows of a warp's mma are a = 0..7 (row g of the accumulator, g = lane / 4) and a = 15 - g (row g + 8), so the two
// rows of a lane shift by g and, one tile later, by 7 - g: the second row's barrel gives the relative logits of the NEXT tile
// (u grows by 8 a step), which wait a step in 8 registers. Of the n-tiles of the step before, the first row needs g and the
// second 7 - g: they share 7 registers.

// The kernels' one argument; musictx/speed/cuda/kernel.py has the same fields. Strides in elements.
struct Arguments {
    const half_t *q, *k, *v, *table, *out, *up;     // out, up: the output and its gradient, for the backward pass
    half_t* result;                                 // the output, or the gradient of q
    float *log_sum;                                 // base 2, (batch, heads, length)
    float *dk, *dv, *dtable;                        // sums in the order of backward.cu: (batch, heads, length, HEAD) twice, (slots, rows, HEAD)
    const int *query_codes, *key_codes, *key_first, *row_random, *column_random;
    int q_batch, q_head, q_row, k_batch, k_head, k_row, v_batch, v_head, v_row;
    int out_batch, out_head, out_row, up_batch, up_head, up_row, result_batch, result_head, result_row;
    int heads, length, rows, table_head, slots, threshold;
    float scale, natural, inverse_share;            // scale = natural * log2(e)
};

enum { BLOCK_M = 128, BLOCK_N = 64, THREADS = 256, PITCH = 2 * HEAD /* bytes of a shared row */, TABLE_ROWS = 72 };
enum { TILE = BLOCK_N * PITCH, TABLE_TILE = TABLE_ROWS * PITCH };
enum { PIECES = HEAD / 8 /* of 16 bytes a row */, ROWS_A_PASS = THREADS / PIECES };
enum { FAR = 0, NEAR = 1, LAST = 2 };
#define NOTHING_SEEN 1e30f      // log of the sum of weights of a row that sees no key
#define LOWEST -1e30f

struct Tile {
    const half_t *k, *v, *table;    // of this batch row and head
    int k_row, v_row, length, rows;
    u32 base;                       // shared address
    u32 b_at, v_at, t_at;           // this lane's ldmatrix rows; the other pieces of a row differ in the bits 32 and 64, and by 128
    int g;                          // first row of this lane, turned(lane / 4)
    bool bit4, bit2, bit1;          // of g
    float c;                        // Arguments::scale
};

HIDDEN u32 pick(bool p, u32 yes, u32 no) { return p ? yes : no; }

// The first row a of lane group g, 0 to 7; the second is 15 - a. Turned, cells that a warp stores by distance, a piece of 16 bytes
// further on from row to row, meet (nearly) all banks although row g lies in the g-th place of the 128-byte swizzle.
HIDDEN int turned(int g) { return TURNED ? ((g << 1) ^ (g >> 2) * 3) & 7 : g; }

// Piece `piece` of 16 bytes lies in row `row` of a tile at this place: any 8 neighbouring rows meet all banks.
HIDDEN int swizzled(int row, int piece) { return (HEAD >= 64 ? piece ^ (row & 7) : piece ^ ((row >> 1) & 3)) << 4; }

// Where the second of a row's 32 numbers lie, and the third and so on; and the second 16 numbers.
HIDDEN u32 next32(u32 at, int h) { return flip(at, (h & 1) * 64) + (h >> 1) * 128; }
HIDDEN u32 next16(u32 at, int n) { return flip(at, (n & 3) * 32) + (n >> 2) * 128; }

// 64 rows of keys and of values from row j0 on to shared addresses; rows from the length on become zeros. What depends on
// the thread is computed anew each time: it would cost ten registers to keep.
HIDDEN void fetch_keys(const Tile& t, u32 k_to, u32 v_to, int j0) {
    const int thread = thread_now(), row = thread / PIECES, piece = thread % PIECES;
    const u32 to = t.base + row * PITCH + swizzled(row, piece);
#pragma unroll
    for (int i = 0; i < BLOCK_N / ROWS_A_PASS; i++) {
        const int j = j0 + row + ROWS_A_PASS * i;
        const bool valid = j < t.length;
        const int at = valid ? j : 0;
        copy16(to + k_to + i * ROWS_A_PASS * PITCH, t.k + ((long long)at * t.k_row + piece * 8), valid);
        copy16(to + v_to + i * ROWS_A_PASS * PITCH, t.v + ((long long)at * t.v_row + piece * 8), valid);
    }
}

// Table rows of the distances d0 - 64 to d0 + 7, clipped to 0..rows-1 (below 0 they are masked later).
HIDDEN void fetch_table(const Tile& t, u32 table_to, int d0) {
    const int thread = thread_now(), row = thread / PIECES, piece = thread % PIECES;
    const u32 to = t.base + row * PITCH + swizzled(row, piece);
#pragma unroll
    for (int i = 0; i < (TABLE_ROWS + ROWS_A_PASS - 1) / ROWS_A_PASS; i++) {
        const int d = min(max(d0 - 64 + row + ROWS_A_PASS * i, 0), t.rows - 1);
        copy16_if(to + table_to + i * ROWS_A_PASS * PITCH, t.table + (d * HEAD + piece * 8), ROWS_A_PASS * (i + 1) <= TABLE_ROWS || row < TABLE_ROWS - ROWS_A_PASS * i);
    }
}

// y[t] = n-tile u = shift - t of 15 (u = i - 7), shift = 4 bit4 + 2 bit2 + bit1: 28 selects.
HIDDEN void barrel(bool bit4, bool bit2, bool bit1, const u32 (&x)[15], u32 (&y)[8]) {
    u32 a[11], b[9];
#pragma unroll
    for (int i = 0; i < 11; i++) a[i] = pick(bit4, x[i + 4], x[i]);
#pragma unroll
    for (int i = 0; i < 9; i++) b[i] = pick(bit2, a[i + 2], a[i]);
#pragma unroll
    for (int i = 0; i < 8; i++) y[7 - i] = pick(bit1, b[i + 1], b[i]);
}

// New n-tiles of G from the table tile at `table_at` in, relative logits out: y for row a = g of this tile, `later` for row
// a = 15 - g of the next one. The old n-tiles u = 1..7 share a pool: row a = g reads u = 1..g only, row a = 15 - g reads
// u = 1..7-g only, so slot u - 1 serves the first and slot 7 - u the second.
HIDDEN void skew(const Tile& t, u32 table_at, const u32 (&q)[HEAD / 16][4], u32 (&pool)[7], u32 (&later)[8], u32 (&y)[8]) {
    u32 n0[8], n1[8], x[15], at[HEAD / 32];
#pragma unroll
    for (int h = 0; h < HEAD / 32; h++) at[h] = next32(t.t_at, h);
#pragma unroll
    for (int k = 7; k >= 0; k--) {      // n-tile u = k - 7
        float sum[4] = {0.f, 0.f, 0.f, 0.f};
#pragma unroll
        for (int h = 0; h < HEAD / 32; h++) {
            u32 b[4];
            load_matrices(b, at[h] + table_at + k * 8 * PITCH);
            mma(sum, q[2 * h], b[0], b[1]);
            mma(sum, q[2 * h + 1], b[2], b[3]);
        }
        n0[k] = pack_half(sum[0], sum[1]);
        n1[k] = pack_half(sum[2], sum[3]);
    }
#pragma unroll
    for (int i = 0; i < 15; i++) x[i] = i < 8 ? n0[i & 7] : pool[(i - 8) % 7];
    barrel(t.bit4, t.bit2, t.bit1, x, y);
#pragma unroll
    for (int i = 0; i < 15; i++) x[i] = i < 8 ? n1[i & 7] : pool[(14 - i) % 7];
    barrel(!t.bit4, !t.bit2, !t.bit1, x, later);
#pragma unroll
    for (int j = 0; j < 7; j++) pool[j] = pick(t.g > j, n0[j], n1[6 - j]);
}

// Later keys out, in the two tiles at the diagonal: a cell of row g, column 8 n + w, is seen if 8 n + w <= D0 + b + 8 g.
// second: D0 = -64, row a = g sees no key; else D0 = 0, row a = 15 - g sees all 64.
HIDDEN void hide_later(float (&c)[8][4], bool second, int g) {
    const int thread = thread_now(), edge = (thread >> 5) + 8 * turned((thread & 31) >> 2) - 2 * (thread & 3);
#pragma unroll
    for (int n = 0; n < 8; n++) {
        const int left = edge - 8 * n;
        if (!second) {
            if (left < 0) c[n][0] = -INFINITE;
            if (left < 1) c[n][1] = -INFINITE;
        } else {
            c[n][0] = c[n][1] = -INFINITE;
            const int other = left + 56 - 16 * g;
            if (other < 0) c[n][2] = -INFINITE;
            if (other < 1) c[n][3] = -INFINITE;
        }
    }
}

// Keys of other pieces out: `codes` those of all keys, from j0 on those of the tile.
HIDDEN void hide_pieces(float (&c)[8][4], const int* codes, int j0, int length, int code0, int code1) {
#pragma unroll
    for (int n = 0; n < 8; n++) {
#pragma unroll
        for (int e = 0; e < 2; e++) {
            const int code = codes[min(j0 + 8 * n + 2 * (thread_now() & 3) + e, length - 1)];
            if (code != code0) c[n][e] = -INFINITE;
            if (code != code1) c[n][2 + e] = -INFINITE;
        }
    }
}

// Whether dropout keeps a weight: 24 bits of a hash of a random number of the query and one of the key.
HIDDEN bool keeps(u32 row, u32 column, int threshold) {
    u32 x = row ^ column;
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    x *= 0x846ca68bu;
    return (int)(x >> 8) >= threshold;
}

// The first step (an even number of tiles of 64 keys) in which a query of the block sees a key.
HIDDEN int first_step(const Arguments& p, int batch, int i0) {
#if PACKED
    float first = (float)i0;    // exact: fewer than 2^24 keys
    for (int i = 0; i < 4; i++) {
        const int at = i0 + 32 * i + (thread_now() & 31);
        if (at < p.length) first = fminf(first, (float)p.key_first[(long long)batch * p.length + at]);
    }
    for (int m = 1; m < 32; m *= 2) first = fminf(first, shuffle_xor(first, m));
    return (int)first / 128 * 2;
#else
    return 0;
#endif
}

// Steps before it have only clipped distances (an even number).
HIDDEN int first_near(int i0, int rows) { return i0 - 62 - rows >= 0 ? ((i0 - 62 - rows) / 64 + 1) & ~1 : 0; }

// Number of the query that row i (0: a = g, 1: a = 15 - g) of this thread's accumulators is.
HIDDEN int query_of(int i0, int i) {
    const int thread = threadIdx.x, g = turned((thread & 31) >> 2);
    return i0 + 8 * (i ? 15 - g : g) + (thread >> 5);
}

HIDDEN void set_up(Tile& t, const Arguments& p, u32 base, int batch, int head) {
    const int lane = threadIdx.x & 31, b = threadIdx.x >> 5, w = lane & 7, first = lane >> 3, off = 8 + b - w;
    t.k = p.k + ((long long)batch * p.k_batch + (long long)head * p.k_head);
    t.v = p.v + ((long long)batch * p.v_batch + (long long)head * p.v_head);
    t.table = p.table + (long long)head * p.table_head;
    t.k_row = p.k_row; t.v_row = p.v_row; t.length = p.length; t.rows = p.rows; t.c = p.scale;
    t.g = turned(lane >> 2); t.bit4 = (t.g & 4) != 0; t.bit2 = (t.g & 2) != 0; t.bit1 = (t.g & 1) != 0;
    t.base = base;
    t.b_at = base + w * PITCH + swizzled(w, first);
    t.t_at = base + off * PITCH + swizzled(off, first);
    t.v_at = base + (lane & 15) * PITCH + swizzled(lane & 15, lane >> 4);
}

// q of the warp's 16 queries as an A operand; zeros beyond the length.
HIDDEN void load_rows(u32 (&r)[HEAD / 16][4], const half_t* from, int row, int i0, int length) {
    const int pair = 2 * (threadIdx.x & 3);
#pragma unroll
    for (int kk = 0; kk < HEAD / 16; kk++) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int at = query_of(i0, i & 1);
            r[kk][i] = at < length ? *(const u32*)(from + ((long long)at * row + 16 * kk + 8 * (i >> 1) + pair)) : 0u;
        }
    }
}

// <q, row M - 1 of the table> of the two rows: the relative logit of tiles whose every distance is clipped.
HIDDEN void meet_last(float (&beyond)[2], const Tile& t, const u32 (&q)[HEAD / 16][4]) {
    const u32* e = (const u32*)(t.table + ((t.rows - 1) * HEAD + 2 * (thread_now() & 3)));
    float sum[4] = {0.f, 0.f, 0.f, 0.f};
#pragma unroll
    for (int kk = 0; kk < HEAD / 16; kk++) mma(sum, q[kk], e[8 * kk], e[8 * kk + 4]);       // all 8 columns are that row
    beyond[0] = sum[0]; beyond[1] = sum[2];
}

// The warp's 16 rows, each times a factor, to memory: turned round in 32 HEAD bytes of shared memory a warp.
HIDDEN void store_rows(half_t* to, int row, int i0, int length, const float (&x)[HEAD / 8][4], float factor0, float factor1, unsigned char* shared) {
    const int thread = thread_now(), lane = thread & 31, b = thread >> 5, g = turned(lane >> 2), pair = 2 * (lane & 3);
    unsigned char* mine = shared + b * 16 * PITCH;
#pragma unroll
    for (int n = 0; n < HEAD / 8; n++) {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const int a = i ? 15 - g : g;
            const float factor = i ? factor1 : factor0;
            *(u32*)(mine + a * PITCH + swizzled(a, n) + 2 * pair) = pack(x[n][2 * i] * factor, x[n][2 * i + 1] * factor);
        }
    }
    __syncwarp();
#pragma unroll
    for (int i = 0; i < PIECES / 2; i++) {
        const int a = (32 / PIECES) * i + lane / PIECES, n = lane % PIECES, at = i0 + 8 * a + b;
        if (at < length) *(uint4*)(to + ((long long)at * row + n * 8)) = *(const uint4*)(mine + a * PITCH + swizzled(a, n));
    }
}
