// Whole numbers from -127 to 127, four inputs to a word; each output has a scale (Matrix::scales). A
// quarter of the memory of float32: with one row it is reading the weights that takes the time.
#pragma once
#include <algorithm>

#include "lanes.h"

namespace {

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

}  // namespace
