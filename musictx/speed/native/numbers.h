// Matrix products and random bits: arithmetic that knows nothing of attention.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "arithmetic.h"
#include "bf16_gemm.h"
#include "float_gemm.h"

namespace {

// Fortran's calling convention: everything by address, matrices by columns.
using SingleProduct = void (*)(const char*, const char*, const int*, const int*, const int*,
                               const float*, const float*, const int*, const float*, const int*,
                               const float*, float*, const int*);
using Bf16Gemm = void (*)(const char*, const char*, const int*, const int*, const int*,
                              const float*, const uint16_t*, const int*, const uint16_t*,
                              const int*, const float*, float*, const int*);
using SetThreads = int (*)(int);

SingleProduct single_product = nullptr;  // null: that of float_gemm.h
Bf16Gemm torch_bf16_gemm = nullptr;  // bfloat16 in, float32 out; null: that of bf16_gemm.h
SetThreads set_threads = nullptr;      // of the library of products; may be missing

// One thread per product while this lives: the products are called from many threads at once.
struct OneThread {
  int before = 0;
  OneThread() {
    if (set_threads) before = set_threads(1);
  }
  ~OneThread() {
    if (set_threads) set_threads(before);
  }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;
};

// Memory of one thread, lent to the products of bf16_gemm.h; null where it is not needed.
struct Lent {
  uint32_t *rows = nullptr, *columns = nullptr;
};

// c (m, n) = alpha a b + beta c, rows apart by lda, ldb, ldc. 't' reads a as (k, m), b as (n, k).
// Rows are Fortran's columns, so that the product is computed as b^T a^T.
void product(char ta, char tb, int m, int n, int k, float alpha, const float* a, int lda,
             const float* b, int ldb, float beta, float* c, int ldc, const Lent&) {
  if (!single_product) {
    float_gemm::product(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
    return;
  }
  single_product(&tb, &ta, &n, &m, &k, &alpha, b, &ldb, a, &lda, &beta, c, &ldc);
}
void product(char ta, char tb, int m, int n, int k, float alpha, const uint16_t* a, int lda,
             const uint16_t* b, int ldb, float beta, float* c, int ldc,
             [[maybe_unused]] const Lent& lent) {
#ifdef MUSICTX_BF16
  if (!torch_bf16_gemm) {
    bf16_gemm::product(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, lent.rows, lent.columns);
    return;
  }
#endif
  torch_bf16_gemm(&tb, &ta, &n, &m, &k, &alpha, b, &ldb, a, &lda, &beta, c, &ldc);
}

// 32 bits that look random, from 32 (the finaliser of MurmurHash3).
inline uint32_t mixed(uint32_t x) {
  x = (x ^ (x >> 16)) * 0x85ebca6bu;
  x = (x ^ (x >> 13)) * 0xc2b2ae35u;
  return x ^ (x >> 16);
}

}  // namespace
