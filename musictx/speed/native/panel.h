// What is computed, which keys a block of queries meets, and the steps over one panel of logits.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <vector>

#include "numbers.h"

// What is computed; native/library.py has the same fields in the same order. Arrays are dense:
// q (batch, heads, queries, size); k, v (batch, heads, keys, size); table (1 or heads, keys, size)
// and bias (1 or heads, keys) in descending distance. Those may be missing, codes too.
// q, k, v, table and upstream are float32, or bfloat16 if `bf16`; all else is float32.
struct Problem {
  const void *q, *k, *v, *table;
  const float* bias;
  // The first key of each one's piece (batch, queries), (batch, keys): equal numbers, equal piece.
  const int32_t *query_codes, *key_codes;
  float *out, *log_sum;                      // (batch, heads, queries, size), (.., queries)
  const void* upstream;                      // from here on: backward only
  float *dq, *dk, *dv;
  float *dtable, *dbias;  // (batch, heads, keys, ...), a part for each row and head; may be missing
  int64_t batch, heads, queries, keys, size, table_heads, bias_heads;
  int64_t block, run, threads, bf16;  // queries and keys of a panel at most; run >= 2 block
  uint64_t seed, dropped;  // a weight is dropped if its 32 random bits are below `dropped`
  float scale, kept;       // kept = 1 - dropped / 2^32
};

namespace {

// Memory of `numbers`, not set to anything. Aligned, because products may add in another order in
// memory that begins elsewhere in a cache line.
constexpr std::align_val_t line{64};
struct Free {
  void operator()(void* p) const { ::operator delete(p, line); }
};
template <class T>
using Memory = std::unique_ptr<T[], Free>;
template <class T>
Memory<T> memory(size_t numbers) {
  return Memory<T>(static_cast<T*>(::operator new(numbers * sizeof(T), line)));
}

// A block of queries of one head: first .. first + m - 1, over the keys oldest .. stop - 1.
struct Block {
  const Problem& it;
  int64_t b, h, row;  // row: of the first query among all (batch, head, query)
  int first, m, oldest, stop;
  const int32_t *of_query = nullptr, *of_key = nullptr;

  Block(const Problem& it, int64_t head, int64_t number)
      : it(it), b(head / it.heads), h(head % it.heads) {
    first = static_cast<int>(number * it.block);
    m = static_cast<int>(std::min(it.block, it.queries - first));
    row = head * it.queries + first;
    const int own = static_cast<int>(it.keys - it.queries) + first;
    oldest = 0;
    stop = own + m;
    if (it.key_codes) {
      of_query = it.query_codes + b * it.queries + first;
      of_key = it.key_codes + b * it.keys;
      // The block's own keys always stay in, so that its shape is the usual one.
      oldest = std::min(own, static_cast<int>(*std::min_element(of_query, of_query + m)));
    }
  }

  int panels() const { return static_cast<int>((stop - oldest + it.run - 1) / it.run); }
};

// A block of queries over the keys start .. start + w - 1, and the steps that both passes share.
// All matrices over queries and keys have n numbers to a row. The last panel of several has more
// than run / 2 >= m keys, so the others end before the block's own.
template <class Number>
struct Panel {
  const Block& block;
  const Problem& it;
  int m, start, w, n, size;
  bool last;
  int64_t key, distance;  // the first key, and the table's row for d, among those of all heads
  const Number *q, *k, *v, *table = nullptr;
  const float* bias = nullptr;

  Panel(const Block& block, int number)
      : block(block), it(block.it), m(block.m), size(static_cast<int>(it.size)) {
    const int64_t count = block.panels(), keys = block.stop - block.oldest;
    start = block.oldest + static_cast<int>(keys * number / count);
    w = block.oldest + static_cast<int>(keys * (number + 1) / count) - start;
    last = number == count - 1;
    n = last ? w : w + m - 1;
    const int64_t head = block.b * it.heads + block.h;
    const int64_t newest = it.keys - (block.stop - start);
    key = head * it.keys + start;
    distance = head * it.keys + newest;
    q = static_cast<const Number*>(it.q) + block.row * size;
    k = static_cast<const Number*>(it.k) + key * size;
    v = static_cast<const Number*>(it.v) + key * size;
    if (it.table)
      table = static_cast<const Number*>(it.table) +
              ((it.table_heads == 1 ? 0 : block.h) * it.keys + newest) * size;
    if (it.bias) bias = it.bias + (it.bias_heads == 1 ? 0 : block.h) * it.keys + newest;
  }

