// Causal relative attention on the CPU, forward and backward, by blocks of queries.
//
// The algorithm is that of speed/chunked, with the keys cut too, so that what is computed from a block
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
// bfloat16, from bf16_gemm.h, so this compiles in a moment, with any torch, and links against nothing.
//
// numbers.h has the products, the exponential and the random bits; panel.h what is computed, and the
// steps over one block of queries and one run of keys that both passes share; here are the passes.

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <new>

#include "panel.h"
#include "threads.h"

namespace {

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
      const float top = highest_of(s, count, before);
      float total = 0.0f;
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
    if (it.dtable)
      product('t', 'n', n, size, m, it.scale, flat, n + 1, panel.q, size, 1.0f,
              it.dtable + panel.distance * size, size, room.lent);
  }
  if (it.dbias) {
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
  const int64_t heads = it.batch * it.heads;
  const int64_t blocks = (it.queries + it.block - 1) / it.block;
  const int64_t tasks = backward ? heads : heads * blocks;
  const int threads = static_cast<int>(std::max<int64_t>(1, std::min(it.threads, tasks)));
  // Taken here: an exception may not leave the threads.
  std::vector<std::unique_ptr<Room<Number>>> rooms;
  for (int t = 0; t < threads; t++)
    rooms.push_back(std::make_unique<Room<Number>>(it, backward));
  std::atomic<int64_t> next = 0;
  parallel(threads, [&](int mine) {
    Room<Number>& room = *rooms[mine];
    const OneThread one;
    for (int64_t task; (task = next++) < tasks;) {
      if (!backward)  // the long ones first
        forward_block(Block(it, task % heads, blocks - 1 - task / heads), room);
      else
        for (int64_t number = 0; number < blocks; number++)
          backward_block(Block(it, task, number), room);
    }
  });
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

// 1 if this file has products in bfloat16 of its own, else 0.
MUSICTX_EXPORT int musictx_bf16() {
#ifdef MUSICTX_BF16
  return 1;
#else
  return 0;
#endif
}
// Products; null: this file's own, in bfloat16 if there are any.
MUSICTX_EXPORT void musictx_use(void* single, void* bf16, void* threads) {
  single_product = reinterpret_cast<SingleProduct>(single);
  torch_bf16_gemm = reinterpret_cast<Bf16Gemm>(bf16);
  set_threads = reinterpret_cast<SetThreads>(threads);
}
// 0, or 1 when there was not enough memory.
MUSICTX_EXPORT int musictx_forward(const Problem* it) { return start(it, false); }
MUSICTX_EXPORT int musictx_backward(const Problem* it) { return start(it, true); }
