// What calibration.py computes, for one new token.
#pragma once
#include "feature.h"

namespace {

struct Calibration : Feature {
  static constexpr int64_t EOS = 2;  // as in tokens/vocab.py
  const float *scale, *hold, *end;   // the first two have `kinds` entries
  int64_t voices, kinds;

  void score(const History& history, const None&, const float*, float* logits, int64_t vocabulary) const {
    const int64_t kind = history.position % kinds;
    for (int64_t id = 0; id < vocabulary; id++) logits[id] *= scale[kind];
    const int64_t last = history.position < voices ? -1 : history.id_before(voices - 1);
    if (last >= 0) logits[last] += hold[kind];
    logits[EOS] += *end;
  }
};

}  // namespace