  bool relative() const { return table || bias; }
  int seen(int r) const { return last ? w - m + r + 1 : w; }
  size_t at(int r) const { return static_cast<size_t>(r) * n; }

  // Logits, in `buffer` of m * (n + 1) numbers; those of later keys are not masked yet.
  float* logits(float* buffer, const Lent& lent) const {
    float* s = buffer + (m - 1);
    if (bias)
      for (int r = 0; r < m; r++) std::copy_n(bias, n, buffer + at(r) + r);
    if (table)
      product('n', 't', m, n, size, it.scale, q, size, table, size, bias ? 1.0f : 0.0f, buffer,
              n + 1, lent);
    product('n', 't', m, w, size, it.scale, q, size, k, size, relative() ? 1.0f : 0.0f, s, n,
            lent);
    if (block.of_key)
      for (int r = 0; r < m; r++) {
        float* x = s + at(r);
        const int32_t* of_key = block.of_key + start;
        const int32_t own = block.of_query[r];
        const int count = seen(r);
#pragma omp simd
        for (int j = 0; j < count; j++) x[j] = of_key[j] == own ? x[j] : -INFINITY;
      }
    return s;
  }

  // Sets those numbers of x to 0 whose weights are dropped: a hash of the seed, head, query and key,
  // so that it does not matter how the work is cut.
  template <class T>
  void drop(T* x, uint32_t* columns) const {
    const uint32_t low = mixed(static_cast<uint32_t>(it.seed));
    const uint32_t high = mixed(static_cast<uint32_t>(it.seed >> 32) + 0x9e3779b9u);
    const uint32_t head = static_cast<uint32_t>(block.b * it.heads + block.h);
#pragma omp simd
    for (int j = 0; j < w; j++) columns[j] = mixed(mixed(start + j + low) + head);
    const uint32_t dropped = static_cast<uint32_t>(it.dropped);
    for (int r = 0; r < m; r++) {
      const uint32_t own = mixed(mixed(static_cast<uint32_t>(block.first + r) + high) ^ head);
      T* y = x + at(r);
      const int count = seen(r);
#pragma omp simd
      for (int j = 0; j < count; j++) y[j] = mixed(own + columns[j]) < dropped ? T(0) : y[j];
    }
  }
};

// Buffers of one thread. Weights in bfloat16 need places of their own, float32 is done in place.
template <class Number>
struct Room {
  static constexpr bool wide = sizeof(Number) == sizeof(float);
  Memory<float> logits, second, by_row, totals;
  Memory<Number> weights, dlogits;
  Memory<uint32_t> columns, packed_rows, packed_columns;
  Lent lent;

  Room(const Problem& it, bool backward) {
    const size_t block = std::min(it.block, it.queries), keys = std::min(it.run, it.keys);
    const size_t cells = block * (keys + block);
    logits = memory<float>(cells);
    by_row = memory<float>(block);
    totals = memory<float>(block);
    if (backward) second = memory<float>(cells);
    if (!wide) weights = memory<Number>(cells);
    if (!wide && backward) dlogits = memory<Number>(cells);
    if (it.dropped) columns = memory<uint32_t>(keys);
#ifdef MUSICTX_BF16
    if (wide || torch_bf16_gemm) return;
    // The products are of a block of queries, the keys or the distances of a panel, and a head's size.
    const int m = static_cast<int>(block), n = static_cast<int>(keys + block);
    const int size = static_cast<int>(it.size);
    packed_columns = memory<uint32_t>(std::max({bf16_gemm::packed_columns(n, size),
                                                bf16_gemm::packed_columns(size, n),
                                                bf16_gemm::packed_columns(size, m)}));
    if (backward) packed_rows = memory<uint32_t>(bf16_gemm::packed_rows(n, m));
    lent = {packed_rows.get(), packed_columns.get()};
#endif
  }
};

}  // namespace
