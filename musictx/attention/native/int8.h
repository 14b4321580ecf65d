// int8: four inputs to a word, each weight w as the byte w + 128.
//
// A CPU with AVX-512 VNNI multiplies four bytes without a sign by four with one and adds all four products
// to a whole number of 32 bits. Inputs become whole numbers of 16 bits for it, scaled row by row, of
// which the high and the low byte are multiplied each on its own: twice the arithmetic of float32, and
// finer than bfloat16. Sums of whole numbers are exact, whatever their order. Elsewhere inputs stay
// float32.
#pragma once
#include <algorithm>
#include <cmath>

#include "lanes.h"
#ifdef __AVX512VNNI__
#include <immintrin.h>
#endif

namespace {

struct Int8 {
  static constexpr int GROUP = 4;
  using Number = uint16_t;  // there is no cache of int8
  using Weights = Words;
  static constexpr int32_t ZERO = 128;  // the byte of a weight of 0

#ifdef __AVX512VNNI__
  static constexpr int VECTORS = 2;
  struct Input {
    int8_t high[GROUP], low[GROUP];
  };
  struct Sum {
    Words high, low;
  };
  struct Spread {
    Words high, low;
  };
  struct Prepared {
    float scale;
    uint32_t sum;  // of the row's whole numbers
  };

  // The largest number becomes 127 x 256, which has a high and a low byte; it becomes less where the sum
  // with weights of +-127 might leave 32 bits.
  static Prepared prepare(const float* x, int64_t count, Input* to) {
    constexpr float LARGEST = 127.0f * 256.0f, SUM = 2130706432.0f / 127.0f;  // 2^31 - 2^24
    float largest = 0.0f, total = 0.0f;
#pragma omp simd reduction(max : largest) reduction(+ : total)
    for (int64_t i = 0; i < count; i++) {
      largest = std::max(largest, std::fabs(x[i]));
      total += std::fabs(x[i]);
    }
    if (!std::isfinite(total)) {  // whole numbers know neither NaN nor infinity
      std::fill_n(to, groups<Int8>(count), Input{});
      return {NAN, 0};
    }
    const float scale = std::max({largest / LARGEST, total / SUM, 1e-30f});
    const float by = 1.0f / scale;
    uint32_t sum = 0;
    for (int64_t i = 0; i < count; i += WIDTH, to += WIDTH / GROUP) {
      const int64_t left = std::min<int64_t>(WIDTH, count - i);
      const auto there = static_cast<__mmask16>((1u << left) - 1);
      const __m512i whole = _mm512_cvtps_epi32(_mm512_maskz_loadu_ps(there, x + i) * floats(by));
      const __m512i high = _mm512_srai_epi32(_mm512_add_epi32(whole, _mm512_set1_epi32(128)), 8);
      sum += static_cast<uint32_t>(_mm512_reduce_add_epi32(whole));
      const __m128i highs = _mm512_cvtepi32_epi8(high), lows = _mm512_cvtepi32_epi8(whole);
      const __m128i inputs[2] = {_mm_unpacklo_epi32(highs, lows), _mm_unpackhi_epi32(highs, lows)};
      std::memcpy(to, inputs, groups<Int8>(left) * sizeof(Input));
    }
    return {scale, sum};
  }
  static Spread spread(const Input& x) {
    return {words(get<int32_t>(x.high)), words(get<int32_t>(x.low))};
  }
  static void add(Sum& sum, const Words& weights, const Spread& x) {
    sum.high = (Words)_mm512_dpbusd_epi32((__m512i)sum.high, (__m512i)weights, (__m512i)x.high);
    sum.low = (Words)_mm512_dpbusd_epi32((__m512i)sum.low, (__m512i)weights, (__m512i)x.low);
  }
  static Floats value(const Sum& sum, Prepared row) {
    using Bits = uint32_t __attribute__((vector_size(4 * WIDTH)));  // that may run over on the way
    const Bits whole = ((Bits)sum.high << 8) + (Bits)sum.low - row.sum * uint32_t{ZERO};
    return __builtin_convertvector((Words)whole, Floats) * row.scale;
  }
#else
  static constexpr int VECTORS = 4;
  using Sum = Floats;
  struct Input {
    float x[GROUP];
  };
  struct Spread {
    Floats x[GROUP];
  };
  struct Prepared {};

  static Prepared prepare(const float* x, int64_t count, Input* to) {
    to[groups<Int8>(count) - 1] = {};
    std::memcpy(to, x, count * sizeof(float));
    return {};
  }
  static Spread spread(const Input& x) {
    return {floats(x.x[0]), floats(x.x[1]), floats(x.x[2]), floats(x.x[3])};
  }
  static void add(Sum& sum, const Words& weights, const Spread& x) {
#pragma GCC unroll 4
    for (int i = 0; i < GROUP; i++) {
      const Words whole = ((weights >> 8 * i) & 255) - ZERO;
      sum += __builtin_convertvector(whole, Floats) * x.x[i];
    }
  }
  static Floats value(const Sum& sum, Prepared) { return sum; }
#endif
};

}  // namespace
