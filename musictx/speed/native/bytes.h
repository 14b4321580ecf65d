// The format of int8 weights from -127 to 127 (lanes.h): four inputs in a word. Each output of a matrix has a
// scale (Matrix::scales), and so has each cached key and value (cache.h). int8 takes a quarter of the memory of
// float32; with one row, most of the time is spent reading weights.
//
// If the CPU can multiply pairs of int16 and add both products in one instruction, inputs are quantised to
// int16 with a scale for each row. This takes a fifth of the instructions of four conversions to float32,
// and int16 is finer than the int8 weights. Sums of integers are exact in any order. On other CPUs inputs
// stay float32.
#pragma once
#include <algorithm>
#include <cmath>

#include "lanes.h"
#if defined(__AVX512BW__) || (defined(__AVX2__) && !defined(__AVX512F__))
#define MUSICTX_PAIRS
#include <immintrin.h>
#endif

namespace {

// The largest absolute value and the sum of absolute values, which is NaN if any number is.
struct Magnitude {
  float largest = 0.0f, total = 0.0f;
};
inline Magnitude magnitude(const float* x, int64_t count) {
  Floats largest{}, totals{};
  int64_t i = 0;
  for (; i + WIDTH <= count; i += WIDTH) {
    const Floats y = load_vector<Floats>(x + i), absolute = y < 0.0f ? -y : y;
    largest = absolute > largest ? absolute : largest;
    totals += absolute;
  }
  Magnitude result;
  const auto merge = [&](float size, float total) {
    result.largest = size > result.largest ? size : result.largest;
    result.total += total;
  };
  for (int lane = 0; lane < WIDTH; lane++) merge(largest[lane], totals[lane]);
  for (; i < count; i++) merge(std::fabs(x[i]), std::fabs(x[i]));
  return result;
}

#ifdef MUSICTX_PAIRS

using Int16s = int16_t __attribute__((vector_size(4 * WIDTH)));  // two in each word

// For each word, the sum of the products of its two int16.
inline Words multiply_pairs(const Int16s& a, const Int16s& b) {
#ifdef __AVX512BW__
  return (Words)_mm512_madd_epi16((__m512i)a, (__m512i)b);
#else
  return (Words)_mm256_madd_epi16((__m256i)a, (__m256i)b);
#endif
}

struct Bytes {
  static constexpr int GROUP = 4, VECTORS = WIDTH / 4;
  struct Weights {
    Int16s even, odd;  // bytes 0 and 2 of each word; bytes 1 and 3
  };
  struct Input {
    int16_t numbers[GROUP];  // in the order of `Weights`: inputs 0, 2, 1, 3
  };
  using Broadcast = Weights;
  using Sum = Words;
  struct Prepared {
    float scale;
  };

  // Scales x so that its largest number is 32767, or less if sums with weights of 127 could overflow int32.
  static Prepared prepare(const float* x, int64_t count, Input* to) {
    constexpr float LARGEST = 32767.0f, SUM = 2130706432.0f / 127.0f;  // 2^31 - 2^24
    const auto [largest, total] = magnitude(x, count);
    to[groups<Bytes>(count) - 1] = {};
    if (!std::isfinite(total)) {  // integers cannot represent NaN or infinity
      std::fill_n(to, groups<Bytes>(count), Input{});
      return {NAN};
    }
    const float scale = std::max({largest / LARGEST, total / SUM, 1e-30f}), inverse = 1.0f / scale;
    const auto quantised = [&](int64_t i) {
      return static_cast<int16_t>(static_cast<int32_t>(std::nearbyint(x[i] * inverse)));
    };
    for (int64_t i = 0; i < count / GROUP; i++)
      to[i] = {quantised(GROUP * i), quantised(GROUP * i + 2), quantised(GROUP * i + 1),
               quantised(GROUP * i + 3)};
    constexpr int ORDER[GROUP] = {0, 2, 1, 3};
    for (int64_t i = count / GROUP * GROUP; i < count; i++)
      to[i / GROUP].numbers[ORDER[i % GROUP]] = quantised(i);
    return {scale};
  }
  static Weights weights(const uint32_t* w) {
    const Int16s x = load_vector<Int16s>(w);
    return {x << 8 >> 8, x >> 8};
  }
  static Broadcast broadcast(const Input& x) {
    return {(Int16s)splat(load_vector<int32_t>(x.numbers)), (Int16s)splat(load_vector<int32_t>(x.numbers + 2))};
  }
  static void add(Sum& sum, const Weights& weights, const Broadcast& x) {
    sum += multiply_pairs(weights.even, x.even) + multiply_pairs(weights.odd, x.odd);
  }
  static Floats value(const Sum& sum, Prepared row) {
    return __builtin_convertvector(sum, Floats) * row.scale;
  }
};

#else

struct Bytes {
  static constexpr int GROUP = 4, VECTORS = WIDTH / 8;
  struct Input {
    float numbers[GROUP];
  };
  struct Weights {
    Floats numbers[GROUP];
  };
  using Sum = Floats;
  struct Prepared {};

  static Prepared prepare(const float* x, int64_t count, Input* to) {
    for (int64_t i = 0; i < groups<Bytes>(count); i++)
      for (int64_t n = 0; n < GROUP; n++)
        to[i].numbers[n] = GROUP * i + n < count ? x[GROUP * i + n] : 0.0f;
    return {};
  }
  static Weights weights(const uint32_t* w) {
    const Words x = load_vector<Words>(w);
    return {{__builtin_convertvector(x << 24 >> 24, Floats),
             __builtin_convertvector(x << 16 >> 24, Floats),
             __builtin_convertvector(x << 8 >> 24, Floats),
             __builtin_convertvector(x >> 24, Floats)}};
  }
  static const Input& broadcast(const Input& x) { return x; }
  static void add(Sum& sum, const Weights& weights, const Input& x) {
#pragma GCC unroll 4
    for (int n = 0; n < GROUP; n++) sum += weights.numbers[n] * x.numbers[n];
  }
  static Floats value(const Sum& sum, Prepared) { return sum; }
};

#endif

// Rounds x (count,) to int8, as musictx/model/rounding.py rounds a row; returns the scale.
inline float to_bytes(const float* x, int64_t count, int8_t* integers) {
  const auto [largest, total] = magnitude(x, count);
  if (!std::isfinite(total)) {
    std::fill_n(integers, count, int8_t{0});
    return NAN;
  }
  const float scale = largest / 127.0f, divisor = std::max(scale, 1e-30f);
  for (int64_t i = 0; i < count; i++)
    integers[i] = static_cast<int8_t>(static_cast<int32_t>(std::nearbyint(x[i] / divisor)));
  return scale;
}

}  // namespace
