// Products of matrices with one vector or a few: what a step of decoding consists of.
//
// Each of 64 outputs is a lane. A panel of a matrix holds, one input after the other, the 64 weights
// with which that input enters 64 outputs; so nothing is ever summed across lanes. Each output is added
// up input by input, in the same order whatever the number of vectors or of threads: a row of a batch
// is bit for bit what it is alone.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "arithmetic.h"

namespace {

constexpr int LANES = 64;  // outputs in a panel
constexpr int ROWS = 4;    // vectors that meet a panel at once
constexpr int64_t SHARED = 1 << 18;  // smaller products are not worth waking another thread for

// 16 numbers at once, in however many registers this CPU needs for them.
constexpr int WIDTH = 16;
using Floats = float __attribute__((vector_size(4 * WIDTH)));
using Words = int32_t __attribute__((vector_size(4 * WIDTH)));

inline Floats floats(const float* from) {
  Floats x;
  std::memcpy(&x, from, sizeof(x));
  return x;
}
inline Floats floats(const uint16_t* from) {  // bfloat16
  Words x;
  for (int i = 0; i < WIDTH; i++) x[i] = from[i] << 16;
  return bits<Floats>(x);
}
inline Floats floats(const int8_t* from) {
  Words x;
  for (int i = 0; i < WIDTH; i++) x[i] = from[i];
  return __builtin_convertvector(x, Floats);
}
inline void put(float* to, const Floats& x) { std::memcpy(to, &x, sizeof(x)); }

// sum[r] += sum over i of x[r][i] w[i], where w[i] are `vectors` x 16 numbers, rows apart by `stride`;
// the vectors x are apart by `apart`.
template <int rows, int vectors, class Weight>
inline __attribute__((always_inline)) void accumulate(const Weight* w, ptrdiff_t stride,
                                                      const float* x, ptrdiff_t apart,
                                                      int64_t count, Floats (&sum)[rows][vectors]) {
  for (int64_t i = 0; i < count; i++, w += stride) {
    Floats weights[vectors];
#pragma GCC unroll 8
    for (int v = 0; v < vectors; v++) weights[v] = floats(w + v * WIDTH);
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
      for (int v = 0; v < vectors; v++) sum[r][v] += weights[v] * x[r * apart + i];
  }
}

// Packed weights (outputs x inputs): panels as above, filled up with zeros. With `scale`, for each panel
// and output, weights are whole numbers to be multiplied by it.
struct Matrix {
  const void* weights;
  const float *scale, *bias;  // may be missing
  int64_t outputs, inputs;

  int64_t panels() const { return (outputs + LANES - 1) / LANES; }
};

template <int rows, class Weight>
inline void panel_product(const Matrix& matrix, int64_t panel, const float* x, float* y) {
  constexpr int VECTORS = LANES / WIDTH;
  const Weight* w = static_cast<const Weight*>(matrix.weights) + panel * matrix.inputs * LANES;
  Floats sum[rows][VECTORS] = {};
  accumulate<rows, VECTORS>(w, LANES, x, matrix.inputs, matrix.inputs, sum);
  const int64_t first = panel * LANES;
  const int count = static_cast<int>(std::min<int64_t>(LANES, matrix.outputs - first));
  for (int r = 0; r < rows; r++) {
    float found[LANES];
    for (int v = 0; v < VECTORS; v++) put(found + v * WIDTH, sum[r][v]);
    if (matrix.scale)
      for (int o = 0; o < count; o++) found[o] *= matrix.scale[first + o];
    if (matrix.bias)
      for (int o = 0; o < count; o++) found[o] += matrix.bias[first + o];
    std::copy(found, found + count, y + r * matrix.outputs + first);
  }
}

// y (rows, outputs) = x (rows, inputs) W^T + bias.
template <class Weight>
void product(const Matrix& matrix, const float* x, int64_t rows, float* y, int threads) {
  const int64_t panels = matrix.panels();
  const bool shared = threads > 1 && matrix.outputs * matrix.inputs * rows > SHARED;
#pragma omp parallel for schedule(static) num_threads(threads) if (shared)
  for (int64_t panel = 0; panel < panels; panel++) {
    int64_t r = 0;
    for (; r + ROWS <= rows; r += ROWS)
      panel_product<ROWS, Weight>(matrix, panel, x + r * matrix.inputs, y + r * matrix.outputs);
    for (; r < rows; r++)
      panel_product<1, Weight>(matrix, panel, x + r * matrix.inputs, y + r * matrix.outputs);
  }
}

}  // namespace
