// Causal relative attention on the CPU, forward and backward, by blocks of queries.
//
// The algorithm is that of chunked.py. For a block of m queries over w keys (the last ones seen by
// the block's last query) the product P = Q E^T, the table E in descending distance, holds the
// relative logit of query r and key j in column j + (m-1-r). Written with w+1 numbers to a row, that
// is place r*w + (m-1) + j: the same memory, begun at m-1 and read with w numbers to a row, is the
// matrix wanted. Q K^T is added in place, and the gradient of the logits, read with w+1 numbers to a
// row again, is the gradient of P. Cells right of the diagonal hold other rows' numbers (or what the
// memory held before) until the softmax overwrites them with zeros.
//
// Every output number is written by one thread, in a fixed order: forward a task is a block of
// queries of one head, backward it is a head of one batch row. Hence equal bits in every run.
//
// Nothing of Python or torch is known here. The matrix products come in as pointers (`use`), so this
// file compiles in a moment, with any torch, and links against nothing.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <unordered_map>
#include <vector>

namespace {

// Fortran's calling convention: everything by address, matrices by columns.
using SingleProduct = void (*)(const char*, const char*, const int*, const int*, const int*,
                               const float*, const float*, const int*, const float*, const int*,
                               const float*, float*, const int*);
using BrainProduct = void (*)(const char*, const char*, const int*, const int*, const int*,
                              const float*, const uint16_t*, const int*, const uint16_t*,
                              const int*, const float*, float*, const int*);
using SetThreads = int (*)(int);

SingleProduct single_product = nullptr;
BrainProduct brain_product = nullptr;  // bfloat16 in, float32 out; may be missing
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

// c (m, n) = alpha a b + beta c, rows apart by lda, ldb, ldc. 't' reads a as (k, m), b as (n, k).
// Rows are Fortran's columns, so that the product is computed as b^T a^T.
void product(char ta, char tb, int m, int n, int k, float alpha, const float* a, int lda,
             const float* b, int ldb, float beta, float* c, int ldc) {
  single_product(&tb, &ta, &n, &m, &k, &alpha, b, &ldb, a, &lda, &beta, c, &ldc);
}
void product(char ta, char tb, int m, int n, int k, float alpha, const uint16_t* a, int lda,
             const uint16_t* b, int ldb, float beta, float* c, int ldc) {
  brain_product(&tb, &ta, &n, &m, &k, &alpha, b, &ldb, a, &lda, &beta, c, &ldc);
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
// q, k, v, table and upstream are float32, or bfloat16 if `brain`; all else is float32.
struct Problem {
  const void *q, *k, *v, *table;
  const float* bias;
  const int64_t *query_pieces, *key_pieces;  // (batch, queries), (batch, keys)
  float *out, *log_sum;                      // (batch, heads, queries, size), (.., queries)
  const void* upstream;                      // from here on: backward only
  float *dq, *dk, *dv;
  float *dtable, *dbias;  // (batch, heads, keys, ...): for each batch row and head its own
  int64_t batch, heads, queries, keys, size, table_heads, bias_heads, block, threads, brain;
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

// One block of queries of one head: where it lies, and the steps that both passes share.
template <class Number>
struct Block {
  const Problem& it;
  int64_t b, h, row;  // row: of the first query among all (batch, head, query)
  int first, m;       // queries first .. first + m - 1
  int start, w;       // keys start .. start + w - 1; the query first + r sees w - m + r + 1 of them
  int size;
  const Number *q, *k, *v, *table = nullptr;
  const float* bias = nullptr;
  const int32_t *of_query = nullptr, *of_key = nullptr;

  Block(const Problem& it, const Pieces& pieces, int64_t head, int64_t number)
      : it(it), b(head / it.heads), h(head % it.heads), size(static_cast<int>(it.size)) {
    first = static_cast<int>(number * it.block);
    m = static_cast<int>(std::min<int64_t>(it.block, it.queries - first));
    row = head * it.queries + first;
    const int before = static_cast<int>(it.keys - it.queries);
    start = 0;
    if (it.key_pieces) {
      of_query = pieces.of_query.data() + b * it.queries + first;
      // The block's own keys always stay in, so that its shape is the usual one.
      start = std::min(before + first, static_cast<int>(*std::min_element(of_query, of_query + m)));
      of_key = pieces.of_key.data() + b * it.keys + start;
    }
    w = before + first + m - start;
    const int64_t key = head * it.keys + start;
    q = static_cast<const Number*>(it.q) + row * size;
    k = static_cast<const Number*>(it.k) + key * size;
    v = static_cast<const Number*>(it.v) + key * size;
    const int64_t newest = it.keys - w;  // the table's last w rows are for the distances w-1 .. 0
    if (it.table)
      table = static_cast<const Number*>(it.table) +
              ((it.table_heads == 1 ? 0 : h) * it.keys + newest) * size;
    if (it.bias) bias = it.bias + (it.bias_heads == 1 ? 0 : h) * it.keys + newest;
  }

  bool relative() const { return table || bias; }
  int seen(int r) const { return w - m + r + 1; }

  // Logits (m, w), in `buffer` of m * (w + 1) numbers; those of hidden later keys are not masked.
  float* logits(float* buffer) const {
    float* s = buffer + (m - 1);
    if (bias)
      for (int r = 0; r < m; r++) std::copy_n(bias, w, buffer + static_cast<size_t>(r) * (w + 1));
    if (table)
      product('n', 't', m, w, size, it.scale, q, size, table, size, bias ? 1.0f : 0.0f, buffer,
              w + 1);
    product('n', 't', m, w, size, it.scale, q, size, k, size, relative() ? 1.0f : 0.0f, s, w);
    if (of_key)
      for (int r = 0; r < m; r++) {
        float* x = s + static_cast<size_t>(r) * w;
        const int32_t own = of_query[r];
        const int count = seen(r);
#pragma omp simd
        for (int j = 0; j < count; j++) x[j] = of_key[j] == own ? x[j] : -INFINITY;
      }
    return s;
  }

  // Sets those numbers of x (m, w) to 0 whose weights are dropped: a hash of the seed, the row and
  // the key, so that it does not matter how the work is cut.
  template <class T>
  void drop(T* x, uint32_t* columns) const {
    const uint32_t low = mixed(static_cast<uint32_t>(it.seed));
    const uint32_t high = mixed(static_cast<uint32_t>(it.seed >> 32) + 0x9e3779b9u);
    const uint32_t head = static_cast<uint32_t>(b * it.heads + h);
#pragma omp simd
    for (int j = 0; j < w; j++) columns[j] = mixed(mixed(start + j + low) + head);
    const uint32_t dropped = static_cast<uint32_t>(it.dropped);
    for (int r = 0; r < m; r++) {
      const uint32_t own = mixed(mixed(static_cast<uint32_t>(first + r) + high) ^ head);
      T* y = x + static_cast<size_t>(r) * w;
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
  Memory<float> logits, second, totals;
  Memory<Number> weights, dlogits;
  Memory<uint32_t> columns;

  Room(const Problem& it, bool backward) {
    const size_t block = std::min(it.block, it.queries), cells = block * (it.keys + 1);
    logits = memory<float>(cells);
    if (backward) second = memory<float>(cells);
    if (!wide) weights = memory<Number>(cells);
    if (!wide && backward) dlogits = memory<Number>(cells);
    if (it.dropped) columns = memory<uint32_t>(it.keys);
    if (!backward) totals = memory<float>(block);
  }
};

template <class Number>
void forward_block(const Block<Number>& block, Room<Number>& room) {
  const Problem& it = block.it;
  const int m = block.m, w = block.w, size = block.size;
  float* logits = block.logits(room.logits.get());
  Number* weights;
  if constexpr (Room<Number>::wide)
    weights = logits;
  else
    weights = room.weights.get();
  float* totals = room.totals.get();
  for (int r = 0; r < m; r++) {
    float* s = logits + static_cast<size_t>(r) * w;
    Number* p = weights + static_cast<size_t>(r) * w;
    const int count = block.seen(r);
    float highest = -INFINITY, total = 0.0f;
#pragma omp simd reduction(max : highest)
    for (int j = 0; j < count; j++) highest = s[j] > highest ? s[j] : highest;
    if (highest == -INFINITY) highest = 0.0f;  // nothing to see
#pragma omp simd reduction(+ : total)
    for (int j = 0; j < count; j++) {
      const float e = exponential(s[j] - highest);
      total += e;
      store(p + j, e);
    }
    std::fill(p + count, p + w, Number(0));
    totals[r] = total;
    // +inf for a row with nothing to see: its weights are exp(-inf) = 0 again.
    it.log_sum[block.row + r] = total == 0.0f ? INFINITY : highest + std::log(total);
  }
  if (it.dropped) block.drop(weights, room.columns.get());
  float* out = it.out + block.row * size;
  product('n', 'n', m, size, w, 1.0f, weights, w, block.v, size, 0.0f, out, size);
  for (int r = 0; r < m; r++) {
    const float factor = totals[r] == 0.0f ? 0.0f : 1.0f / (totals[r] * it.kept);
    for (int x = 0; x < size; x++) out[static_cast<size_t>(r) * size + x] *= factor;
  }
}

template <class Number>
void backward_block(const Block<Number>& block, Room<Number>& room) {
  const Problem& it = block.it;
  const int m = block.m, w = block.w, size = block.size;
  float* s = block.logits(room.logits.get());
  float* second = room.second.get();
  const Number* up = static_cast<const Number*>(it.upstream) + block.row * size;
  product('n', 't', m, w, size, 1.0f / it.kept, up, size, block.v, size, 0.0f, second, w);
  if (it.dropped) block.drop(second, room.columns.get());

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
  const float* out = it.out + block.row * size;
  for (int r = 0; r < m; r++) {
    const size_t begin = static_cast<size_t>(r) * w;
    const int count = block.seen(r);
    const float log_sum = it.log_sum[block.row + r];
    float inner = 0.0f;  // sum over keys of weight times its gradient; dropout leaves it as it is
#pragma omp simd reduction(+ : inner)
    for (int x = 0; x < size; x++)
      inner += load(up[static_cast<size_t>(r) * size + x]) * out[static_cast<size_t>(r) * size + x];
#pragma omp simd
    for (int j = 0; j < count; j++) {
      const float weight = exponential(s[begin + j] - log_sum);
      const float gradient = weight * (second[begin + j] - inner);
      store(weights + begin + j, weight);
      store(dlogits + begin + j, gradient);
    }
    std::fill(weights + begin + count, weights + begin + w, Number(0));
    std::fill(dlogits + begin + count, dlogits + begin + w, Number(0));
  }
  if (it.dropped) block.drop(weights, room.columns.get());

  const int64_t key = (block.b * it.heads + block.h) * it.keys + block.start;
  float* dq = it.dq + block.row * size;
  product('t', 'n', w, size, m, 1.0f / it.kept, weights, w, up, size, 1.0f, it.dv + key * size,
          size);
  product('t', 'n', w, size, m, it.scale, dlogits, w, block.q, size, 1.0f, it.dk + key * size,
          size);
  product('n', 'n', m, size, w, it.scale, dlogits, w, block.k, size, 0.0f, dq, size);
  if (!block.relative()) return;
  std::fill(flat, flat + (m - 1), Number(0));  // the places of P that no logit was read from
  const int64_t newest = (block.b * it.heads + block.h) * it.keys + it.keys - w;
  if (it.table) {
    product('n', 'n', m, size, w, it.scale, flat, w + 1, block.table, size, 1.0f, dq, size);
    product('t', 'n', w, size, m, it.scale, flat, w + 1, block.q, size, 1.0f,
            it.dtable + newest * size, size);
  }
  if (it.bias) {
    float* dbias = it.dbias + newest;
    for (int r = 0; r < m; r++) {
      const Number* gradient = flat + static_cast<size_t>(r) * (w + 1);
#pragma omp simd
      for (int c = 0; c < w; c++) dbias[c] += load(gradient[c]);
    }
  }
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
          backward_block(Block<Number>(it, pieces, head, number), room);
    } else {
#pragma omp for schedule(dynamic, 1)
      for (int64_t task = 0; task < tasks; task++)  // the long ones first
        forward_block(Block<Number>(it, pieces, task % heads, blocks - 1 - task / heads), room);
    }
  }
}

int start(const Problem* it, bool backward) {
  try {
    if (it->brain)
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
void musictx_use(void* single, void* brain, void* threads) {
  single_product = reinterpret_cast<SingleProduct>(single);
  brain_product = reinterpret_cast<BrainProduct>(brain);
  set_threads = reinterpret_cast<SetThreads>(threads);
}
// 0, or 1 when there was not enough memory.
int musictx_forward(const Problem* it) { return start(it, false); }
int musictx_backward(const Problem* it) { return start(it, true); }
}
