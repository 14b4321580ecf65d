// GEMM in float32, for builds of torch that export none (Windows).
//
// b is packed into panels of TILE_COLUMNS columns and DEPTH rows. A panel stays in the L1 cache while the
// micro-kernel multiplies all rows of a by it.
#pragma once
#include <algorithm>
#include <cstddef>

#include "lanes.h"

namespace float_gemm {

// The tile of c that the micro-kernel holds in registers.
#ifdef __AVX512F__
constexpr int TILE_ROWS = 8, VECTORS = 2;
#else
constexpr int TILE_ROWS = 6, VECTORS = 1;
#endif
constexpr int TILE_COLUMNS = VECTORS * WIDTH, DEPTH = 256;

// c (rows, columns) = alpha a panel + beta c, for a (rows, k) with strides a_row and a_column, and a panel
// (k, TILE_COLUMNS).
template <int rows>
inline void micro_kernel(const float* a, ptrdiff_t a_row, ptrdiff_t a_column, int k, const float* panel,
                         float alpha, float beta, float* c, ptrdiff_t ldc, int columns) {
  Floats sum[rows][VECTORS];
  for (int r = 0; r < rows; r++)
    for (int v = 0; v < VECTORS; v++) sum[r][v] = Floats{};
  for (int p = 0; p < k; p++) {
    Floats y[VECTORS];
    for (int v = 0; v < VECTORS; v++) y[v] = load_vector<Floats>(panel + p * TILE_COLUMNS + v * WIDTH);
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++) {
      const Floats x = splat(a[r * a_row + p * a_column]);
      for (int v = 0; v < VECTORS; v++) sum[r][v] += x * y[v];
    }
  }
  for (int r = 0; r < rows; r++) {
    float products[TILE_COLUMNS];
    for (int v = 0; v < VECTORS; v++) store_vector(products + v * WIDTH, sum[r][v] * splat(alpha));
    float* to = c + r * ldc;
    if (beta == 0.0f)
      std::copy_n(products, columns, to);
    else
      for (int i = 0; i < columns; i++) to[i] = products[i] + beta * to[i];
  }
}

// c (m, n) = alpha a b + beta c, with row strides lda, ldb, ldc; ta, tb: as in numbers.h.
inline void gemm(char ta, char tb, int m, int n, int k, float alpha, const float* a, ptrdiff_t lda,
                 const float* b, ptrdiff_t ldb, float beta, float* c, ptrdiff_t ldc) {
  const ptrdiff_t a_row = ta == 't' ? 1 : lda, a_column = ta == 't' ? lda : 1;
  alignas(64) float panel[DEPTH * TILE_COLUMNS];
  for (int first = 0; first < std::max(k, 1); first += DEPTH) {
    const int depth = std::min(DEPTH, k - first);
    for (int j = 0; j < n; j += TILE_COLUMNS) {
      const int columns = std::min(TILE_COLUMNS, n - j);
      for (int p = 0; p < depth; p++) {
        float* to = panel + p * TILE_COLUMNS;
        if (tb == 't')
          for (int i = 0; i < columns; i++) to[i] = b[(j + i) * ldb + first + p];
        else
          std::copy_n(b + (first + p) * ldb + j, columns, to);
        std::fill(to + columns, to + TILE_COLUMNS, 0.0f);
      }
      for (int i = 0; i < m; i += TILE_ROWS) {
        const float* x = a + i * a_row + first * a_column;
        float* y = c + i * ldc + j;
        const float factor = first ? 1.0f : beta;  // later panels accumulate
        with_rows<TILE_ROWS>(std::min(TILE_ROWS, m - i), [&]<int rows>() {
          micro_kernel<rows>(x, a_row, a_column, depth, panel, alpha, factor, y, ldc, columns);
        });
      }
    }
  }
}

}  // namespace float_gemm
