// What repeats.py computes, for one new token.
#pragma once
#include "predicted.h"

namespace {

struct Repeats : PredictionFeature {
  using State = Predictions<2>;  // from all voices; from the next voice alone
  struct Match {
    int64_t id, steps;
  };
  const int64_t* pitches;
  const float *lengths, *intervals;  // (2, classes, width), (2, 2 span + 2, width)
  int64_t voices, span, most;
  const int64_t *shortest, *changes;  // for all voices; for the next voice alone

  Match longest_match(const History& history, int one_voice) const {
    const int64_t stride = one_voice ? voices : 1;
    const int64_t end = history.count - 1 - (one_voice ? voices - 1 : 0);
    const int64_t begin = std::max<int64_t>(end - most * voices, 0);
    const int64_t* ids = history.ids;
    const auto position = [&](int64_t n) { return history.position - (history.count - 1 - n); };
    int64_t length = 0, best_lag = voices;
    for (int64_t lag = voices; lag <= std::max(history.count, voices); lag += voices) {
      int64_t n = end;
      while (n >= begin && n >= lag && position(n) > lag && ids[n] == ids[n - lag]) n -= stride;
      const int64_t run = std::min(end - n, most * voices);
      if (run > length) length = run, best_lag = lag;
    }
    int64_t change_count = 0;
    for (int64_t n = end; n > end - length; n -= stride)
      change_count += n >= voices && ids[n] != ids[n - voices];
    if (length < shortest[one_voice] * voices || change_count < changes[one_voice]) return {0, 0};
    return {ids[history.count - best_lag], length / voices};
  }
  int64_t length_class(int64_t steps) const {
    int64_t number = 0;
    while (number < classes - 1 && steps >= int64_t{1} << number) number++;
    return number;
  }
  void read(const History& history, State& state) const {
    for (int one_voice = 0; one_voice < 2; one_voice++) {
      const auto [id, steps] = longest_match(history, one_voice);
      state.ids[one_voice] = id;
      state.confidence[one_voice] = length_class(steps);
    }
  }
  void embed(const History& history, const State& state, float* x, int64_t width) const {
    const int64_t last = history.position < voices ? -1 : history.id_before(voices - 1);
    const int64_t last_pitch = last < 0 ? -1 : pitches[last];
    for (int one_voice = 0; one_voice < 2; one_voice++) {
      add(x, lengths + (one_voice * classes + state.confidence[one_voice]) * width, width);
      const int64_t pitch = pitches[state.ids[one_voice]];
      const int64_t row = pitch < 0 || last_pitch < 0 ? 0 : pitch - last_pitch + span + 1;
      const float* vector = intervals + (one_voice * (2 * span + 2) + row) * width;
      if (state.confidence[one_voice]) add(x, vector, width);
    }
  }
};

}  // namespace
