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
#include <type_traits>
#include <vector>

#include "arithmetic.h"

namespace {

constexpr int LANES = 64;  // outputs in a panel
constexpr int ROWS = 4;    // vectors that meet a panel at once
constexpr int BLOCK = 64;  // inputs of a panel that are kept near while many vectors meet them
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
#ifdef __AVX512F__
    if constexpr (rows > 1)  // GCC would load them again for each row
#pragma GCC unroll 8
      for (int v = 0; v < vectors; v++) asm("" : "+v"(weights[v]));
#endif
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

// y (rows, outputs) = x (rows, inputs) W^T + bias, of the outputs of one panel. For many rows the panel is
// taken in pieces of BLOCK inputs that stay near at hand, as float32, until all rows have met them.
template <class Weight>
void panel_product(const Matrix& matrix, int64_t panel, const float* x, int64_t rows, float* y) {
  constexpr int VECTORS = LANES / WIDTH;
  const int64_t inputs = matrix.inputs, block = rows > ROWS ? BLOCK : inputs;
  const Weight* w = static_cast<const Weight*>(matrix.weights) + panel * inputs * LANES;
  const int64_t first = panel * LANES;
  const int count = static_cast<int>(std::min<int64_t>(LANES, matrix.outputs - first));
  static thread_local std::vector<float> found;
  found.assign(rows * LANES, 0.0f);
  const auto some = [&]<int group>(const auto* weights, int64_t r, int64_t from, int64_t many) {
    float* sums = found.data() + r * LANES;
    Floats sum[group][VECTORS];
    for (int n = 0; n < group; n++)
      for (int v = 0; v < VECTORS; v++) sum[n][v] = floats(sums + n * LANES + v * WIDTH);
    accumulate<group, VECTORS>(weights, LANES, x + r * inputs + from, inputs, many, sum);
    for (int n = 0; n < group; n++)
      for (int v = 0; v < VECTORS; v++) put(sums + n * LANES + v * WIDTH, sum[n][v]);
  };
  const auto all = [&](const auto* weights, int64_t from, int64_t many) {
    const char* next = reinterpret_cast<const char*>(w + many * LANES);
    const int64_t share = (block * LANES * sizeof(Weight) * ROWS + rows - 1) / rows;
    int64_t r = 0;
    for (; r + ROWS <= rows; r += ROWS, next += share) {
      for (int64_t n = 0; n < share && rows > ROWS; n += 64) __builtin_prefetch(next + n);
      some.template operator()<ROWS>(weights, r, from, many);
    }
    for (; r < rows; r++) some.template operator()<1>(weights, r, from, many);
  };
  for (int64_t from = 0; from < inputs; from += block, w += block * LANES) {
    const int64_t many = std::min(block, inputs - from);
    if (std::is_same_v<Weight, float> || rows <= ROWS) {
      all(w, from, many);
    } else {
      float wide[BLOCK * LANES];
      for (int64_t i = 0; i < many * LANES; i += WIDTH) put(wide + i, floats(w + i));
      all(wide, from, many);
    }
  }
  for (int64_t r = 0; r < rows; r++) {
    float* sums = found.data() + r * LANES;
    if (matrix.scale)
      for (int o = 0; o < count; o++) sums[o] *= matrix.scale[first + o];
    if (matrix.bias)
      for (int o = 0; o < count; o++) sums[o] += matrix.bias[first + o];
    std::copy(sums, sums + count, y + r * matrix.outputs + first);
  }
}

// y (rows, outputs) = x (rows, inputs) W^T + bias.
template <class Weight>
void product(const Matrix& matrix, const float* x, int64_t rows, float* y, int threads) {
  const int64_t panels = matrix.panels();
  const bool shared = threads > 1 && matrix.outputs * matrix.inputs * rows > SHARED;
#pragma omp parallel for schedule(static) num_threads(threads) if (shared)
  for (int64_t panel = 0; panel < panels; panel++)
    panel_product<Weight>(matrix, panel, x, rows, y);
}

}  // namespace
