// The base of features with a state for each pitch (pitches.py).
#pragma once
#include "feature.h"

namespace {

struct PitchFeature : Feature {
  const int64_t *steps, *starts, *ends, *candidates;  // by id
  const int64_t *time_class, *kind_of;                // by time; by 1 + the state of a pitch
  const float* maps;                                  // (kinds, chords, 2 pitches - 1); may be missing
  int64_t pitches, kinds, chords, longest;

  // Adds to `scores` (pitches) the score of each pitch for its intervals to the pitches with a state in
  // `states`. The sum of the profiles, weighted by `weights` (chords), has a number for each kind and interval.
  void add_interval_scores(const float* weights, const std::vector<int64_t>& states, float* scores) const {
    if (!maps) return;
    const int64_t intervals = 2 * pitches - 1;
    std::vector<float> sums(kinds * intervals, 0.0f);
    for (int64_t kind = 0; kind < kinds; kind++)
      for (int64_t c = 0; c < chords; c++) {
        const float* map = maps + (kind * chords + c) * intervals;
        for (int64_t d = 0; d < intervals; d++) sums[kind * intervals + d] += weights[c] * map[d];
      }
    for (int64_t from = 0; from < pitches; from++)
      if (states[from] > 0 && kind_of[states[from]] >= 0)
        add(scores, sums.data() + kind_of[states[from]] * intervals + pitches - 1 - from, pitches);
  }
};

}  // namespace
