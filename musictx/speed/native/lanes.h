// The layout of weight matrices in panels of 64 outputs, and the inner loop of their products.
//
// A matrix consists of words of 32 bits. A word has the weights of one output for a group of consecutive
// inputs: one input in Float32 (below), four in Bytes (bytes.h). A panel holds, group after group, the words
// of 64 outputs. Each output has its own lane, so nothing is summed across lanes.
//
// A format has
//   GROUP                  inputs in a word
//   VECTORS                vectors of sums per row that fit into the registers, with ROWS rows at once
//   Weights, Input, Sum    WIDTH words of weights, decoded; a group of inputs; WIDTH accumulators
//   weights(words)         Weights from WIDTH words
//   prepare(x, count, to)  write x (count,) to `to` in groups, padded with zeros; return what `value` needs
//   broadcast(input)       the group of inputs in every lane
//   add(sum, weights, x)   sum += weights x, in one fixed order
//   value(sum, prepared)   the WIDTH sums in float32
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "arithmetic.h"

namespace {

constexpr int LANES = 64;  // outputs of a panel
constexpr int ROWS = 4;    // rows of inputs that are multiplied with a panel at once

// Lanes of a vector: one register with AVX-512, otherwise two; GCC keeps wider vectors in memory.
#ifdef __AVX512F__
constexpr int WIDTH = 16;
#else
constexpr int WIDTH = 8;
#endif
using Floats = float __attribute__((vector_size(4 * WIDTH)));
using Words = int32_t __attribute__((vector_size(4 * WIDTH)));

template <class Vector>
inline Vector load_vector(const void* address) {
  Vector x;
  std::memcpy(&x, address, sizeof(x));
  return x;
}
template <class Vector>
inline void store_vector(void* address, const Vector& x) {
  std::memcpy(address, &x, sizeof(x));
}
// x in every lane.
inline Words splat(int32_t x) { return x - Words{}; }
inline Floats splat(float x) { return x - Floats{}; }

// The highest of `top` and `count` numbers, ignoring NaN. Clang does not vectorise a plain loop.
inline float highest_of(const float* x, int64_t count, float top) {
  int64_t i = 0;
  if (count >= WIDTH) {
    Floats highest = splat(top);
    for (; i + WIDTH <= count; i += WIDTH) {
      const Floats y = load_vector<Floats>(x + i);
      highest = y > highest ? y : highest;
    }
    for (int lane = 0; lane < WIDTH; lane++) top = highest[lane] > top ? highest[lane] : top;
  }
  for (; i < count; i++) top = x[i] > top ? x[i] : top;
  return top;
}

template <class Format>
constexpr int64_t groups(int64_t inputs) {
  return (inputs + Format::GROUP - 1) / Format::GROUP;
}

// sums[r] += sum over i of x[r][i] w[i], where w[i] is `vectors` vectors of words. Strides: w_stride words
// from w[i] to w[i + 1], x_stride groups and sums_stride vectors from row to row. Not inlined, because GCC
// would run out of registers.
template <class Format, int rows, int vectors>
__attribute__((noinline)) void accumulate(const uint32_t* w, ptrdiff_t w_stride,
                                          const typename Format::Input* x, ptrdiff_t x_stride,
                                          int64_t count, void* sums, ptrdiff_t sums_stride) {
  using Weights = typename Format::Weights;
  using Sum = typename Format::Sum;
  const auto address = [&](int r, int v) {
    return static_cast<char*>(sums) + (r * sums_stride + v) * sizeof(Sum);
  };
  Sum sum[rows][vectors];
  for (int r = 0; r < rows; r++)
    for (int v = 0; v < vectors; v++) sum[r][v] = load_vector<Sum>(address(r, v));
  for (int64_t i = 0; i < count; i++, w += w_stride) {
    if constexpr (rows == 1) {  // each weight is used once, as soon as it is loaded
      const auto& input = Format::broadcast(x[i]);
#pragma GCC unroll 8
      for (int v = 0; v < vectors; v++)
        Format::add(sum[0][v], Format::weights(w + v * WIDTH), input);
      continue;
    }
    Weights weights[vectors];
#pragma GCC unroll 8
    for (int v = 0; v < vectors; v++) weights[v] = Format::weights(w + v * WIDTH);
#ifdef __AVX512F__
    if constexpr (rows > 1 && Format::GROUP == 1)  // keeps GCC from loading the weights again for each row
#pragma GCC unroll 8
      for (int v = 0; v < vectors; v++) asm("" : "+v"(weights[v]));
#endif
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++) {
      const auto& input = Format::broadcast(x[r * x_stride + i]);
#pragma GCC unroll 8
      for (int v = 0; v < vectors; v++) Format::add(sum[r][v], weights[v], input);
    }
  }
  for (int r = 0; r < rows; r++)
    for (int v = 0; v < vectors; v++) store_vector(address(r, v), sum[r][v]);
}

// Calls act<rows>() for a number of rows that is known only at run time, from 1 to `most`.
template <int most, class Act>
inline void with_rows(int rows, const Act& act) {
  if constexpr (most > 1)
    if (rows < most) return with_rows<most - 1>(rows, act);
  act.template operator()<most>();
}

// Calls act<ROWS>(r) for each block of ROWS rows from r on, then act<1>(r) for each remaining row.
template <class Act>
inline void in_row_blocks(int64_t rows, const Act& act) {
  int64_t r = 0;
  for (; r + ROWS <= rows; r += ROWS) act.template operator()<ROWS>(r);
  for (; r < rows; r++) act.template operator()<1>(r);
}

// The format of float32 weights: one number in each word.
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
