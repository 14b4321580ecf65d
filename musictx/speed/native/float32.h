// The format of float32 weights (lanes.h): one number in each word.
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
  static Weights weights(const uint32_t* w) { return load_vector<Floats>(w); }
  static Floats broadcast(Input x) { return splat(x); }
  static void add(Sum& sum, const Weights& weights, const Floats& x) { sum += weights * x; }
  static Floats value(const Sum& sum, Prepared) { return sum; }
};

}  // namespace
