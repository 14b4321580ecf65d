// float32: one input to a word.
#pragma once
#include <algorithm>

#include "lanes.h"

namespace {

struct Float32 {
  static constexpr int GROUP = 1, VECTORS = WIDTH / 4;
  using Input = float;
  using Weights = Floats;
  using Sum = Floats;
  struct Prepared {};

  static Prepared prepare(const float* x, int64_t count, Input* to) {
    std::copy_n(x, count, to);
    return {};
  }
  static Weights weights(const uint32_t* w) { return get<Floats>(w); }
  static Floats spread(Input x) { return floats(x); }
  static void add(Sum& sum, const Weights& weights, const Floats& x) { sum += weights * x; }
  static Floats value(const Sum& sum, Prepared) { return sum; }
};

}  // namespace
