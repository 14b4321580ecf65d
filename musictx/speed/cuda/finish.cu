// Multiplies accumulators by a factor and converts them from the layout of backward.cu to row-major order and the inputs' type.

enum { SHARED_BYTES = 0 };

// grid (batch * heads, blocks), 256 threads with 16 numbers each.
extern "C" __global__ void __launch_bounds__(THREADS) relative_finish(const __grid_constant__ Arguments p) {
    const int bh = blockIdx.x, at = blockIdx.y * THREADS + threadIdx.x, row = (at >> 5) * 8 + (at & 7), part = at >> 3 & 3;
    if (row >= p.length) return;
    const float* from = p.dk + ((long long)bh * ((p.length + 7) / 8 * 8 * HEAD) + 16 * at);
    float x[16];
#pragma unroll
    for (int i = 0; i < 16; i += 4) *(float4*)(x + i) = *(const float4*)(from + i);
    u32 y[8];                   // the pair of numbers 8 y + 2 z and that + 1 is at 4 z + 2 y
#pragma unroll
    for (int i = 0; i < 8; i++) {
        const int index = 4 * (i & 3) + 2 * (i >> 2);
        y[i] = pack(x[index] * p.natural_scale, x[index + 1] * p.natural_scale);
    }
    uint4* to = (uint4*)(p.result + ((long long)(bh / p.heads) * p.result_batch + (long long)(bh % p.heads) * p.result_head + (long long)row * p.result_row + 16 * part));
    to[0] = make_uint4(y[0], y[1], y[2], y[3]);
    to[1] = make_uint4(y[4], y[5], y[6], y[7]);
}
