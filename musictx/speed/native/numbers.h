// Matrix products (GEMM) by torch's library or our own code, and a hash: arithmetic without attention.
#pragma once
#include <cstdint>

#include "arithmetic.h"
#include "bf16_gemm.h"
#include "float_gemm.h"

namespace {

// Fortran's calling convention: all arguments by address, matrices in column-major order.
using Sgemm = void (*)(const char*, const char*, const int*, const int*, const int*, const float*,
                       const float*, const int*, const float*, const int*, const float*, float*,
                       const int*);
using Bf16Gemm = void (*)(const char*, const char*, const int*, const int*, const int*,
                          const float*, const uint16_t*, const int*, const uint16_t*, const int*,
                          const float*, float*, const int*);
using SetThreads = int (*)(int);

Sgemm torch_sgemm = nullptr;         // null: float_gemm.h is used
Bf16Gemm torch_bf16_gemm = nullptr;  // bfloat16 in, float32 out; null: bf16_gemm.h is used
SetThreads set_threads = nullptr;    // of the library with torch_sgemm; may be null

// While this object lives, torch's products use one thread each, because many threads call them at once.
struct SingleThreadedGemm {
  int previous = 0;
  SingleThreadedGemm() {
    if (set_threads) previous = set_threads(1);
  }
  ~SingleThreadedGemm() {
    if (set_threads) set_threads(previous);
  }
};

// The memory of one thread for the operands that bf16_gemm.h packs; null where it is not needed.
struct PackBuffers {
  uint32_t *a = nullptr, *b = nullptr;
};

// c (m, n) = alpha a b + beta c, in row-major order with row strides lda, ldb, ldc. a is (m, k), or (k, m) if
// ta is 't'; b is (k, n), or (n, k) if tb is 't'. BLAS reads rows as columns, so it computes c^T = b^T a^T.
void gemm(char ta, char tb, int m, int n, int k, float alpha, const float* a, int lda,
          const float* b, int ldb, float beta, float* c, int ldc, const PackBuffers&) {
  if (!torch_sgemm) {
    float_gemm::gemm(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
    return;
  }
  torch_sgemm(&tb, &ta, &n, &m, &k, &alpha, b, &ldb, a, &lda, &beta, c, &ldc);
}
void gemm(char ta, char tb, int m, int n, int k, float alpha, const uint16_t* a, int lda,
          const uint16_t* b, int ldb, float beta, float* c, int ldc,
          [[maybe_unused]] const PackBuffers& buffers) {
#ifdef MUSICTX_BF16
  if (!torch_bf16_gemm) {
    bf16_gemm::gemm(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, buffers.a, buffers.b);
    return;
  }
#endif
  torch_bf16_gemm(&tb, &ta, &n, &m, &k, &alpha, b, &ldb, a, &lda, &beta, c, &ldc);
}

// The finaliser of MurmurHash3: maps x to 32 bits that look random.
inline uint32_t hash(uint32_t x) {
  x = (x ^ (x >> 16)) * 0x85ebca6bu;
  x = (x ^ (x >> 13)) * 0xc2b2ae35u;
  return x ^ (x >> 16);
}

}  // namespace
