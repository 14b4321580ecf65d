// Products of matrices with one vector or a few: what a step of decoding consists of.
//
// Each of 64 outputs is a lane of a panel (lanes.h). Each output is added up group by group, in the same
// order whatever the number of vectors or of threads: a row of a batch is bit for bit what it is alone.
#pragma once
#include <algorithm>
#include <vector>

#include "bytes.h"
#include "float32.h"
#include "threads.h"

namespace {

constexpr int BLOCK = 64;  // groups of a panel that are kept near while many vectors meet them
constexpr int64_t SHARED = 1 << 18;  // words; smaller products are not worth waking another thread for

// Weights (outputs x inputs) in panels and a bias, filled up with zeros.
struct Matrix {
  const uint32_t* weights;
  const float* bias;    // may be missing
  const float* scales;  // of the outputs, where the weights are bytes; else missing
  int64_t outputs, inputs;

  int64_t panels() const { return (outputs + LANES - 1) / LANES; }
};

// Rows of inputs as a format reads them.
template <class Format>
struct Inputs {
  std::vector<typename Format::Input> numbers;
  std::vector<typename Format::Prepared> prepared;
  int64_t apart = 0;

  void read(const float* x, int64_t rows, int64_t count, int64_t between) {
    apart = groups<Format>(count);
    numbers.resize(rows * apart);
    prepared.resize(rows);
    for (int64_t r = 0; r < rows; r++)
      prepared[r] = Format::prepare(x + r * between, count, &numbers[r * apart]);
  }
  const typename Format::Input* row(int64_t r) const { return &numbers[r * apart]; }
};

// sums (rows, 64) += the products of `rows` rows of inputs with `count` groups of a panel.
template <class Format, int rows>
inline void panel_sums(const uint32_t* w, const typename Format::Input* x, int64_t apart,
                       int64_t count, typename Format::Sum* sums) {
  constexpr int ALL = LANES / WIDTH, VECTORS = rows == 1 ? ALL : Format::VECTORS;
  for (int v = 0; v < ALL; v += VECTORS)
    accumulate<Format, rows, VECTORS>(w + v * WIDTH, LANES, x, apart, count, sums + v, ALL);
}

// y (rows, outputs) = x (rows, inputs) W^T + bias, of the outputs of one panel. For many rows the panel is
// taken in pieces that stay near at hand until all rows have met them.
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
    const int64_t many = std::min(block, all - from);
    // Each group of rows fetches its share of the next piece.
    const char* next = reinterpret_cast<const char*>(w + many * LANES);
    const int64_t share = (block * LANES * sizeof(*w) * ROWS + rows - 1) / rows;
    by_rows(rows, [&]<int some>(int64_t r) {
      for (int64_t n = 0; n < share && rows > ROWS; n += 64) __builtin_prefetch(next + n);
      next += share;
      panel_sums<Format, some>(w, x.row(r) + from, x.apart, many, &sums[r * VECTORS]);
    });
  }
  for (int64_t r = 0; r < rows; r++) {
    float found[LANES];
    for (int v = 0; v < VECTORS; v++) {
      Floats one = Format::value(sums[r * VECTORS + v], x.prepared[r]);
      if (matrix.scales) one *= get<Floats>(matrix.scales + first + v * WIDTH);
      if (matrix.bias) one += get<Floats>(matrix.bias + first + v * WIDTH);
      put(found + v * WIDTH, one);
    }
    std::copy_n(found, count, y + r * matrix.outputs + first);
  }
}

// y (rows, outputs) = x (rows, inputs) W^T + bias.
template <class Format>
void product_as(const Matrix& matrix, const float* x, int64_t rows, float* y, int threads) {
  static thread_local Inputs<Format> read;
  read.read(x, rows, matrix.inputs, matrix.inputs);
  const Inputs<Format>& inputs = read;  // of this thread, for all
  const int64_t panels = matrix.panels();
  const int64_t words = matrix.outputs * groups<Format>(matrix.inputs);
  const bool shared = threads > 1 && words * rows > SHARED;
  const int count = shared ? threads : 1;
  parallel(count, [&](int number) {
    for (int64_t panel = panels * number / count; panel < panels * (number + 1) / count; panel++)
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
