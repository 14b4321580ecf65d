// The arguments of attention, and the operations on a panel: a block of queries times consecutive keys.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <vector>

#include "numbers.h"

// The arguments; native/library.py has the same fields in the same order. Arrays are contiguous:
// q (batch, heads, queries, size); k, v (batch, heads, keys, size); table (1 or heads, keys, size) and
// bias (1 or heads, keys) in descending distance. table, bias and the codes may be null.
// q, k, v, table and upstream are float32, or bfloat16 if `bf16`; all other numbers are float32.
struct Problem {
  const void *q, *k, *v, *table;
  const float* bias;
  // (batch, queries), (batch, keys): the first key of the piece of each query and key. A query attends only
  // to keys with its own code.
  const int32_t *query_codes, *key_codes;
  float *out, *log_sum;  // (batch, heads, queries, size); (batch, heads, queries): log of the sum of weights
  const void* upstream;  // the gradient of `out`; from here on only for the backward pass
  float *dq, *dk, *dv;
  float *dtable, *dbias;  // (batch, heads, keys, ...): one for each batch row and head; may be null
  int64_t batch, heads, queries, keys, size, table_heads, bias_heads;
  int64_t block, panel;  // the most queries and the most keys of a panel; panel >= 2 block
  int64_t threads, bf16;
  uint64_t seed, drop_threshold;  // dropout drops a weight if its 32 random bits are below the threshold
  float scale, kept_share;        // kept_share = 1 - drop_threshold / 2^32
};

namespace {

// Uninitialised memory. It begins at a cache line, because GEMM may sum unaligned operands in another order.
constexpr std::align_val_t CACHE_LINE{64};
struct Free {
  void operator()(void* p) const { ::operator delete(p, CACHE_LINE); }
};
template <class T>
using Buffer = std::unique_ptr<T[], Free>;
template <class T>
Buffer<T> buffer(size_t count) {
  return Buffer<T>(static_cast<T*>(::operator new(count * sizeof(T), CACHE_LINE)));
}

// The m queries of one head from query `first` on, and the keys oldest .. stop - 1 that they attend to.
struct Block {
  const Problem& problem;
  int64_t b, h, row;  // batch row; head; index of the first query in arrays (batch, heads, queries)
  int first, m, oldest, stop;
  const int32_t *query_codes = nullptr, *key_codes = nullptr;  // of this block; of this batch row

  Block(const Problem& problem, int64_t head, int64_t number)
      : problem(problem), b(head / problem.heads), h(head % problem.heads) {
    first = static_cast<int>(number * problem.block);
    m = static_cast<int>(std::min(problem.block, problem.queries - first));
    row = head * problem.queries + first;
    const int diagonal = static_cast<int>(problem.keys - problem.queries) + first;  // key of query `first`
    oldest = 0;
    stop = diagonal + m;
    if (problem.key_codes) {
      query_codes = problem.query_codes + b * problem.queries + first;
      key_codes = problem.key_codes + b * problem.keys;
      // Keys from the diagonal on are never skipped, so that the last panel has its usual shape.
      oldest = std::min(diagonal, static_cast<int>(*std::min_element(query_codes, query_codes + m)));
    }
  }

  int panels() const { return static_cast<int>((stop - oldest + problem.panel - 1) / problem.panel); }
};

// The m queries of a block, and the w keys from `start` on. Matrices over queries and keys have row stride n.
// Only the last panel has keys later than a query: if there are several, it has more than panel / 2 >= m keys,
// so all others end before the diagonal.
template <class Number>
struct Panel {
  const Block& block;
  const Problem& problem;
  int m, start, w, n, size;
  bool is_last;
  // Rows in arrays of all heads: of the first key in k; of the largest distance in dtable.
  int64_t key_row, distance_row;
  const Number *q, *k, *v, *table = nullptr;
  const float* bias = nullptr;

  Panel(const Block& block, int number)
      : block(block), problem(block.problem), m(block.m), size(static_cast<int>(problem.size)) {
    const int64_t count = block.panels(), keys = block.stop - block.oldest;
    start = block.oldest + static_cast<int>(keys * number / count);
    w = block.oldest + static_cast<int>(keys * (number + 1) / count) - start;
    is_last = number == count - 1;
    n = is_last ? w : w + m - 1;
    const int64_t head = block.b * problem.heads + block.h;
    const int64_t distance = problem.keys - (block.stop - start);
    key_row = head * problem.keys + start;
    distance_row = head * problem.keys + distance;
    q = static_cast<const Number*>(problem.q) + block.row * size;
    k = static_cast<const Number*>(problem.k) + key_row * size;
    v = static_cast<const Number*>(problem.v) + key_row * size;
    if (problem.table)
      table = static_cast<const Number*>(problem.table) +
              ((problem.table_heads == 1 ? 0 : block.h) * problem.keys + distance) * size;
    if (problem.bias)
      bias = problem.bias + (problem.bias_heads == 1 ? 0 : block.h) * problem.keys + distance;
  }

