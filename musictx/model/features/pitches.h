// The base of features with a state for each pitch (pitches.py).
#pragma once
#include "feature.h"

namespace {

struct PitchFeature : Feature {
  const int64_t *steps, *starts, *ends, *candidates;  // by id
  const int64_t *time_class, *kind_of;                // by time; by 1 + the state of a pitch
  const float* maps;                                  // (kinds, chords, 2 pitches - 1); may be missing
  int64_t pitches, kinds, chords, longest;

  // Adds to `to` (pitches) what the intervals to pitches in a `state` say. The chords, weighted by
  // `wanted`, become one number for each interval; then those of each pitch are added up.
  void by_interval(const float* wanted, const std::vector<int64_t>& state, float* to) const {
    if (!maps) return;
    const int64_t apart = 2 * pitches - 1;
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
};

}  // namespace
