// Causal relative attention on the CPU, forward and backward, by blocks of queries.
//
// The algorithm is that of attention/chunked, with the keys cut too, so that what is computed from a block
// of queries and a run of keys (a panel) stays in the cache however long the sequence is.
//
// For m queries and w keys let d be the largest distance between them and P = Q E^T, where row c of
// E belongs to the distance d - c. The relative logit of query r and key j is in column j + (m-1-r).
// P has n columns: w + m - 1, or w if the keys end at the last query (what would be further right
// lies in the future). Written with n+1 numbers to a row, that logit is in place r*n + (m-1) + j:
// the same memory, begun at m-1 and read with n numbers to a row, is the matrix wanted. Q K^T is
// added in place, and the gradient of the logits, read with n+1 numbers to a row again, is the
// gradient of P. Cells right of the diagonal hold other rows' numbers (or what the memory held
// before) until they are overwritten with zeros.
//
// Every output number is written by one thread, in a fixed order: forward a task is a block of
// queries of one head, backward it is a head of one batch row. Hence equal bits in every run.
//
// Nothing of Python or torch is known here. The matrix products come in as pointers (`use`) or, in
// bfloat16, from bf16_gemm.h, so this file compiles in a moment, with any torch, and links against nothing.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <unordered_map>
#include <vector>

#include "bf16_gemm.h"

namespace {

// Fortran's calling convention: everything by address, matrices by columns.
using SingleProduct = void (*)(const char*, const char*, const int*, const int*, const int*,
                               const float*, const float*, const int*, const float*, const int*,
                               const float*, float*, const int*);
using Bf16Gemm = void (*)(const char*, const char*, const int*, const int*, const int*,
                              const float*, const uint16_t*, const int*, const uint16_t*,
                              const int*, const float*, float*, const int*);
using SetThreads = int (*)(int);

SingleProduct single_product = nullptr;
Bf16Gemm torch_bf16_gemm = nullptr;  // bfloat16 in, float32 out; null: that of bf16_gemm.h
SetThreads set_threads = nullptr;      // of the library of products; may be missing

// One thread per product while this lives: the products are called from many threads at once.
struct OneThread {
  int before = 0;
  OneThread() {
    if (set_threads) before = set_threads(1);
  }
  ~OneThread() {
    if (set_threads) set_threads(before);
  }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;
};

// Memory of one thread, lent to the products of bf16_gemm.h; null where it is not needed.
struct Lent {
  uint32_t *rows = nullptr, *columns = nullptr;
};

// c (m, n) = alpha a b + beta c, rows apart by lda, ldb, ldc. 't' reads a as (k, m), b as (n, k).
// Rows are Fortran's columns, so that the product is computed as b^T a^T.
void product(char ta, char tb, int m, int n, int k, float alpha, const float* a, int lda,
             const float* b, int ldb, float beta, float* c, int ldc, const Lent&) {
  single_product(&tb, &ta, &n, &m, &k, &alpha, b, &ldb, a, &lda, &beta, c, &ldc);
}
void product(char ta, char tb, int m, int n, int k, float alpha, const uint16_t* a, int lda,
             const uint16_t* b, int ldb, float beta, float* c, int ldc,
             [[maybe_unused]] const Lent& lent) {
#ifdef MUSICTX_BRAIN
  if (!torch_bf16_gemm) {
    bf16_gemm::product(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, lent.rows, lent.columns);
    return;
  }
#endif
  torch_bf16_gemm(&tb, &ta, &n, &m, &k, &alpha, b, &ldb, a, &lda, &beta, c, &ldc);
}

template <class To, class From>
inline To bits(From x) {
  static_assert(sizeof(To) == sizeof(From));
  To y;
  std::memcpy(&y, &x, sizeof(y));
  return y;
}

inline void store(float* place, float x) { *place = x; }
inline void store(uint16_t* place, float x) {  // to bfloat16, ties to even; NaN stays NaN
  const uint32_t u = bits<uint32_t>(x);
  const uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
  *place = static_cast<uint16_t>(x == x ? rounded : 0x7fc0u);
}
inline float load(float x) { return x; }
inline float load(uint16_t x) { return bits<float>(static_cast<uint32_t>(x) << 16); }

// e^x for x <= 0 within 2 units in the last place, exactly 0 below the normal numbers, NaN for NaN.
// x = n log 2 + r with |r| <= log(2) / 2, in two steps lest digits get lost; then a polynomial.
inline float exponential(float x) {
  const float y = x < -87.0f ? -87.0f : x;
  const float n = std::nearbyint(y * 1.44269504089f);
  const float r = (y - n * 0.693359375f) + n * 2.12194440e-4f;
  float p = 1.0f / 5040.0f;
  p = p * r + 1.0f / 720.0f;
  p = p * r + 1.0f / 120.0f;
  p = p * r + 1.0f / 24.0f;
  p = p * r + 1.0f / 6.0f;
  p = p * r + 0.5f;
  p = p * r * r + r + 1.0f;
  const float power = bits<float>((static_cast<int32_t>(n) + 127) << 23);
  return x < -87.0f ? 0.0f : p * power;
}

// 32 bits that look random, from 32 (the finaliser of MurmurHash3).
inline uint32_t mixed(uint32_t x) {
  x = (x ^ (x >> 16)) * 0x85ebca6bu;
  x = (x ^ (x >> 13)) * 0xc2b2ae35u;
  return x ^ (x >> 16);
}

}  // namespace

