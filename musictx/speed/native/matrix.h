// Products of weight matrices with a few rows of inputs: most of the work of a decoding step.
//
// Panels are those of lanes.h. Each output is summed group by group, in the same order for any number of
// rows and threads, so a row has the same bits in a batch as alone.
#pragma once
#include <algorithm>
#include <vector>

#include "bytes.h"
#include "threads.h"

namespace {

constexpr int BLOCK = 64;  // groups of a panel that stay in the CPU's cache while all rows are multiplied by them
constexpr int64_t PARALLEL = 1 << 18;  // multiplications of words; smaller products use one thread

// Weights (outputs, inputs) in panels, and a bias; padded with zeros.
struct Matrix {
  const uint32_t* weights;
  const float* bias;    // may be null
  const float* scales;  // of the outputs, if the weights are int8; else null
  int64_t outputs, inputs;
};

// Rows of inputs, converted for a format.
template <class Format>
struct Inputs {
  std::vector<typename Format::Input> numbers;
  std::vector<typename Format::Prepared> prepared;
  int64_t stride = 0;  // groups from row to row

  // x (rows, count), with x_stride numbers from row to row.
  void assign(const float* x, int64_t rows, int64_t count, int64_t x_stride) {
    stride = groups<Format>(count);
    numbers.resize(rows * stride);
    prepared.resize(rows);
    for (int64_t r = 0; r < rows; r++)
      prepared[r] = Format::prepare(x + r * x_stride, count, &numbers[r * stride]);
  }
  const typename Format::Input* row(int64_t r) const { return &numbers[r * stride]; }
};

// sums (rows, 64) += `rows` rows of inputs times `count` groups of a panel.
template <class Format, int rows>
inline void panel_sums(const uint32_t* w, const typename Format::Input* x, int64_t stride,
                       int64_t count, typename Format::Sum* sums) {
  constexpr int ALL = LANES / WIDTH, AT_ONCE = rows == 1 ? ALL : Format::VECTORS;
  for (int v = 0; v < ALL; v += AT_ONCE)
    accumulate<Format, rows, AT_ONCE>(w + v * WIDTH, LANES, x, stride, count, sums + v, ALL);
}

// y (rows, outputs) = x (rows, inputs) W^T + bias, for the outputs of one panel. With more than ROWS rows,
// the panel is processed in blocks of BLOCK groups.
template <class Format>
void panel_product(const Matrix& matrix, int64_t panel, const Inputs<Format>& x, int64_t rows,
                   float* y) {
  constexpr int VECTORS = LANES / WIDTH;
  const int64_t all = groups<Format>(matrix.inputs), block = rows > ROWS ? BLOCK : all;
  const uint32_t* w = matrix.weights + panel * all * LANES;
  const int64_t first = panel * LANES;
  const int count = static_cast<int>(std::min<int64_t>(LANES, matrix.outputs - first));
  static thread_local std::vector<typename Format::Sum> sums;
  sums.clear();
  sums.resize(rows * VECTORS);
  for (int64_t from = 0; from < all; from += block, w += block * LANES) {
    const int64_t size = std::min(block, all - from);
    // Each block of rows prefetches its share of the next block of the panel.
    const char* next = reinterpret_cast<const char*>(w + size * LANES);
    const int64_t share = (block * LANES * sizeof(*w) * ROWS + rows - 1) / rows;
    in_row_blocks(rows, [&]<int block_rows>(int64_t r) {
      for (int64_t n = 0; n < share && rows > ROWS; n += 64) __builtin_prefetch(next + n);
      next += share;
      panel_sums<Format, block_rows>(w, x.row(r) + from, x.stride, size, &sums[r * VECTORS]);
    });
  }
  for (int64_t r = 0; r < rows; r++) {
    float products[LANES];
    for (int v = 0; v < VECTORS; v++) {
      Floats y_vector = Format::value(sums[r * VECTORS + v], x.prepared[r]);
      if (matrix.scales) y_vector *= load_vector<Floats>(matrix.scales + first + v * WIDTH);
      if (matrix.bias) y_vector += load_vector<Floats>(matrix.bias + first + v * WIDTH);
      store_vector(products + v * WIDTH, y_vector);
    }
    std::copy_n(products, count, y + r * matrix.outputs + first);
  }
}

// y (rows, outputs) = x (rows, inputs) W^T + bias.
template <class Format>
void product_as(const Matrix& matrix, const float* x, int64_t rows, float* y, int threads) {
  static thread_local Inputs<Format> memory;
  memory.assign(x, rows, matrix.inputs, matrix.inputs);
  const Inputs<Format>& inputs = memory;  // a reference to this thread's memory, for all threads
  const int64_t panels = (matrix.outputs + LANES - 1) / LANES;
  const int64_t words = matrix.outputs * groups<Format>(matrix.inputs);
  const int used = words * rows > PARALLEL ? threads : 1;
  parallel(used, [&](int thread) {
    for (int64_t panel = panels * thread / used; panel < panels * (thread + 1) / used; panel++)
      panel_product<Format>(matrix, panel, inputs, rows, y);
  });
}
void product(const Matrix& matrix, const float* x, int64_t rows, float* y, int threads) {
  if (matrix.scales)
    product_as<Bytes>(matrix, x, rows, y, threads);
  else
    product_as<Float32>(matrix, x, rows, y, threads);
}

}  // namespace
