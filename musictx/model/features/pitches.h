// Sums over pitches that features share, as in pitches.py.
#pragma once
#include "feature.h"

namespace {

// Adds to `to` (pitches) what the intervals to pitches in a `state` say. The chords, weighted by
// `wanted`, become one number for each interval; then those of each pitch are added up.
inline void by_interval(const float* maps, const float* wanted, int64_t kinds, int64_t chords,
                        const std::vector<int64_t>& state, const int64_t* kind_of, float* to) {
  const int64_t pitches = static_cast<int64_t>(state.size()), apart = 2 * pitches - 1;
  std::vector<float> sums(kinds * apart, 0.0f);
  for (int64_t kind = 0; kind < kinds; kind++)
    for (int64_t c = 0; c < chords; c++) {
      const float* map = maps + (kind * chords + c) * apart;
      for (int64_t d = 0; d < apart; d++) sums[kind * apart + d] += wanted[c] * map[d];
    }
  for (int64_t from = 0; from < pitches; from++)
    if (state[from] > 0 && kind_of[state[from]] >= 0)
      add(to, sums.data() + kind_of[state[from]] * apart + pitches - 1 - from, pitches);
}

}  // namespace
