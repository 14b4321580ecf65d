// Products of float32 matrices, for a torch that lends none (Windows).
//
// The columns of b are copied strip by strip, 256 rows at a time, so that a strip stays in the first
// cache while all rows of a meet it.
#pragma once
#include <algorithm>
#include <cstddef>

#include "lanes.h"

namespace float_gemm {

#ifdef __AVX512F__
constexpr int HIGH = 8, VECTORS = 2;  // of the tile that is held in registers
#else
constexpr int HIGH = 6, VECTORS = 1;
#endif
constexpr int COLUMNS = VECTORS * WIDTH, DEPTH = 256;

// c (count, columns) = alpha a b + beta c; a's numbers apart by `row` and `step`, b a strip.
template <int count>
inline void tile(const float* a, ptrdiff_t row, ptrdiff_t step, int k, const float* b, float alpha,
                 float beta, float* c, ptrdiff_t ldc, int columns) {
  Floats sum[count][VECTORS];
  for (int r = 0; r < count; r++)
    for (int v = 0; v < VECTORS; v++) sum[r][v] = Floats{};
  for (int p = 0; p < k; p++) {
    Floats y[VECTORS];
    for (int v = 0; v < VECTORS; v++) y[v] = load_vector<Floats>(b + p * COLUMNS + v * WIDTH);
#pragma GCC unroll 8
    for (int r = 0; r < count; r++) {
      const Floats x = splat(a[r * row + p * step]);
      for (int v = 0; v < VECTORS; v++) sum[r][v] += x * y[v];
    }
  }
  for (int r = 0; r < count; r++) {
    float found[COLUMNS];
    for (int v = 0; v < VECTORS; v++) store_vector(found + v * WIDTH, sum[r][v] * splat(alpha));
    float* to = c + r * ldc;
    if (beta == 0.0f)
      std::copy_n(found, columns, to);
    else
      for (int i = 0; i < columns; i++) to[i] = found[i] + beta * to[i];
  }
}

// `count` < HIGH rows, a number known only now.
template <int most>
inline void rest(int count, const float* a, ptrdiff_t row, ptrdiff_t step, int k, const float* b,
                 float alpha, float beta, float* c, ptrdiff_t ldc, int columns) {
  if constexpr (most > 0) {
    if (count == most)
      tile<most>(a, row, step, k, b, alpha, beta, c, ldc, columns);
    else
      rest<most - 1>(count, a, row, step, k, b, alpha, beta, c, ldc, columns);
  }
}

// c (m, n) = alpha a b + beta c, rows apart by lda, ldb, ldc. 't' reads a as (k, m), b as (n, k).
inline void product(char ta, char tb, int m, int n, int k, float alpha, const float* a, ptrdiff_t lda,
                    const float* b, ptrdiff_t ldb, float beta, float* c, ptrdiff_t ldc) {
  const ptrdiff_t row = ta == 't' ? 1 : lda, step = ta == 't' ? lda : 1;
  alignas(64) float strip[DEPTH * COLUMNS];
  for (int from = 0; from < std::max(k, 1); from += DEPTH) {
    const int deep = std::min(DEPTH, k - from);
    for (int j = 0; j < n; j += COLUMNS) {
      const int columns = std::min(COLUMNS, n - j);
      for (int p = 0; p < deep; p++) {
        float* to = strip + p * COLUMNS;
        if (tb == 't')
          for (int i = 0; i < columns; i++) to[i] = b[(j + i) * ldb + from + p];
        else
          std::copy_n(b + (from + p) * ldb + j, columns, to);
        std::fill(to + columns, to + COLUMNS, 0.0f);
      }
      for (int i = 0; i < m; i += HIGH) {
        const float* x = a + i * row + from * step;
        float* y = c + i * ldc + j;
        const float keep = from ? 1.0f : beta;
        if (m - i >= HIGH)
          tile<HIGH>(x, row, step, deep, strip, alpha, keep, y, ldc, columns);
        else
          rest<HIGH - 1>(m - i, x, row, step, deep, strip, alpha, keep, y, ldc, columns);
      }
    }
  }
}

}  // namespace float_gemm
