// 64 outputs at once: the vectors that products of a step of decoding are made of.
//
// A matrix is made of words of 32 bits, each a group of neighbours among an output's inputs; in float32
// (float32.h) a group is one input, in bytes (bytes.h) four. A panel holds, one group of inputs after the other,
// the 64 words with which that group enters 64 outputs; so nothing is ever summed across lanes.
//
// A format has
//   GROUP                  inputs in a word
//   VECTORS                of WIDTH lanes, as many sums of which fit into the registers for ROWS rows
//   Weights, Input, Sum    WIDTH words as numbers; a group of inputs as it is read; sums as they grow
//   weights(words)         Weights from WIDTH words
//   prepare(x, count, to)  x (count,) as groups, filled up with zeros; returns what `value` needs of it
//   spread(input), add     what is computed for each group; `add` in one fixed order
//   value(sum, prepared)   WIDTH sums as numbers
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "arithmetic.h"

namespace {

constexpr int LANES = 64;  // outputs in a panel
constexpr int ROWS = 4;    // vectors that meet a panel at once

// As many numbers as a register holds, of CPUs with narrower ones two: GCC keeps wider vectors in memory.
#ifdef __AVX512F__
constexpr int WIDTH = 16;
#else
constexpr int WIDTH = 8;
#endif
using Floats = float __attribute__((vector_size(4 * WIDTH)));
using Words = int32_t __attribute__((vector_size(4 * WIDTH)));

template <class Vector>
inline Vector get(const void* from) {
  Vector x;
  std::memcpy(&x, from, sizeof(x));
  return x;
}
template <class Vector>
inline void put(void* to, const Vector& x) {
  std::memcpy(to, &x, sizeof(x));
}
inline Words words(int32_t x) { return x - Words{}; }
inline Floats floats(float x) { return x - Floats{}; }

// The highest of `count` numbers and `top`; NaN is passed over. Clang makes no vectors of a plain loop.
inline float highest_of(const float* x, int64_t count, float top) {
  int64_t i = 0;
  if (count >= WIDTH) {
    Floats tops = floats(top);
    for (; i + WIDTH <= count; i += WIDTH) {
      const Floats y = get<Floats>(x + i);
      tops = y > tops ? y : tops;
    }
    for (int lane = 0; lane < WIDTH; lane++) top = tops[lane] > top ? tops[lane] : top;
  }
  for (; i < count; i++) top = x[i] > top ? x[i] : top;
  return top;
}

template <class Format>
constexpr int64_t groups(int64_t inputs) {
  return (inputs + Format::GROUP - 1) / Format::GROUP;
}

// sums[r] += sum over i of x[r][i] w[i], where w[i] are `vectors` x 16 words, apart by `stride` words; the
// rows x are apart by `apart` groups, those of sums by `between` vectors. Inlined, it would run out of
// registers in GCC.
template <class Format, int rows, int vectors>
__attribute__((noinline)) void accumulate(const uint32_t* w, ptrdiff_t stride,
                                          const typename Format::Input* x, ptrdiff_t apart,
                                          int64_t count, void* sums, ptrdiff_t between) {
  using Weights = typename Format::Weights;
  using Sum = typename Format::Sum;
  const auto place = [&](int r, int v) {
    return static_cast<char*>(sums) + (r * between + v) * sizeof(Sum);
  };
  Sum sum[rows][vectors];
  for (int r = 0; r < rows; r++)
    for (int v = 0; v < vectors; v++) sum[r][v] = get<Sum>(place(r, v));
  for (int64_t i = 0; i < count; i++, w += stride) {
    if constexpr (rows == 1) {  // what is read for one row is used at once
      const auto& input = Format::spread(x[i]);
#pragma GCC unroll 8
      for (int v = 0; v < vectors; v++)
        Format::add(sum[0][v], Format::weights(w + v * WIDTH), input);
      continue;
    }
    Weights weights[vectors];
#pragma GCC unroll 8
    for (int v = 0; v < vectors; v++) weights[v] = Format::weights(w + v * WIDTH);
#ifdef __AVX512F__
    if constexpr (rows > 1 && Format::GROUP == 1)  // GCC would load them again for each row
#pragma GCC unroll 8
      for (int v = 0; v < vectors; v++) asm("" : "+v"(weights[v]));
#endif
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++) {
      const auto& input = Format::spread(x[r * apart + i]);
#pragma GCC unroll 8
      for (int v = 0; v < vectors; v++) Format::add(sum[r][v], weights[v], input);
    }
  }
  for (int r = 0; r < rows; r++)
    for (int v = 0; v < vectors; v++) put(place(r, v), sum[r][v]);
}

// Calls some<ROWS>(r), then some<1>(r), until `rows` rows are done.
template <class Some>
inline void by_rows(int64_t rows, const Some& some) {
  int64_t r = 0;
  for (; r + ROWS <= rows; r += ROWS) some.template operator()<ROWS>(r);
  for (; r < rows; r++) some.template operator()<1>(r);
}

}  // namespace
