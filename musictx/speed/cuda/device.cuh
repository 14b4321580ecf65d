// Compile-time options, and the instructions of the GPU.
//
// Plain CUDA C++ for NVRTC, sm_90 (with WGMMA sm_90a), without headers. With EMULATE it is host C++ (tests/speed). The kernels
// require that rows of all arrays are contiguous and 16-byte aligned, scale > 0, and at least one query and one row of the table.

// Macros that kernel.py defines: HEAD (head size 32, 64 or 128), FLOAT16 (else bfloat16), DROP (dropout), PACKED (packed pieces),
// WGMMA (products with keys and values by WGMMA: sm_90a, HEAD 64), PERMUTED (lane group g has a permuted row: first_row in
// common.cuh), MIN_BLOCKS (blocks that share a multiprocessor).

typedef unsigned int u32;
typedef unsigned short half_t;  // bits of bfloat16 or float16

#ifdef EMULATE
#include "emulate.hpp"
#else
#define INF __int_as_float(0x7f800000)
#define DEVICE __device__ __forceinline__
#if FLOAT16
#define TYPE "f16"
#else
#define TYPE "bf16"
#endif
DEVICE u32 shared_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }
DEVICE void copy_async16(u32 to, const void* from, bool valid) {
    int bytes = valid ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(to), "l"(from), "r"(bytes) : "memory");
}
DEVICE void copy_async16_if(u32 to, const void* from, bool condition) {
    asm volatile("{ .reg .pred p; setp.ne.s32 p, %2, 0; @p cp.async.cg.shared.global [%0], [%1], 16; }" :: "r"(to), "l"(from), "r"((int)condition) : "memory");
}
DEVICE u32 multiply_add(u32 a, u32 b, u32 c) { u32 r; asm("mad.lo.u32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c)); return r; }
DEVICE u32 flip(u32 at, int bits) { return at ^ bits; }
// The thread's index, read again in each call so that it occupies no register.
DEVICE int thread_index() { int r; asm volatile("mov.u32 %0, %%tid.x;" : "=r"(r)); return r; }
DEVICE void copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
DEVICE void copy_async_wait() { asm volatile("cp.async.wait_all;" ::: "memory"); }
DEVICE void ldmatrix(u32 (&r)[4], u32 at) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at) : "memory");
}
DEVICE void ldmatrix_trans(u32 (&r)[4], u32 at) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at) : "memory");
}
DEVICE void mma(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." TYPE "." TYPE ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
DEVICE u32 pack_half(float lo, float hi) {      // relative logits in the skew are float16 for all inputs
    u32 r; asm("cvt.rn.satfinite.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo)); return r;
}
DEVICE void unpack_half(float& lo, float& hi, u32 r) {
    asm("{ .reg .b16 a, b; mov.b32 {a, b}, %2; cvt.f32.f16 %0, a; cvt.f32.f16 %1, b; }" : "=f"(lo), "=f"(hi) : "r"(r));
}
DEVICE u32 pack(float lo, float hi) {           // in the inputs' type
    u32 r; asm("cvt.rn." TYPE "x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo)); return r;
}
DEVICE float to_float(u32 bits) {                  // of the lower 16 bits, in the inputs' type
#if FLOAT16
    float f; asm("{ .reg .b16 a, b; mov.b32 {a, b}, %1; cvt.f32.f16 %0, a; }" : "=f"(f) : "r"(bits)); return f;
#else
    return __int_as_float(bits << 16);
#endif
}
DEVICE float exp2_approx(float x) { float y; asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
DEVICE float log2_approx(float x) { float y; asm("lg2.approx.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
DEVICE float shuffle_xor(float x, int m) { return __shfl_xor_sync(0xffffffffu, x, m); }
DEVICE void store_shared16(u32 at, u32 x) { asm volatile("st.shared.v4.b32 [%0], {%1,%1,%1,%1};" :: "r"(at), "r"(x) : "memory"); }
DEVICE void store_shared2(u32 at, u32 x) { asm volatile("st.shared.b16 [%0], %1;" :: "r"(at), "h"((half_t)x) : "memory"); }
DEVICE void atomic_add1(float* to, float x) { asm volatile("red.relaxed.gpu.global.add.f32 [%0], %1;" :: "l"(to), "f"(x) : "memory"); }
DEVICE void atomic_add4(float* to, float a, float b, float c, float d) {
    asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1,%2,%3,%4};" :: "l"(to), "f"(a), "f"(b), "f"(c), "f"(d) : "memory");
}
#if WGMMA
// WGMMA: products of 4 warps with a tile of 64 rows of 128 bytes in the layout that NVIDIA calls 128-byte swizzle.
// wgmma_registers: c += a x, where x^T is 16 columns of the rows at `at` or, with TRANS, x is the 16 rows at `at`.
#define SUMS(c) "+f"(c[0][0]), "+f"(c[0][1]), "+f"(c[0][2]), "+f"(c[0][3]), "+f"(c[1][0]), "+f"(c[1][1]), "+f"(c[1][2]), "+f"(c[1][3]), "+f"(c[2][0]), "+f"(c[2][1]), "+f"(c[2][2]), "+f"(c[2][3]), "+f"(c[3][0]), "+f"(c[3][1]), "+f"(c[3][2]), "+f"(c[3][3]), "+f"(c[4][0]), "+f"(c[4][1]), "+f"(c[4][2]), "+f"(c[4][3]), "+f"(c[5][0]), "+f"(c[5][1]), "+f"(c[5][2]), "+f"(c[5][3]), "+f"(c[6][0]), "+f"(c[6][1]), "+f"(c[6][2]), "+f"(c[6][3]), "+f"(c[7][0]), "+f"(c[7][1]), "+f"(c[7][2]), "+f"(c[7][3])
// Addresses in descriptors are in units of 16 bytes: descriptor_address(at) + n is 16 n bytes after `at`.
DEVICE u32 descriptor_address(u32 at) { return ((at & 0x3ffffu) >> 4) | 0x10000u; }
DEVICE unsigned long long descriptor(u32 address) { return ((unsigned long long)(64u | 1u << 30) << 32) | address; }
template <int TRANS> DEVICE void wgmma_registers(float (&c)[8][4], const u32 (&a)[4], u32 at) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32." TYPE "." TYPE " {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, {%32,%33,%34,%35}, %36, 1, 1, 1, %37;"
                 : SUMS(c) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(descriptor(at)), "n"(TRANS));
}
// c = x y or, if `accumulate`, c += x y, with both in shared memory. x is 64 x 16: the rows of 64 numbers at `x_at` are its rows
// or, with TRANS_A, its columns. y is 16 x 64: those at `y_at` are its columns or, with TRANS_B, its rows.
template <int TRANS_A, int TRANS_B> DEVICE void wgmma_shared(float (&c)[8][4], u32 x_at, u32 y_at, bool accumulate) {
    asm volatile("{ .reg .pred p; setp.ne.s32 p, %34, 0;"
                 " wgmma.mma_async.sync.aligned.m64n64k16.f32." TYPE "." TYPE " {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, %32, %33, p, 1, 1, %35, %36; }"
                 : SUMS(c) : "l"(descriptor(x_at)), "l"(descriptor(y_at)), "r"((int)accumulate), "n"(TRANS_A), "n"(TRANS_B));
}
// The same with TRANS_A and TRANS_B, for 32 of the 64 columns of y; for the second half `y_at` is 64 bytes further.
#define HALF_SUMS(c) "+f"(c[0][0]), "+f"(c[0][1]), "+f"(c[0][2]), "+f"(c[0][3]), "+f"(c[1][0]), "+f"(c[1][1]), "+f"(c[1][2]), "+f"(c[1][3]), "+f"(c[2][0]), "+f"(c[2][1]), "+f"(c[2][2]), "+f"(c[2][3]), "+f"(c[3][0]), "+f"(c[3][1]), "+f"(c[3][2]), "+f"(c[3][3])
DEVICE void wgmma_shared_half(float (&c)[4][4], u32 x_at, u32 y_at, bool accumulate) {
    asm volatile("{ .reg .pred p; setp.ne.s32 p, %18, 0;"
                 " wgmma.mma_async.sync.aligned.m64n32k16.f32." TYPE "." TYPE " {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15}, %16, %17, p, 1, 1, 1, 1; }"
                 : HALF_SUMS(c) : "l"(descriptor(x_at)), "l"(descriptor(y_at)), "r"((int)accumulate));
}
DEVICE void wgmma_fence(float (&c)[4][4]) { asm volatile("wgmma.fence.sync.aligned;" : HALF_SUMS(c) :: "memory"); }
DEVICE void wgmma_fence(float (&c)[8][4]) { asm volatile("wgmma.fence.sync.aligned;" : SUMS(c) :: "memory"); }
// Waits until all but the last PENDING committed groups of products are complete.
template <int PENDING = 0> DEVICE void wgmma_wait(float (&c)[8][4]) { asm volatile("wgmma.wait_group.sync.aligned %32;" : SUMS(c) : "n"(PENDING) : "memory"); }
template <int PENDING = 0> DEVICE void wgmma_wait(float (&c)[4][4]) { asm volatile("wgmma.wait_group.sync.aligned %16;" : HALF_SUMS(c) : "n"(PENDING) : "memory"); }
DEVICE void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
// Makes the compiler compute these registers before the next operation: a product reads them after it is issued.
DEVICE void materialise(u32 (&a)[4][4]) {
#pragma unroll
    for (int k = 0; k < 4; k++) asm volatile("" : "+r"(a[k][0]), "+r"(a[k][1]), "+r"(a[k][2]), "+r"(a[k][3]) :: "memory");
}
DEVICE void wgmma_finish(float (&c)[8][4]) {
    wgmma_commit();
    wgmma_wait(c);
}
DEVICE int warpgroup() { return __shfl_sync(0xffffffffu, threadIdx.x >> 7, 0); }       // the index of the 4 warps
DEVICE void stmatrix(u32 at, u32 a, u32 b, u32 c, u32 d) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%2,%3,%4};" :: "r"(at), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}
DEVICE void fence_for_wgmma() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }     // this thread's writes become visible to WGMMA
#endif
#define DYNAMIC_SHARED extern __shared__ __align__(1024) unsigned char shared[]
#endif
#if !WGMMA
DEVICE void fence_for_wgmma() {}
#endif
