// What intervals.py computes, for one new token.
#pragma once
#include "feature.h"

namespace {

struct Intervals : Feature {
  const int64_t *pitches, *input_lags, *output_lags;
  const float* inputs;  // (input lags, rows, width); `scores` has output lags x rows
  int64_t input_count, output_count, span;

  int64_t rows() const { return 2 * span + 2; }  // of a table
  // The pitch `back` tokens before the new one, -1 if there is none.
  int64_t pitch(const History& history, int64_t back) const {
    const int64_t id = back <= history.position ? history.id_before(back) : -1;
    return id < 0 ? -1 : pitches[id];
  }
  // The row of the interval between two pitches; -1: no pitch.
  int64_t row(int64_t later, int64_t earlier) const {
    return later < 0 || earlier < 0 ? 0 : later - earlier + span + 1;
  }
  void embed(const History& history, const None&, float* x, int64_t width) const {
    const int64_t last = pitch(history, 0);
    for (int64_t n = 0; n < input_count; n++) {
      const int64_t interval = row(last, pitch(history, input_lags[n]));
      add(x, inputs + (n * rows() + interval) * width, width);
    }
  }
  void score(const History& history, const None&, const float* products, float* logits,
             int64_t vocabulary) const {
    for (int64_t n = 0; n < output_count; n++) {
      const int64_t earlier = pitch(history, output_lags[n] - 1);
      for (int64_t id = 0; id < vocabulary; id++) {
        const int64_t interval = row(pitches[id], earlier);
        if (interval > 0) logits[id] += products[n * rows() + interval];
      }
    }
  }
};

}  // namespace
