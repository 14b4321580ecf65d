// Host stand-ins for the device functions of musictx/speed/cuda: a block of 256 fibers, operations of a warp through an exchange
// buffer, shared memory as an array with addresses from 0. Included by the kernels' source under EMULATE; emulate.cpp has the rest.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
using std::max; using std::min;

#define __global__
#define __device__
#define __grid_constant__
#define __launch_bounds__(...)
#define DEVICE inline
#define INF INFINITY
struct Dim { unsigned x, y, z; };
struct uint4 { uint32_t x, y, z, w; };
struct float4 { float x, y, z, w; };
inline uint4 make_uint4(uint32_t x, uint32_t y, uint32_t z, uint32_t w) { return {x, y, z, w}; }
extern Dim threadIdx, blockIdx, gridDim;        // threadIdx is set at every switch of fibers
extern unsigned char shared_bytes[];
#define DYNAMIC_SHARED unsigned char* const shared = shared_bytes

enum Kind { MATRICES = 1, TRANSPOSED, STORED, MMA, SHUFFLE, WARP, ROWS, TILES };
struct Slot { Kind kind; uint32_t u[10]; float f[32]; int n, columns; };
Slot& collective(const Slot& in);               // waits for the 32 lanes, returns this lane's result
void block_barrier();
void copy_later(uint32_t to, const void* from, bool valid);
void copies_arrive();
void product(std::function<void()> act);          // at once, or when it is waited for
void products_committed();
void products_awaited(int left);
void check_shared(uint32_t at, uint32_t bytes);
void check_sum(const float* at, int count);

inline void __syncthreads() { block_barrier(); }
inline void __syncwarp() { Slot s{}; s.kind = WARP; collective(s); }
inline uint32_t shared_address(const void*) { return 0; }
inline int thread_index() { return threadIdx.x; }
inline uint32_t multiply_add(uint32_t a, uint32_t b, uint32_t c) { return a * b + c; }
inline uint32_t flip(uint32_t at, int bits) { return at ^ bits; }
inline void copy_async16(uint32_t to, const void* from, bool valid) { copy_later(to, from, valid); }
inline void copy_async16_if(uint32_t to, const void* from, bool condition) { if (condition) copy_later(to, from, true); }
inline void copy_async_commit() {}
inline void copy_async_wait() { copies_arrive(); }
inline void store_shared16(uint32_t at, uint32_t x) { check_shared(at, 16); for (int i = 0; i < 4; i++) memcpy(shared_bytes + at + 4 * i, &x, 4); }
inline void store_shared2(uint32_t at, uint32_t x) { check_shared(at, 2); memcpy(shared_bytes + at, &x, 2); }
inline void atomic_add1(float* to, float x) { check_sum(to, 1); *to += x; }
inline void atomic_add4(float* to, float a, float b, float c, float d) { check_sum(to, 4); to[0] += a; to[1] += b; to[2] += c; to[3] += d; }
inline void ldmatrix(uint32_t (&r)[4], uint32_t at) {
    Slot s{}; s.kind = MATRICES; s.u[0] = at; Slot& o = collective(s); memcpy(r, o.u, 16);
}
inline void ldmatrix_trans(uint32_t (&r)[4], uint32_t at) {
    Slot s{}; s.kind = TRANSPOSED; s.u[0] = at; Slot& o = collective(s); memcpy(r, o.u, 16);
}
inline void stmatrix(uint32_t at, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
    Slot s{}; s.kind = STORED; s.u[0] = at; s.u[1] = a; s.u[2] = b; s.u[3] = c; s.u[4] = d; collective(s);
}
inline void mma(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    Slot s{}; s.kind = MMA; memcpy(s.u, a, 16); s.u[4] = b0; s.u[5] = b1; memcpy(s.f, c, 16);
    Slot& o = collective(s); memcpy(c, o.f, 16);
}
inline float shuffle_xor(float x, int m) { Slot s{}; s.kind = SHUFFLE; s.f[0] = x; s.n = m; return collective(s).f[0]; }
inline float bf16_value(uint32_t b) { b <<= 16; float f; memcpy(&f, &b, 4); return f; }
inline uint32_t bf16_bits(float f) {
    uint32_t b; memcpy(&b, &f, 4);
    if (f != f) return 0x7fff;
    return (b + 0x7fff + ((b >> 16) & 1)) >> 16;
}
inline uint32_t half_bits(float f) { _Float16 h = (_Float16)f; uint16_t b; memcpy(&b, &h, 2); return b; }
inline float half_value(uint16_t b) { _Float16 h; memcpy(&h, &b, 2); return (float)h; }
inline float within(float f) { return f > 65504.f ? 65504.f : f < -65504.f ? -65504.f : f; }
inline uint32_t pack_half(float lo, float hi) { return half_bits(within(lo)) | half_bits(within(hi)) << 16; }
inline void unpack_half(float& lo, float& hi, uint32_t r) { lo = half_value(r & 0xffff); hi = half_value(r >> 16); }
inline float to_float(uint32_t b) { return FLOAT16 ? half_value((uint16_t)b) : bf16_value(b & 0xffff); }
inline uint32_t bits_of(float f) { return FLOAT16 ? half_bits(f) : bf16_bits(f); }
inline uint32_t pack(float lo, float hi) { return bits_of(lo) | bits_of(hi) << 16; }
inline float exp2_approx(float x) { return exp2f(x); }
inline float log2_approx(float x) { return log2f(x); }

// Products of warpgroups, warp by warp: each warp has 16 of the 64 rows.
inline uint32_t descriptor_address(uint32_t at) { return at / 16; }
template <int TRANS> inline void wgmma_registers(float (&c)[8][4], const uint32_t (&a)[4], uint32_t place) {
    Slot s{}; s.kind = ROWS; memcpy(s.u, a, 16); s.u[4] = 16 * place; s.n = TRANS; s.columns = 64;
    product([s, &c]() mutable { memcpy(s.f, c, 128); memcpy(c, collective(s).f, 128); });
}
template <int TRANS_A, int TRANS_B, int N> inline void wgmma_shared_any(float (&c)[N][4], uint32_t x, uint32_t y, bool accumulate) {
    Slot s{}; s.kind = TILES; s.u[0] = 16 * x; s.u[1] = 16 * y; s.n = TRANS_A + 2 * TRANS_B; s.columns = 8 * N;
    product([s, &c, accumulate]() mutable { if (accumulate) memcpy(s.f, c, 16 * N); memcpy(c, collective(s).f, 16 * N); });
}
template <int TRANS_A, int TRANS_B> inline void wgmma_shared(float (&c)[8][4], uint32_t x, uint32_t y, bool accumulate) { wgmma_shared_any<TRANS_A, TRANS_B, 8>(c, x, y, accumulate); }
inline void wgmma_shared_half(float (&c)[4][4], uint32_t x, uint32_t y, bool accumulate) { wgmma_shared_any<1, 1, 4>(c, x, y, accumulate); }
inline void wgmma_commit() { products_committed(); }
template <int PENDING = 0, int N> inline void wgmma_wait(float (&)[N][4]) { products_awaited(PENDING); }
inline void materialise(uint32_t (&)[4][4]) {}
template <int N> inline void wgmma_fence(float (&)[N][4]) {}
inline void wgmma_finish(float (&)[8][4]) { products_committed(); products_awaited(0); }
inline int warpgroup() { return threadIdx.x >> 7; }
#if WGMMA
inline void fence_for_wgmma() {}
#endif
