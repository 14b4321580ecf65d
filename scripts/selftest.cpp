// What a prebuilt attention library computes, beside plain loops; run by scripts/wheels.py.
//
// selftest KERNEL STEP: exit status 0 if KERNEL's attention and its gradients are right with one thread and
// with three, and STEP loads and knows features. Neither torch nor Python is needed.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "../musictx/speed/native/panel.h"
#ifdef _WIN32
#include <windows.h>
static void* opened(const char* path) { return reinterpret_cast<void*>(LoadLibraryA(path)); }
static void* found(void* library, const char* name) {
  return reinterpret_cast<void*>(GetProcAddress(static_cast<HMODULE>(library), name));
}
#else
#include <dlfcn.h>
static void* opened(const char* path) { return dlopen(path, RTLD_NOW | RTLD_LOCAL); }
static void* found(void* library, const char* name) { return dlsym(library, name); }
#endif

using Numbers = std::vector<float>;
constexpr int HEADS = 2, TOKENS = 70, WIDE = 24;

static Numbers random_numbers(size_t count) {
  static uint32_t state = 1;
  Numbers made(count);
  for (float& x : made) x = ((state = state * 1664525u + 1013904223u) >> 8) / 8388608.0f - 1.0f;
  return made;
}

// The sum of upstream times the output, in float64, and if `out` is given the output.
static double plain(const Numbers& q, const Numbers& k, const Numbers& v, const Numbers& table,
                    const Numbers& up, Numbers* out) {
  double sum = 0.0;
  for (int h = 0; h < HEADS; h++)
    for (int i = 0; i < TOKENS; i++) {
      const auto at = [&](int t) { return (h * TOKENS + t) * WIDE; };
      std::vector<double> weights(i + 1), mean(WIDE, 0.0);
      double total = 0.0;
      for (int j = 0; j <= i; j++) {
        double logit = 0.0;
        for (int d = 0; d < WIDE; d++)
          logit += double(q[at(i) + d]) * (k[at(j) + d] + table[at(TOKENS - 1 - i + j) + d]);
        total += weights[j] = std::exp(0.2 * logit);
      }
      for (int j = 0; j <= i; j++)
        for (int d = 0; d < WIDE; d++) mean[d] += weights[j] / total * v[at(j) + d];
      for (int d = 0; d < WIDE; d++) {
        sum += mean[d] * up[at(i) + d];
        if (out) (*out)[at(i) + d] = static_cast<float>(mean[d]);
      }
    }
  return sum;
}

static bool close(const char* what, double got, double right, double allowed) {
  if (std::fabs(got - right) <= allowed) return true;
  std::printf("%s: %.7g, expected %.7g\n", what, got, right);
  return false;
}

int main(int count, char** words) {
  void* kernel = count == 3 ? opened(words[1]) : nullptr;
  void* step = count == 3 ? opened(words[2]) : nullptr;
  if (!kernel || !step) return std::printf("a library does not load\n"), 1;
  using Pass = int (*)(const Problem*);
  const auto use = reinterpret_cast<void (*)(void*, void*, void*)>(found(kernel, "musictx_use"));
  const auto forward = reinterpret_cast<Pass>(found(kernel, "musictx_forward"));
  const auto backward = reinterpret_cast<Pass>(found(kernel, "musictx_backward"));
  const auto names = reinterpret_cast<const char* (*)()>(found(step, "musictx_features"));
  if (!use || !forward || !backward || !names || !found(step, "musictx_step"))
    return std::printf("a function is missing\n"), 1;
  use(nullptr, nullptr, nullptr);

  const size_t all = HEADS * TOKENS * WIDE;
  Numbers inputs[4], up = random_numbers(all), right(all);
  for (Numbers& x : inputs) x = random_numbers(all);
  auto& [q, k, v, table] = inputs;
  plain(q, k, v, table, up, &right);
  for (const int threads : {1, 3}) {
    Numbers out(all), log_sum(HEADS * TOKENS), gradients[4];
    for (Numbers& x : gradients) x.assign(all, 0.0f);
    Problem it{};
    it.q = q.data(), it.k = k.data(), it.v = v.data(), it.table = table.data();
    it.out = out.data(), it.log_sum = log_sum.data(), it.upstream = up.data();
    it.dq = gradients[0].data(), it.dk = gradients[1].data(), it.dv = gradients[2].data();
    it.dtable = gradients[3].data();
    it.batch = 1, it.heads = HEADS, it.queries = it.keys = TOKENS, it.size = WIDE;
    it.table_heads = HEADS, it.block = 16, it.run = 32, it.threads = threads;
    it.scale = 0.2f, it.kept = 1.0f;
    if (forward(&it) || backward(&it)) return std::printf("not enough memory\n"), 1;
    for (size_t n = 0; n < all; n++)
      if (!close("output", out[n], right[n], 1e-5)) return 1;
    for (int which = 0; which < 4; which++)
      for (size_t n = 5; n < all; n += 97) {  // by differences of plain loops
        const float before = inputs[which][n];
        double side[2];
        for (int s = 0; s < 2; s++) {
          inputs[which][n] = before + (s ? 0.01f : -0.01f);
          side[s] = plain(q, k, v, table, up, nullptr);
        }
        inputs[which][n] = before;
        if (!close("gradient", gradients[which][n], (side[1] - side[0]) / 0.02, 2e-4)) return 1;
      }
  }
  std::printf("right; features %s\n", names());
  return 0;
}
