// Products of bfloat16 matrices, added up in float32, by the CPU's own instruction (AVX-512 BF16).
//
// That instruction multiplies pairs: to each of 16 numbers it adds x0 y0 + x1 y1. Of the two matrices of
// a product one therefore lies ready as pairs along what is summed over, in strips of 32 columns; the
// other is read pair by pair, each spread over all columns. A matrix whose rows are summed over holds
// such pairs already; else two rows are laced into one.
//
// The library of products that torch brings along computes in bfloat16 at the speed of float32 on CPUs
// of AMD (MKL 2024.2). Where there are tiles (AMX), which this file does not use, library.py takes
// torch's; the two have not been compared there.
//
// Numbers below the smallest normal one count as zero: so the instruction is made.
#pragma once
#if defined(__AVX512BF16__) && defined(__AVX512BW__)
#define MUSICTX_BF16 1

#include <immintrin.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace bf16_gemm {

constexpr int ROWS = 8, COLUMNS = 32;  // of the tile that is held in registers

inline int half(int k) { return (k + 1) / 2; }
inline int strips(int n) { return (n + COLUMNS - 1) / COLUMNS; }

// Numbers of 32 bits that `pack_columns` and `pack_rows` write.
inline size_t packed_columns(int n, int k) {
  return static_cast<size_t>(strips(n)) * COLUMNS * half(k);
}
inline size_t packed_rows(int m, int k) { return static_cast<size_t>(m) * half(k); }

// to[p][i] = the pair of x (k, m)'s rows 2p and 2p + 1 in column i, for `count` columns.
inline void lace(const uint16_t* x, int ldx, int k, int count, uint32_t* to, int width) {
  for (int p = 0; p < half(k); p++, to += width) {
    const uint16_t* low = x + static_cast<size_t>(2 * p) * ldx;
    if (2 * p + 1 < k) {
      const uint16_t* high = low + ldx;
#pragma omp simd
      for (int i = 0; i < count; i++) to[i] = low[i] | static_cast<uint32_t>(high[i]) << 16;
    } else {
#pragma omp simd
      for (int i = 0; i < count; i++) to[i] = low[i];
    }
    std::fill(to + count, to + width, 0u);
  }
}

// 16 rows of 16 numbers -> their columns as rows.
inline void transpose(__m512i (&x)[16]) {
  __m512i y[16];
#pragma GCC unroll 8
  for (int i = 0; i < 16; i += 2) {
    y[i] = _mm512_unpacklo_epi32(x[i], x[i + 1]);
    y[i + 1] = _mm512_unpackhi_epi32(x[i], x[i + 1]);
  }
#pragma GCC unroll 4
  for (int g = 0; g < 16; g += 4) {  // then x[g + c] holds columns c, 4 + c, .. of rows g .. g + 3
    x[g] = _mm512_unpacklo_epi64(y[g], y[g + 2]);
    x[g + 1] = _mm512_unpackhi_epi64(y[g], y[g + 2]);
    x[g + 2] = _mm512_unpacklo_epi64(y[g + 1], y[g + 3]);
    x[g + 3] = _mm512_unpackhi_epi64(y[g + 1], y[g + 3]);
  }
#pragma GCC unroll 4
  for (int c = 0; c < 4; c++) {
    const __m512i even01 = _mm512_shuffle_i32x4(x[c], x[4 + c], 0x88);
    const __m512i odd01 = _mm512_shuffle_i32x4(x[c], x[4 + c], 0xdd);
    const __m512i even23 = _mm512_shuffle_i32x4(x[8 + c], x[12 + c], 0x88);
    const __m512i odd23 = _mm512_shuffle_i32x4(x[8 + c], x[12 + c], 0xdd);
    y[c] = _mm512_shuffle_i32x4(even01, even23, 0x88);
    y[4 + c] = _mm512_shuffle_i32x4(odd01, odd23, 0x88);
    y[8 + c] = _mm512_shuffle_i32x4(even01, even23, 0xdd);
    y[12 + c] = _mm512_shuffle_i32x4(odd01, odd23, 0xdd);
  }
  std::copy_n(y, 16, x);
}

// The strips of b (k, n), or of b (n, k) if `transposed`: to[strip][p][column].
inline void pack_columns(bool transposed, const uint16_t* b, int ldb, int n, int k, uint32_t* to) {
  const int pairs = half(k);
  for (int first = 0; first < n; first += COLUMNS, to += static_cast<size_t>(COLUMNS) * pairs) {
    const int count = std::min(COLUMNS, n - first);
    if (!transposed) {
      lace(b + first, ldb, k, count, to, COLUMNS);
      continue;
    }
    for (int side = 0; side < COLUMNS; side += 16)
      for (int p = 0; p < pairs; p += 16) {
        const int numbers = std::min(32, k - 2 * p);
        const __mmask32 there = numbers == 32 ? ~0u : (1u << numbers) - 1u;
        __m512i x[16];
        for (int i = 0; i < 16; i++) {
          const uint16_t* from = b + static_cast<size_t>(first + side + i) * ldb + 2 * p;
          x[i] = side + i < count ? _mm512_maskz_loadu_epi16(there, from) : _mm512_setzero_si512();
        }
        transpose(x);
        const int rows = std::min(16, pairs - p);
        for (int i = 0; i < rows; i++)
          _mm512_storeu_si512(to + static_cast<size_t>(p + i) * COLUMNS + side, x[i]);
      }
  }
}

