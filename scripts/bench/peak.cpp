// What one core multiplies and adds at most, in registers only: billions of products a second (AVX-512).
//
//     g++ -O2 -march=native -o peak scripts/bench/peak.cpp && ./peak
#include <immintrin.h>
#include <time.h>

#include <cstdio>

static double seconds() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return t.tv_sec + 1e-9 * t.tv_nsec;
}

// 16 sums at once, more than an instruction's latency needs; `each` products in one.
template <class Sum, class Step>
static void measure(const char* name, int each, Sum zero, Step step) {
  constexpr long COUNT = 2000000;
  Sum sums[16];
  for (Sum& sum : sums) sum = zero;
  const double begin = seconds();
  for (long i = 0; i < COUNT; i++) {
#pragma GCC unroll 16
    for (int n = 0; n < 16; n++) {
      sums[n] = step(sums[n]);
      asm("" : "+v"(sums[n]));
    }
  }
  std::printf("%s %.0f\n", name, COUNT * 16 * each / (seconds() - begin) / 1e9);
}

int main() {
  __m512 x = _mm512_set1_ps(1e-3f);
  __m512i pairs = _mm512_set1_epi32(0x3c003c00);
  asm("" : "+v"(x), "+v"(pairs));
  measure("float32 ", 16, x, [&](__m512 sum) { return _mm512_fmadd_ps(x, x, sum); });
#ifdef __AVX512BF16__
  measure("bfloat16", 32, x, [&](__m512 sum) {
    return _mm512_dpbf16_ps(sum, (__m512bh)pairs, (__m512bh)pairs);
  });
#endif
}
