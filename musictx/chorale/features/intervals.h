// What intervals.py computes, for one new token.
#pragma once
#include "feature.h"

namespace {

struct Intervals : Feature {
  const int64_t *pitches, *input_lags, *output_lags;
  const float* inputs;  // (input lags, rows, width); `scores` has output lags x rows
  int64_t input_count, output_count, span;

  int64_t rows() const { return 2 * span + 2; }
  int64_t pitch(const History& past, int64_t back) const {
    const int64_t id = back <= past.place ? past.back(back) : -1;
    return id < 0 ? -1 : pitches[id];
  }
  int64_t row(int64_t later, int64_t earlier) const {
    return later < 0 || earlier < 0 ? 0 : later - earlier + span + 1;
  }
  void embed(const History& past, const None&, float* x, int64_t width) const {
    const int64_t here = pitch(past, 0);
    for (int64_t n = 0; n < input_count; n++) {
      const int64_t which = row(here, pitch(past, input_lags[n]));
      add(x, inputs + (n * rows() + which) * width, width);
    }
  }
  void score(const History& past, const None&, const float* scored, float* logits,
             int64_t vocabulary) const {
    for (int64_t n = 0; n < output_count; n++) {
      const int64_t then = pitch(past, output_lags[n] - 1);
      for (int64_t id = 0; id < vocabulary; id++) {
        const int64_t which = row(pitches[id], then);
        if (which > 0) logits[id] += scored[n * rows() + which];
      }
    }
  }
};

}  // namespace