// The rows of a product: pair p of row r begins at first + r * row + p * pair. The last pair's second
// half counts only if k is even.
struct Rows {
  const uint16_t* first;
  ptrdiff_t row, pair;
};

template <int count>
inline void tile(const Rows& a, int k, const uint32_t* b, float alpha, float beta, float* c,
                 ptrdiff_t ldc, int columns) {
  __m512 low[count], high[count];
#pragma GCC unroll 8
  for (int r = 0; r < count; r++) low[r] = high[r] = _mm512_setzero_ps();
  const auto add = [&](int p, uint32_t mask) __attribute__((always_inline)) {
    const __m512bh y0 = (__m512bh)_mm512_loadu_si512(b + static_cast<size_t>(p) * COLUMNS);
    const __m512bh y1 = (__m512bh)_mm512_loadu_si512(b + static_cast<size_t>(p) * COLUMNS + 16);
#pragma GCC unroll 8
    for (int r = 0; r < count; r++) {
      uint32_t x = 0;
      std::memcpy(&x, a.first + r * a.row + p * a.pair, mask == ~0u ? 4 : 2);
      const __m512bh both = (__m512bh)_mm512_set1_epi32(static_cast<int>(x));
      low[r] = _mm512_dpbf16_ps(low[r], both, y0);
      high[r] = _mm512_dpbf16_ps(high[r], both, y1);
    }
  };
  for (int p = 0; p < k / 2; p++) add(p, ~0u);
  if (k % 2) add(k / 2, 0xffffu);
  const auto below = [](int n) { return static_cast<__mmask16>(n >= 16 ? 0xffff : (1 << n) - 1); };
  const __mmask16 left = below(columns), right = below(std::max(0, columns - 16));
  const __m512 a0 = _mm512_set1_ps(alpha), b0 = _mm512_set1_ps(beta);
#pragma GCC unroll 8
  for (int r = 0; r < count; r++) {
    float* to = c + r * ldc;
    __m512 x = _mm512_mul_ps(low[r], a0), y = _mm512_mul_ps(high[r], a0);
    if (beta != 0.0f) {
      x = _mm512_fmadd_ps(b0, _mm512_maskz_loadu_ps(left, to), x);
      y = _mm512_fmadd_ps(b0, _mm512_maskz_loadu_ps(right, to + 16), y);
    }
    _mm512_mask_storeu_ps(to, left, x);
    _mm512_mask_storeu_ps(to + 16, right, y);
  }
}

// `count` < ROWS rows, a number known only now.
template <int most>
inline void rest(int count, const Rows& a, int k, const uint32_t* b, float alpha, float beta,
                 float* c, ptrdiff_t ldc, int columns) {
  if constexpr (most > 0) {
    if (count == most)
      tile<most>(a, k, b, alpha, beta, c, ldc, columns);
    else
      rest<most - 1>(count, a, k, b, alpha, beta, c, ldc, columns);
  }
}

// c (m, n) = alpha a b + beta c, rows apart by lda, ldb, ldc. 't' reads a as (k, m), b as (n, k).
// Places for packed_rows(m, k), if a is 't', and packed_columns(n, k) numbers are lent.
inline void product(char ta, char tb, int m, int n, int k, float alpha, const uint16_t* a, int lda,
                    const uint16_t* b, int ldb, float beta, float* c, int ldc, uint32_t* for_rows,
                    uint32_t* for_columns) {
  Rows rows{a, lda, 2};
  int odd = k;
  if (ta == 't') {
    lace(a, lda, k, m, for_rows, m);
    rows = {reinterpret_cast<const uint16_t*>(for_rows), 2, 2 * static_cast<ptrdiff_t>(m)};
    odd = 2 * half(k);  // filled up with zeros
  }
  pack_columns(tb == 't', b, ldb, n, k, for_columns);
  const size_t strip = static_cast<size_t>(COLUMNS) * half(k);
  for (int j = 0; j < n; j += COLUMNS) {
    const uint32_t* y = for_columns + j / COLUMNS * strip;
    const int columns = std::min(COLUMNS, n - j);
    for (int i = 0; i < m; i += ROWS) {
      const Rows here{rows.first + i * rows.row, rows.row, rows.pair};
      float* to = c + static_cast<ptrdiff_t>(i) * ldc + j;
      if (m - i >= ROWS)
        tile<ROWS>(here, odd, y, alpha, beta, to, ldc, columns);
      else
        rest<ROWS - 1>(m - i, here, odd, y, alpha, beta, to, ldc, columns);
    }
  }
}

}  // namespace bf16_gemm
#endif