// What is computed; native/library.py has the same fields in the same order. Arrays are dense:
// q (batch, heads, queries, size); k, v (batch, heads, keys, size); table (1 or heads, keys, size)
// and bias (1 or heads, keys) in descending distance. Those may be missing, pieces too.
// q, k, v, table and upstream are float32, or bfloat16 if `bf16`; all else is float32.
struct Problem {
  const void *q, *k, *v, *table;
  const float* bias;
  const int64_t *query_pieces, *key_pieces;  // (batch, queries), (batch, keys)
  float *out, *log_sum;                      // (batch, heads, queries, size), (.., queries)
  const void* upstream;                      // from here on: backward only
  float *dq, *dk, *dv;
  float *dtable, *dbias;  // (batch, heads, keys, ...): for each batch row and head its own
  int64_t batch, heads, queries, keys, size, table_heads, bias_heads;
  int64_t block, run, threads, bf16;  // queries and keys of a panel at most; run >= 2 block
  uint64_t seed, dropped;  // a weight is dropped if its 32 random bits are below `dropped`
  float scale, kept;       // kept = 1 - dropped / 2^32
};

namespace {

// For each key, and each query, the first key of its piece: equal numbers, equal piece.
struct Pieces {
  std::vector<int32_t> of_query, of_key;

  explicit Pieces(const Problem& it) {
    if (!it.key_pieces) return;
    of_query.resize(it.batch * it.queries);
    of_key.resize(it.batch * it.keys);
    std::unordered_map<int64_t, int32_t> first;
    for (int64_t b = 0; b < it.batch; b++) {
      first.clear();
      for (int64_t j = 0; j < it.keys; j++)
        of_key[b * it.keys + j] =
            first.emplace(it.key_pieces[b * it.keys + j], static_cast<int32_t>(j)).first->second;
      for (int64_t i = 0; i < it.queries; i++) {
        const auto found = first.find(it.query_pieces[b * it.queries + i]);
        const int64_t none = it.keys;
        of_query[b * it.queries + i] =
            static_cast<int32_t>(found == first.end() ? none : found->second);
      }
    }
  }
};

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

