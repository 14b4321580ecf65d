// bfloat16: two inputs to a word.
//
// A CPU with AVX-512 BF16 multiplies pairs and adds both products to a float32 in one instruction: twice
// the arithmetic of float32. Inputs are rounded to bfloat16 for it, those of a single row too, so that a
// row is the same alone and in a batch. Elsewhere inputs stay float32.
#pragma once
#include <algorithm>

#include "lanes.h"
#ifdef __AVX512BF16__
#include <immintrin.h>
#endif

namespace {

struct Bfloat16 {
  static constexpr int GROUP = 2, VECTORS = 4;
  using Number = uint16_t;
  using Weights = Words;
  using Sum = Floats;
  struct Prepared {};

#ifdef __AVX512BF16__
  using Input = uint32_t;

  static Prepared prepare(const float* x, int64_t count, Input* to) {
    int64_t i = 0;
    for (; i + 2 * WIDTH <= count; i += 2 * WIDTH)
      put(to + i / 2, _mm512_cvtne2ps_pbh(get<__m512>(x + i + WIDTH), get<__m512>(x + i)));
    if (i < count) {
      float rest[2 * WIDTH] = {};
      std::copy(x + i, x + count, rest);
      const auto pairs = _mm512_cvtne2ps_pbh(get<__m512>(rest + WIDTH), get<__m512>(rest));
      std::memcpy(to + i / 2, &pairs, groups<Bfloat16>(count - i) * sizeof(Input));
    }
    return {};
  }
  static Words spread(Input x) { return words(static_cast<int32_t>(x)); }
  static void add(Sum& sum, const Words& weights, const Words& x) {
    sum = (Floats)_mm512_dpbf16_ps((__m512)sum, (__m512bh)weights, (__m512bh)x);
  }
#else
  struct Input {
    float x[GROUP];
  };
  struct Spread {
    Floats low, high;
  };

  static Prepared prepare(const float* x, int64_t count, Input* to) {
    to[groups<Bfloat16>(count) - 1] = {};
    std::memcpy(to, x, count * sizeof(float));
    return {};
  }
  static Spread spread(Input x) { return {floats(x.x[0]), floats(x.x[1])}; }
  static void add(Sum& sum, const Words& weights, const Spread& x) {
    sum += bits<Floats>(weights << 16) * x.low;
    sum += bits<Floats>(weights & words(~0xffff)) * x.high;
  }
#endif
  static Floats value(const Sum& sum, Prepared) { return sum; }
};

}  // namespace
