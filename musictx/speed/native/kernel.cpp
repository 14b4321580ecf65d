// Causal relative attention on the CPU, forward and backward, by blocks of queries.
//
// The algorithm is that of speed/chunked, but the keys are divided, too: the logits of a block of queries and
// consecutive keys (a panel) fit into the CPU's cache, however long the sequence is.
//
// For m queries and w keys let d be the largest distance between them and P = Q E^T, where row c of E belongs
// to distance d - c. The relative logit of query r and key j is in column j + (m-1-r) of P. P has n columns:
// w + m - 1, or w if the keys end at the last query (more columns would belong to the future). P is stored
// with row stride n+1. Then that logit has index r*n + (m-1) + j: the same memory, read from index m-1 on
// with row stride n, is the matrix of relative logits. Q K^T is added in place. In the backward pass the
// gradient of the logits, read with row stride n+1 again, is the gradient of P. Cells right of the diagonal
// contain numbers of other rows, or uninitialised memory, until they are overwritten with zeros.
//
// Every number of the output is written by one thread in a fixed order, so all runs give the same bits. A
// thread's task is a block of queries of one head; in the backward pass, a head of one batch row.
//
// The kernel does not depend on Python or torch. It gets matrix products as function pointers (musictx_use)
// or uses its own, so it compiles in a few seconds, with any torch, and links against nothing.

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <new>

#include "panel.h"
#include "threads.h"