  Block(const Problem& it, const Pieces& pieces, int64_t head, int64_t number)
      : it(it), b(head / it.heads), h(head % it.heads) {
    first = static_cast<int>(number * it.block);
    m = static_cast<int>(std::min(it.block, it.queries - first));
    row = head * it.queries + first;
    const int own = static_cast<int>(it.keys - it.queries) + first;
    oldest = 0;
    stop = own + m;
    if (it.key_pieces) {
      of_query = pieces.of_query.data() + b * it.queries + first;
      of_key = pieces.of_key.data() + b * it.keys;
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
#ifdef MUSICTX_BRAIN
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

// Panel by panel, oldest keys first: weights are exp(logit - highest so far), and what has been
// added up is scaled down when a higher logit comes (Milakov and Gimelshein 2018).
template <class Number>
void forward_block(const Block& block, Room<Number>& room) {
  const Problem& it = block.it;
  const int m = block.m, size = static_cast<int>(it.size), panels = block.panels();
  float* out = it.out + block.row * size;
  float *highest = room.by_row.get(), *totals = room.totals.get();
  std::fill(highest, highest + m, -INFINITY);
  std::fill(totals, totals + m, 0.0f);
  for (int number = 0; number < panels; number++) {
    const Panel<Number> panel(block, number);
    float* logits = panel.logits(room.logits.get(), room.lent);
    Number* weights;
    if constexpr (Room<Number>::wide)
      weights = logits;
    else
      weights = room.weights.get();
    for (int r = 0; r < m; r++) {
      float* s = logits + panel.at(r);
      Number* p = weights + panel.at(r);
      const int count = panel.seen(r);
      const float before = highest[r];
      float top = before, total = 0.0f;
#pragma omp simd reduction(max : top)
      for (int j = 0; j < count; j++) top = s[j] > top ? s[j] : top;
      highest[r] = top;
      const float base = top == -INFINITY ? 0.0f : top;  // nothing to see yet
#pragma omp simd reduction(+ : total)
      for (int j = 0; j < count; j++) {
        const float e = exponential(s[j] - base);
        total += e;
        store(p + j, e);
      }
      std::fill(p + count, p + panel.w, Number(0));
      if (number > 0 && top > before) {
        const float factor = exponential(before - base);
        totals[r] *= factor;
        for (int x = 0; x < size; x++) out[static_cast<size_t>(r) * size + x] *= factor;
      }
      totals[r] += total;
    }
    if (it.dropped) panel.drop(weights, room.columns.get());
    product('n', 'n', m, size, panel.w, 1.0f, weights, panel.n, panel.v, size,
            number > 0 ? 1.0f : 0.0f, out, size, room.lent);
  }
  for (int r = 0; r < m; r++) {
    const bool blind = totals[r] == 0.0f;
    // +inf for a row with nothing to see: its weights are exp(-inf) = 0 again.
    it.log_sum[block.row + r] = blind ? INFINITY : highest[r] + std::log(totals[r]);
    const float factor = blind ? 0.0f : 1.0f / (totals[r] * it.kept);
    for (int x = 0; x < size; x++) out[static_cast<size_t>(r) * size + x] *= factor;
  }
}

template <class Number>
void backward_panel(const Panel<Number>& panel, const float* inner, bool fresh,
                    Room<Number>& room) {
  const Problem& it = panel.it;
  const int m = panel.m, w = panel.w, n = panel.n, size = panel.size;
  float* s = panel.logits(room.logits.get(), room.lent);
  float* second = room.second.get();
  const Number* up = static_cast<const Number*>(it.upstream) + panel.block.row * size;
  product('n', 't', m, w, size, 1.0f / it.kept, up, size, panel.v, size, 0.0f, second, n,
          room.lent);
  if (it.dropped) panel.drop(second, room.columns.get());

  // In one sweep the weights, for the values' gradient, and the gradient of the logits.
  Number *weights, *flat;
  if constexpr (Room<Number>::wide) {
    weights = second;
    flat = room.logits.get();
  } else {
    weights = room.weights.get();
    flat = room.dlogits.get();
  }
  Number* dlogits = flat + (m - 1);
  for (int r = 0; r < m; r++) {
    const size_t begin = panel.at(r);
    const int count = panel.seen(r);
    const float log_sum = it.log_sum[panel.block.row + r], own = inner[r];
#pragma omp simd
    for (int j = 0; j < count; j++) {
      const float weight = exponential(s[begin + j] - log_sum);
      const float gradient = weight * (second[begin + j] - own);
      store(weights + begin + j, weight);
      store(dlogits + begin + j, gradient);
    }
    std::fill(weights + begin + count, weights + begin + w, Number(0));
    std::fill(dlogits + begin + count, dlogits + begin + n, Number(0));
  }
  if (it.dropped) panel.drop(weights, room.columns.get());

  float *dq = it.dq + panel.block.row * size, *dk = it.dk + panel.key * size;
  product('t', 'n', w, size, m, 1.0f / it.kept, weights, n, up, size, 1.0f,
          it.dv + panel.key * size, size, room.lent);
  product('t', 'n', w, size, m, it.scale, dlogits, n, panel.q, size, 1.0f, dk, size, room.lent);
  product('n', 'n', m, size, w, it.scale, dlogits, n, panel.k, size, fresh ? 0.0f : 1.0f, dq, size,
          room.lent);
  if (!panel.relative()) return;
  std::fill(flat, flat + (m - 1), Number(0));  // the places of P that no logit was read from
  if (it.table) {
    product('n', 'n', m, size, n, it.scale, flat, n + 1, panel.table, size, 1.0f, dq, size,
            room.lent);
    product('t', 'n', n, size, m, it.scale, flat, n + 1, panel.q, size, 1.0f,
            it.dtable + panel.distance * size, size, room.lent);
  }
  if (it.bias) {
    float* dbias = it.dbias + panel.distance;
    for (int r = 0; r < m; r++) {
      const Number* gradient = flat + panel.at(r) + r;
#pragma omp simd
      for (int c = 0; c < n; c++) dbias[c] += load(gradient[c]);
    }
  }
}

template <class Number>
void backward_block(const Block& block, Room<Number>& room) {
  const Problem& it = block.it;
  const int size = static_cast<int>(it.size);
  const float* out = it.out + block.row * size;
  const Number* up = static_cast<const Number*>(it.upstream) + block.row * size;
  // For each row the sum over keys of weight times its gradient; dropout leaves it as it is.
  float* inner = room.by_row.get();
  for (int r = 0; r < block.m; r++) {
    const size_t begin = static_cast<size_t>(r) * size;
    float total = 0.0f;
#pragma omp simd reduction(+ : total)
    for (int x = 0; x < size; x++) total += load(up[begin + x]) * out[begin + x];
    inner[r] = total;
  }
  for (int number = 0; number < block.panels(); number++)
    backward_panel(Panel<Number>(block, number), inner, number == 0, room);
}

template <class Number>
void run(const Problem& it, bool backward) {
  const Pieces pieces(it);
  const int64_t heads = it.batch * it.heads;
  const int64_t blocks = (it.queries + it.block - 1) / it.block;
  const int64_t tasks = backward ? heads : heads * blocks;
  const int threads = static_cast<int>(std::max<int64_t>(1, std::min(it.threads, tasks)));
  // Taken here: an exception may not leave the threads.
  std::vector<std::unique_ptr<Room<Number>>> rooms;
  for (int t = 0; t < threads; t++)
    rooms.push_back(std::make_unique<Room<Number>>(it, backward));
  int taken = 0;
#pragma omp parallel num_threads(threads)
  {
    int mine;
#pragma omp atomic capture
    mine = taken++;
    Room<Number>& room = *rooms[mine];
    const OneThread one;
    if (backward) {
#pragma omp for schedule(dynamic, 1)
      for (int64_t head = 0; head < heads; head++)
        for (int64_t number = 0; number < blocks; number++)
          backward_block(Block(it, pieces, head, number), room);
    } else {
#pragma omp for schedule(dynamic, 1)
      for (int64_t task = 0; task < tasks; task++)  // the long ones first
        forward_block(Block(it, pieces, task % heads, blocks - 1 - task / heads), room);
    }
  }
}

int start(const Problem* it, bool backward) {
  try {
    if (it->bf16)
      run<uint16_t>(*it, backward);
    else
      run<float>(*it, backward);
  } catch (const std::bad_alloc&) {
    return 1;
  }
  return 0;
}

}  // namespace

extern "C" {
// 1 if this file has products in bfloat16 of its own, else 0.
int musictx_bf16() {
#ifdef MUSICTX_BRAIN
  return 1;
#else
  return 0;
#endif
}
// Products; bf16: null for this file's own, if there are any.
void musictx_use(void* single, void* bf16, void* threads) {
  single_product = reinterpret_cast<SingleProduct>(single);
  torch_bf16_gemm = reinterpret_cast<Bf16Gemm>(bf16);
  set_threads = reinterpret_cast<SetThreads>(threads);
}
// 0, or 1 when there was not enough memory.
int musictx_forward(const Problem* it) { return start(it, false); }
int musictx_backward(const Problem* it) { return start(it, true); }
}
