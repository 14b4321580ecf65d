// Whole numbers from -127 to 127, four inputs to a word; each output has a scale (Matrix::scales), each key
// and value held too (cached.h). A quarter of the memory of float32: with one row it is reading that takes
// the time.
//
// Where the CPU multiplies pairs of whole numbers of 16 bits and adds both products at once, inputs become
// such numbers, scaled row by row: a fifth of the instructions that four conversions to float32 take, and
// finer than what was rounded to bytes. Sums of whole numbers are exact, whatever their order. Elsewhere
// inputs stay float32.
#pragma once
#include <algorithm>
#include <cmath>

#include "lanes.h"
#if defined(__AVX512BW__) || (defined(__AVX2__) && !defined(__AVX512F__))
#define MUSICTX_PAIRS
#include <immintrin.h>
#endif

namespace {

struct Sizes {
  float largest = 0.0f, total = 0.0f;  // of numbers without their signs; the total is NaN if one is
};
inline Sizes sizes_of(const float* x, int64_t count) {
  Floats tops{}, sums{};
  int64_t i = 0;
  for (; i + WIDTH <= count; i += WIDTH) {
    const Floats y = get<Floats>(x + i), sizes = y < 0.0f ? -y : y;
    tops = sizes > tops ? sizes : tops;
    sums += sizes;
  }
  Sizes found;
  const auto meet = [&](float size, float more) {
    found.largest = size > found.largest ? size : found.largest;
    found.total += more;
  };
  for (int lane = 0; lane < WIDTH; lane++) meet(tops[lane], sums[lane]);
  for (; i < count; i++) meet(std::fabs(x[i]), std::fabs(x[i]));
  return found;
}

#ifdef MUSICTX_PAIRS

using Halves = int16_t __attribute__((vector_size(4 * WIDTH)));  // two to a word

// The products of both halves of each word, added up.
inline Words pairs(const Halves& a, const Halves& b) {
#ifdef __AVX512BW__
  return (Words)_mm512_madd_epi16((__m512i)a, (__m512i)b);
#else
  return (Words)_mm256_madd_epi16((__m256i)a, (__m256i)b);
#endif
}

struct Bytes {
  static constexpr int GROUP = 4, VECTORS = WIDTH / 4;
  struct Weights {
    Halves even, odd;  // the first and third byte of each word; the second and fourth
  };
  struct Input {
    int16_t each[GROUP];  // as in `Weights`: the first and third number, the second and fourth
  };
  struct Spread {
    Halves even, odd;
  };
  using Sum = Words;
  struct Prepared {
    float scale;
  };

  // The largest number becomes 32767, less where the sum with weights of +-127 might leave 32 bits.
  static Prepared prepare(const float* x, int64_t count, Input* to) {
    constexpr float LARGEST = 32767.0f, SUM = 2130706432.0f / 127.0f;  // 2^31 - 2^24
    const auto [largest, total] = sizes_of(x, count);
    to[groups<Bytes>(count) - 1] = {};
    if (!std::isfinite(total)) {  // whole numbers know neither NaN nor infinity
      std::fill_n(to, groups<Bytes>(count), Input{});
      return {NAN};
    }
    const float scale = std::max({largest / LARGEST, total / SUM, 1e-30f}), by = 1.0f / scale;
    const auto whole = [&](int64_t i) {
      return static_cast<int16_t>(static_cast<int32_t>(std::nearbyint(x[i] * by)));
    };
    for (int64_t i = 0; i < count / GROUP; i++)
      to[i] = {whole(GROUP * i), whole(GROUP * i + 2), whole(GROUP * i + 1), whole(GROUP * i + 3)};
    constexpr int PLACE[GROUP] = {0, 2, 1, 3};
    for (int64_t i = count / GROUP * GROUP; i < count; i++)
      to[i / GROUP].each[PLACE[i % GROUP]] = whole(i);
    return {scale};
  }
  static Weights weights(const uint32_t* w) {
    const Halves x = get<Halves>(w);
    return {x << 8 >> 8, x >> 8};
  }
  static Spread spread(const Input& x) {
    return {(Halves)words(get<int32_t>(x.each)), (Halves)words(get<int32_t>(x.each + 2))};
  }
  static void add(Sum& sum, const Weights& weights, const Spread& x) {
    sum += pairs(weights.even, x.even) + pairs(weights.odd, x.odd);
  }
  static Floats value(const Sum& sum, Prepared row) {
    return __builtin_convertvector(sum, Floats) * row.scale;
  }
};

#else

struct Bytes {
  static constexpr int GROUP = 4, VECTORS = WIDTH / 8;
  struct Input {
    float each[GROUP];
  };
  struct Weights {
    Floats each[GROUP];
  };
  using Sum = Floats;
  struct Prepared {};

  static Prepared prepare(const float* x, int64_t count, Input* to) {
    for (int64_t i = 0; i < groups<Bytes>(count); i++)
      for (int64_t n = 0; n < GROUP; n++)
        to[i].each[n] = GROUP * i + n < count ? x[GROUP * i + n] : 0.0f;
    return {};
  }
  static Weights weights(const uint32_t* w) {
    const Words x = get<Words>(w);
    return {{__builtin_convertvector(x << 24 >> 24, Floats),
             __builtin_convertvector(x << 16 >> 24, Floats),
             __builtin_convertvector(x << 8 >> 24, Floats),
             __builtin_convertvector(x >> 24, Floats)}};
  }
  static const Input& spread(const Input& x) { return x; }
  static void add(Sum& sum, const Weights& weights, const Input& x) {
#pragma GCC unroll 4
    for (int n = 0; n < GROUP; n++) sum += weights.each[n] * x.each[n];
  }
  static Floats value(const Sum& sum, Prepared) { return sum; }
};

#endif

// x (count,) as whole numbers and one scale, which comes back: as musictx/model/rounding.py rounds a row.
inline float to_bytes(const float* x, int64_t count, int8_t* whole) {
  const auto [largest, total] = sizes_of(x, count);
  if (!std::isfinite(total)) {
    std::fill_n(whole, count, int8_t{0});
    return NAN;
  }
  const float scale = largest / 127.0f, by = std::max(scale, 1e-30f);
  for (int64_t i = 0; i < count; i++)
    whole[i] = static_cast<int8_t>(static_cast<int32_t>(std::nearbyint(x[i] / by)));
  return scale;
}

}  // namespace
