// GEMM with bfloat16 operands and float32 accumulators, by an instruction of the CPU (AVX-512 BF16).
//
// The instruction multiplies pairs: to each of 16 accumulators it adds x0 y0 + x1 y1, where 0 and 1 are
// neighbours along the dimension that is summed over (k). So b is packed into panels of TILE_COLUMNS columns
// of such pairs, and each pair of a is broadcast. Rows of a already consist of pairs; of a transposed a, two
// rows at a time are interleaved.
//
// On AMD CPUs torch's GEMM is no faster in bfloat16 than in float32 (MKL 2024.2). On CPUs with AMX, which this
// file does not use, library.py chooses torch's GEMM; the two were not compared there.
//
// The instruction treats subnormal numbers as zero.
#pragma once
#if defined(__AVX512BF16__) && defined(__AVX512BW__)
#define MUSICTX_BF16 1

#include <immintrin.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "lanes.h"

namespace bf16_gemm {

constexpr int TILE_ROWS = 8, TILE_COLUMNS = 32;  // of c, in registers

inline int pair_count(int k) { return (k + 1) / 2; }

// The sizes of a (m, k) and b (k, n) when packed, in pairs.
inline size_t packed_a_size(int m, int k) { return static_cast<size_t>(m) * pair_count(k); }
inline size_t packed_b_size(int n, int k) {
  const size_t panels = (n + TILE_COLUMNS - 1) / TILE_COLUMNS;
  return panels * TILE_COLUMNS * pair_count(k);
}

// Writes to (pair_count(k), width): row p has the pairs of rows 2p and 2p + 1 of x (k, count), then zeros.
inline void interleave_rows(const uint16_t* x, int ldx, int k, int count, uint32_t* to, int width) {
  for (int p = 0; p < pair_count(k); p++, to += width) {
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

// Transposes 16 rows of 16 numbers.
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

// Packs b (k, n), or b (n, k) if `transposed`, into panels (pair_count(k), TILE_COLUMNS), padded with zeros.
inline void pack_b(bool transposed, const uint16_t* b, int ldb, int n, int k, uint32_t* to) {
  const int pairs = pair_count(k);
  for (int first = 0; first < n; first += TILE_COLUMNS, to += static_cast<size_t>(TILE_COLUMNS) * pairs) {
    const int count = std::min(TILE_COLUMNS, n - first);
    if (!transposed) {
      interleave_rows(b + first, ldb, k, count, to, TILE_COLUMNS);
      continue;
    }
    for (int column = 0; column < TILE_COLUMNS; column += 16)
      for (int p = 0; p < pairs; p += 16) {
        const int numbers = std::min(32, k - 2 * p);
        const __mmask32 mask = numbers == 32 ? ~0u : (1u << numbers) - 1u;
        __m512i x[16];
        for (int i = 0; i < 16; i++) {
          const uint16_t* from = b + static_cast<size_t>(first + column + i) * ldb + 2 * p;
          x[i] = column + i < count ? _mm512_maskz_loadu_epi16(mask, from) : _mm512_setzero_si512();
        }
        transpose(x);
        const int rows = std::min(16, pairs - p);
        for (int i = 0; i < rows; i++)
          _mm512_storeu_si512(to + static_cast<size_t>(p + i) * TILE_COLUMNS + column, x[i]);
      }
  }
}

// The operand a: pair p of row r begins at first + r * row + p * pair. If k is odd, the second number of the
// last pair is not read.
struct Rows {
  const uint16_t* first;
  ptrdiff_t row, pair;
};

// c (rows, columns) = alpha a panel + beta c, for a (rows, k) and a panel (pair_count(k), TILE_COLUMNS).
template <int rows>
inline void micro_kernel(const Rows& a, int k, const uint32_t* panel, float alpha, float beta, float* c,
                         ptrdiff_t ldc, int columns) {
  __m512 low[rows], high[rows];  // columns 0 to 15 and 16 to 31
#pragma GCC unroll 8
  for (int r = 0; r < rows; r++) low[r] = high[r] = _mm512_setzero_ps();
  const auto accumulate_pair = [&](int p, uint32_t mask) __attribute__((always_inline)) {
    const __m512bh y0 = (__m512bh)_mm512_loadu_si512(panel + static_cast<size_t>(p) * TILE_COLUMNS);
    const __m512bh y1 = (__m512bh)_mm512_loadu_si512(panel + static_cast<size_t>(p) * TILE_COLUMNS + 16);
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++) {
      uint32_t pair = 0;
      std::memcpy(&pair, a.first + r * a.row + p * a.pair, mask == ~0u ? 4 : 2);
      const __m512bh x = (__m512bh)_mm512_set1_epi32(static_cast<int>(pair));
      low[r] = _mm512_dpbf16_ps(low[r], x, y0);
      high[r] = _mm512_dpbf16_ps(high[r], x, y1);
    }
  };
  for (int p = 0; p < k / 2; p++) accumulate_pair(p, ~0u);
  if (k % 2) accumulate_pair(k / 2, 0xffffu);
  const auto mask = [](int n) { return static_cast<__mmask16>(n >= 16 ? 0xffff : (1 << n) - 1); };
  const __mmask16 low_mask = mask(columns), high_mask = mask(std::max(0, columns - 16));
  const __m512 alphas = _mm512_set1_ps(alpha), betas = _mm512_set1_ps(beta);
#pragma GCC unroll 8
  for (int r = 0; r < rows; r++) {
    float* to = c + r * ldc;
    __m512 x = _mm512_mul_ps(low[r], alphas), y = _mm512_mul_ps(high[r], alphas);
    if (beta != 0.0f) {
      x = _mm512_fmadd_ps(betas, _mm512_maskz_loadu_ps(low_mask, to), x);
      y = _mm512_fmadd_ps(betas, _mm512_maskz_loadu_ps(high_mask, to + 16), y);
    }
    _mm512_mask_storeu_ps(to, low_mask, x);
    _mm512_mask_storeu_ps(to + 16, high_mask, y);
  }
}

// c (m, n) = alpha a b + beta c, with row strides lda, ldb, ldc; ta, tb: as in numbers.h.
// packed_a (needed if ta is 't') and packed_b are memory of packed_a_size(m, k) and packed_b_size(n, k) pairs.
inline void gemm(char ta, char tb, int m, int n, int k, float alpha, const uint16_t* a, int lda,
                 const uint16_t* b, int ldb, float beta, float* c, int ldc, uint32_t* packed_a,
                 uint32_t* packed_b) {
  Rows rows{a, lda, 2};
  int depth = k;
  if (ta == 't') {
    interleave_rows(a, lda, k, m, packed_a, m);
    rows = {reinterpret_cast<const uint16_t*>(packed_a), 2, 2 * static_cast<ptrdiff_t>(m)};
    depth = 2 * pair_count(k);  // padded with zeros
  }
  pack_b(tb == 't', b, ldb, n, k, packed_b);
  const size_t panel_size = static_cast<size_t>(TILE_COLUMNS) * pair_count(k);
  for (int j = 0; j < n; j += TILE_COLUMNS) {
    const uint32_t* panel = packed_b + j / TILE_COLUMNS * panel_size;
    const int columns = std::min(TILE_COLUMNS, n - j);
    for (int i = 0; i < m; i += TILE_ROWS) {
      const Rows tile_rows{rows.first + i * rows.row, rows.row, rows.pair};
      float* to = c + static_cast<ptrdiff_t>(i) * ldc + j;
      with_rows<TILE_ROWS>(std::min(TILE_ROWS, m - i), [&]<int count>() {
        micro_kernel<count>(tile_rows, depth, panel, alpha, beta, to, ldc, columns);
      });
    }
  }
}

}  // namespace bf16_gemm
#endif
