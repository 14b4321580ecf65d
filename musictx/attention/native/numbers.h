// Matrix products, the exponential and random bits: arithmetic that knows nothing of attention.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "bf16_gemm.h"

namespace {

// Fortran's calling convention: everything by address, matrices by columns.
using SingleProduct = void (*)(const char*, const char*, const int*, const int*, const int*,
                               const float*, const float*, const int*, const float*, const int*,
                               const float*, float*, const int*);
using Bf16Gemm = void (*)(const char*, const char*, const int*, const int*, const int*,
                              const float*, const uint16_t*, const int*, const uint16_t*,
                              const int*, const float*, float*, const int*);
using SetThreads = int (*)(int);

SingleProduct single_product = nullptr;
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

template <class To, class From>
inline To bits(From x) {
  static_assert(sizeof(To) == sizeof(From));
  To y;
  std::memcpy(&y, &x, sizeof(y));
  return y;
}

inline void store(float* place, float x) { *place = x; }
inline void store(uint16_t* place, float x) {  // to bfloat16, ties to even; NaN stays NaN
  const uint32_t u = bits<uint32_t>(x);
  const uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
  *place = static_cast<uint16_t>(x == x ? rounded : 0x7fc0u);
}
inline float load(float x) { return x; }
inline float load(uint16_t x) { return bits<float>(static_cast<uint32_t>(x) << 16); }

// e^x for x <= 0 within 2 units in the last place, exactly 0 below the normal numbers, NaN for NaN.
// x = n log 2 + r with |r| <= log(2) / 2, in two steps lest digits get lost; then a polynomial.
inline float exponential(float x) {
  const float y = x < -87.0f ? -87.0f : x;
  const float n = std::nearbyint(y * 1.44269504089f);
  const float r = (y - n * 0.693359375f) + n * 2.12194440e-4f;
  float p = 1.0f / 5040.0f;
  p = p * r + 1.0f / 720.0f;
  p = p * r + 1.0f / 120.0f;
  p = p * r + 1.0f / 24.0f;
  p = p * r + 1.0f / 6.0f;
  p = p * r + 0.5f;
  p = p * r * r + r + 1.0f;
  const float power = bits<float>((static_cast<int32_t>(n) + 127) << 23);
  return x < -87.0f ? 0.0f : p * power;
}

// 32 bits that look random, from 32 (the finaliser of MurmurHash3).
inline uint32_t mixed(uint32_t x) {
  x = (x ^ (x >> 16)) * 0x85ebca6bu;
  x = (x ^ (x >> 13)) * 0xc2b2ae35u;
  return x ^ (x >> 16);
}

}  // namespace