namespace {

// Online softmax (Milakov and Gimelshein 2018), panel by panel, oldest keys first: weights are
// exp(logit - highest so far), and earlier sums are scaled down when a panel has a higher logit.
template <class Number>
void forward_block(const Block& block, Workspace<Number>& workspace) {
  const Problem& problem = block.problem;
  const int m = block.m, size = static_cast<int>(problem.size), panels = block.panels();
  float* out = problem.out + block.row * size;
  float *highest = workspace.by_query.get(), *totals = workspace.totals.get();
  std::fill(highest, highest + m, -INFINITY);
  std::fill(totals, totals + m, 0.0f);
  for (int number = 0; number < panels; number++) {
    const Panel<Number> panel(block, number);
    float* logits = panel.logits(workspace.logits.get(), workspace.pack_buffers);
    Number* weights;
    if constexpr (Workspace<Number>::in_place)
      weights = logits;
    else
      weights = workspace.weights.get();
    for (int r = 0; r < m; r++) {
      float* s = logits + panel.row_offset(r);
      Number* p = weights + panel.row_offset(r);
      const int count = panel.visible(r);
      const float previous = highest[r];
      const float top = highest_of(s, count, previous);
      float total = 0.0f;
      highest[r] = top;
      const float base = top == -INFINITY ? 0.0f : top;  // all keys so far are masked
#pragma omp simd reduction(+ : total)
      for (int j = 0; j < count; j++) {
        const float e = exponential(s[j] - base);
        total += e;
        store(p + j, e);
      }
      std::fill(p + count, p + panel.w, Number(0));
      if (number > 0 && top > previous) {
        const float factor = exponential(previous - base);
        totals[r] *= factor;
        for (int x = 0; x < size; x++) out[static_cast<size_t>(r) * size + x] *= factor;
      }
      totals[r] += total;
    }
    if (problem.drop_threshold) panel.drop(weights, workspace.column_hashes.get());
    gemm('n', 'n', m, size, panel.w, 1.0f, weights, panel.n, panel.v, size, number > 0 ? 1.0f : 0.0f, out,
         size, workspace.pack_buffers);
  }
  for (int r = 0; r < m; r++) {
    const bool masked = totals[r] == 0.0f;
    // +inf if all keys are masked: then the backward pass computes their weights as exp(-inf) = 0.
    problem.log_sum[block.row + r] = masked ? INFINITY : highest[r] + std::log(totals[r]);
    const float factor = masked ? 0.0f : 1.0f / (totals[r] * problem.kept_share);
    for (int x = 0; x < size; x++) out[static_cast<size_t>(r) * size + x] *= factor;
  }
}

// Adds what a panel contributes to all gradients; the block's `first` panel overwrites dq. `inner` (m,) is the
// sum over keys of weight times its gradient, for each query.
template <class Number>
void backward_panel(const Panel<Number>& panel, const float* inner, bool first, Workspace<Number>& workspace) {
  const Problem& problem = panel.problem;
  const int m = panel.m, w = panel.w, n = panel.n, size = panel.size;
  float* s = panel.logits(workspace.logits.get(), workspace.pack_buffers);
  float* dweights = workspace.dweights.get();
  const Number* up = static_cast<const Number*>(problem.upstream) + panel.block.row * size;
  gemm('n', 't', m, w, size, 1.0f / problem.kept_share, up, size, panel.v, size, 0.0f, dweights, n,
       workspace.pack_buffers);
  if (problem.drop_threshold) panel.drop(dweights, workspace.column_hashes.get());

  // One loop computes the weights, for dv, and the gradient of the logits.
  Number *weights, *by_distance;  // by_distance: the gradient of P, in the same memory as dlogits
  if constexpr (Workspace<Number>::in_place) {
    weights = dweights;
    by_distance = workspace.logits.get();
  } else {
    weights = workspace.weights.get();
    by_distance = workspace.dlogits.get();
  }
  Number* dlogits = by_distance + (m - 1);
  for (int r = 0; r < m; r++) {
    const size_t begin = panel.row_offset(r);
    const int count = panel.visible(r);
    const float log_sum = problem.log_sum[panel.block.row + r], row_inner = inner[r];
#pragma omp simd
    for (int j = 0; j < count; j++) {
      const float weight = exponential(s[begin + j] - log_sum);
      const float gradient = weight * (dweights[begin + j] - row_inner);
      store(weights + begin + j, weight);
      store(dlogits + begin + j, gradient);
    }
    std::fill(weights + begin + count, weights + begin + w, Number(0));
    std::fill(dlogits + begin + count, dlogits + begin + n, Number(0));
  }
  if (problem.drop_threshold) panel.drop(weights, workspace.column_hashes.get());

  float *dq = problem.dq + panel.block.row * size, *dk = problem.dk + panel.key_row * size;
  gemm('t', 'n', w, size, m, 1.0f / problem.kept_share, weights, n, up, size, 1.0f,
       problem.dv + panel.key_row * size, size, workspace.pack_buffers);
  gemm('t', 'n', w, size, m, problem.scale, dlogits, n, panel.q, size, 1.0f, dk, size, workspace.pack_buffers);
  gemm('n', 'n', m, size, w, problem.scale, dlogits, n, panel.k, size, first ? 0.0f : 1.0f, dq, size,
       workspace.pack_buffers);
  if (!panel.has_relative_logits()) return;
  std::fill(by_distance, by_distance + (m - 1), Number(0));  // the entries of P before the first logit
  if (problem.table) {
    gemm('n', 'n', m, size, n, problem.scale, by_distance, n + 1, panel.table, size, 1.0f, dq, size,
         workspace.pack_buffers);
    if (problem.dtable)
      gemm('t', 'n', n, size, m, problem.scale, by_distance, n + 1, panel.q, size, 1.0f,
           problem.dtable + panel.distance_row * size, size, workspace.pack_buffers);
  }
  if (problem.dbias) {
    float* dbias = problem.dbias + panel.distance_row;
    for (int r = 0; r < m; r++) {
      const Number* gradient = by_distance + panel.row_offset(r) + r;
#pragma omp simd
      for (int c = 0; c < n; c++) dbias[c] += load(gradient[c]);
    }
  }
}

template <class Number>
void backward_block(const Block& block, Workspace<Number>& workspace) {
  const Problem& problem = block.problem;
  const int size = static_cast<int>(problem.size);
  const float* out = problem.out + block.row * size;
  const Number* up = static_cast<const Number*>(problem.upstream) + block.row * size;
  // The sum over keys of weight times its gradient is <up, out>, with and without dropout.
  float* inner = workspace.by_query.get();
  for (int r = 0; r < block.m; r++) {
    const size_t begin = static_cast<size_t>(r) * size;
    float total = 0.0f;
#pragma omp simd reduction(+ : total)
    for (int x = 0; x < size; x++) total += load(up[begin + x]) * out[begin + x];
    inner[r] = total;
  }
  for (int number = 0; number < block.panels(); number++)
    backward_panel(Panel<Number>(block, number), inner, number == 0, workspace);
}

template <class Number>
void run(const Problem& problem, bool backward) {
  const int64_t heads = problem.batch * problem.heads;
  const int64_t blocks = (problem.queries + problem.block - 1) / problem.block;
  const int64_t tasks = backward ? heads : heads * blocks;
  const int threads = static_cast<int>(std::max<int64_t>(1, std::min(problem.threads, tasks)));
  // Allocated here, since an exception may not leave a thread.
  std::vector<std::unique_ptr<Workspace<Number>>> workspaces;
  for (int t = 0; t < threads; t++)
    workspaces.push_back(std::make_unique<Workspace<Number>>(problem, backward));
  std::atomic<int64_t> next = 0;
  parallel(threads, [&](int thread) {
    Workspace<Number>& workspace = *workspaces[thread];
    const SingleThreadedGemm guard;
    for (int64_t task; (task = next++) < tasks;) {
      if (!backward)  // the last blocks first, since they have the most keys
        forward_block(Block(problem, task % heads, blocks - 1 - task / heads), workspace);
      else
        for (int64_t number = 0; number < blocks; number++)
          backward_block(Block(problem, task, number), workspace);
    }
  });
}

}  // namespace

// 1 if this library was compiled with bf16_gemm.h, else 0.
MUSICTX_EXPORT int musictx_bf16() {
#ifdef MUSICTX_BF16
  return 1;
#else
  return 0;
#endif
}
// Sets torch's functions; null: this library's own products (without bf16_gemm.h, none in bfloat16).
MUSICTX_EXPORT void musictx_use(void* sgemm, void* bf16, void* threads) {
  torch_sgemm = reinterpret_cast<Sgemm>(sgemm);
  torch_bf16_gemm = reinterpret_cast<Bf16Gemm>(bf16);
  set_threads = reinterpret_cast<SetThreads>(threads);
}
// Runs the forward or the backward pass. Returns 0, or 1 if there is not enough memory.
MUSICTX_EXPORT int musictx_attention(const Problem* problem, bool backward) {
  try {
    if (problem->bf16)
      run<uint16_t>(*problem, backward);
    else
      run<float>(*problem, backward);
  } catch (const std::bad_alloc&) {
    return 1;
  }
  return 0;
}
