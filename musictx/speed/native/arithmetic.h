// bfloat16 and back, and the exponential, for loops that the compiler turns into vectors.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>

namespace {

template <class To, class From>
inline To bits(From x) {
  static_assert(sizeof(To) == sizeof(From));
  To y;
  std::memcpy(&y, &x, sizeof(y));
  return y;
}

inline void store(float* to, float x) { *to = x; }
inline void store(uint16_t* to, float x) {  // rounds to bfloat16, ties to even; NaN stays NaN
  const uint32_t u = bits<uint32_t>(x);
  const uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
  *to = static_cast<uint16_t>(x == x ? rounded : 0x7fc0u);
}
inline float load(float x) { return x; }
inline float load(uint16_t x) { return bits<float>(static_cast<uint32_t>(x) << 16); }

// e^x for x <= 0 within 2 units in the last place, exactly 0 below the normal numbers, NaN for NaN.
// x = n log 2 + r with |r| <= log(2) / 2, with log 2 in two parts to keep r exact; then a polynomial.
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

}  // namespace