  bool has_relative_logits() const { return table || bias; }
  // How many of the panel's keys are not later than query r.
  int visible(int r) const { return is_last ? w - m + r + 1 : w; }
  size_t row_offset(int r) const { return static_cast<size_t>(r) * n; }

  // Computes the logits in `memory` of m * (n + 1) numbers and returns the address of the first. Keys of other
  // pieces are masked, later keys are not.
  float* logits(float* memory, const PackBuffers& buffers) const {
    float* s = memory + (m - 1);
    if (bias)
      for (int r = 0; r < m; r++) std::copy_n(bias, n, memory + row_offset(r) + r);
    if (table)
      gemm('n', 't', m, n, size, problem.scale, q, size, table, size, bias ? 1.0f : 0.0f, memory, n + 1,
           buffers);
    gemm('n', 't', m, w, size, problem.scale, q, size, k, size, has_relative_logits() ? 1.0f : 0.0f, s, n,
         buffers);
    if (block.key_codes)
      for (int r = 0; r < m; r++) {
        float* x = s + row_offset(r);
        const int32_t* key_codes = block.key_codes + start;
        const int32_t code = block.query_codes[r];
        const int count = visible(r);
#pragma omp simd
        for (int j = 0; j < count; j++) x[j] = key_codes[j] == code ? x[j] : -INFINITY;
      }
    return s;
  }

  // Dropout: sets some numbers of x (m, w) to 0. A hash of seed, head, query and key decides which, so the
  // result does not depend on blocks and panels. `column_hashes` is memory for w numbers.
  template <class T>
  void drop(T* x, uint32_t* column_hashes) const {
    const uint32_t low_seed = hash(static_cast<uint32_t>(problem.seed));
    const uint32_t high_seed = hash(static_cast<uint32_t>(problem.seed >> 32) + 0x9e3779b9u);
    const uint32_t head = static_cast<uint32_t>(block.b * problem.heads + block.h);
#pragma omp simd
    for (int j = 0; j < w; j++) column_hashes[j] = hash(hash(start + j + low_seed) + head);
    const uint32_t threshold = static_cast<uint32_t>(problem.drop_threshold);
    for (int r = 0; r < m; r++) {
      const uint32_t row_hash = hash(hash(static_cast<uint32_t>(block.first + r) + high_seed) ^ head);
      T* y = x + row_offset(r);
      const int count = visible(r);
#pragma omp simd
      for (int j = 0; j < count; j++)
        y[j] = hash(row_hash + column_hashes[j]) < threshold ? T(0) : y[j];
    }
  }
};

// The memory of one thread. float32 weights overwrite the logits; bfloat16 weights need separate memory.
template <class Number>
struct Workspace {
  static constexpr bool in_place = sizeof(Number) == sizeof(float);
  Buffer<float> logits, dweights, by_query, totals;  // the last two have one number for each query
  Buffer<Number> weights, dlogits;
  Buffer<uint32_t> column_hashes, packed_a, packed_b;
  PackBuffers pack_buffers;

  Workspace(const Problem& problem, bool backward) {
    const size_t block = std::min(problem.block, problem.queries), keys = std::min(problem.panel, problem.keys);
    const size_t cells = block * (keys + block);
    logits = buffer<float>(cells);
    by_query = buffer<float>(block);
    totals = buffer<float>(block);
    if (backward) dweights = buffer<float>(cells);
    if (!in_place) weights = buffer<Number>(cells);
    if (!in_place && backward) dlogits = buffer<Number>(cells);
    if (problem.drop_threshold) column_hashes = buffer<uint32_t>(keys);
#ifdef MUSICTX_BF16
    if (in_place || torch_bf16_gemm) return;
    // The dimensions of all products: queries of a block, keys or distances of a panel, head size.
    const int m = static_cast<int>(block), n = static_cast<int>(keys + block);
    const int size = static_cast<int>(problem.size);
    packed_b = buffer<uint32_t>(std::max({bf16_gemm::packed_b_size(n, size),
                                          bf16_gemm::packed_b_size(size, n),
                                          bf16_gemm::packed_b_size(size, m)}));
    if (backward) packed_a = buffer<uint32_t>(bf16_gemm::packed_a_size(n, m));
    pack_buffers = {packed_a.get(), packed_b.get()};
#endif
  }
};

}  // namespace
