// What repeats.py computes, for one new token.
#pragma once
#include "predicted.h"

namespace {

struct Repeats : Predicted {
  using Seen = Predictions<2>;  // from all voices; from the next voice alone
  struct Match {
    int64_t id, steps;
  };
  const int64_t* pitches;
  const float *lengths, *intervals;  // (2, classes, width), (2, 2 span + 2, width)
  int64_t voices, span, most;
  int64_t shortest[2], changes[2];  // for all voices; for the next voice alone

  Match longest(const History& past, int one_voice) const {
    const int64_t stride = one_voice ? voices : 1;
    const int64_t end = past.count - 1 - (one_voice ? voices - 1 : 0);
    const int64_t begin = std::max<int64_t>(end - most * voices, 0);
    const int64_t* ids = past.ids;
    const auto place = [&](int64_t n) { return past.place - (past.count - 1 - n); };
    int64_t best = 0, lag_of = voices;
    for (int64_t lag = voices; lag <= std::max(past.count, voices); lag += voices) {
      int64_t n = end;
      while (n >= begin && n >= lag && place(n) > lag && ids[n] == ids[n - lag]) n -= stride;
      const int64_t run = std::min(end - n, most * voices);
      if (run > best) best = run, lag_of = lag;
    }
    int64_t moved = 0;
    for (int64_t n = end; n > end - best; n -= stride)
      moved += n >= voices && ids[n] != ids[n - voices];
    if (best < shortest[one_voice] * voices || moved < changes[one_voice]) return {0, 0};
    return {ids[past.count - lag_of], best / voices};
  }
  int64_t length_class(int64_t steps) const {
    int64_t number = 0;
    while (number < classes - 1 && steps >= int64_t{1} << number) number++;
    return number;
  }
  void read(const History& past, Seen& seen) const {
    for (int one_voice = 0; one_voice < 2; one_voice++) {
      const auto [id, steps] = longest(past, one_voice);
      seen.ids[one_voice] = id;
      seen.trust[one_voice] = length_class(steps);
    }
  }
  void embed(const History& past, const Seen& seen, float* x, int64_t width) const {
    const int64_t last = past.place < voices ? -1 : past.back(voices - 1);
    const int64_t old = last < 0 ? -1 : pitches[last];
    for (int one_voice = 0; one_voice < 2; one_voice++) {
      add(x, lengths + (one_voice * classes + seen.trust[one_voice]) * width, width);
      const int64_t then = pitches[seen.ids[one_voice]];
      const int64_t row = then < 0 || old < 0 ? 0 : then - old + span + 1;
      const float* vector = intervals + (one_voice * (2 * span + 2) + row) * width;
      if (seen.trust[one_voice]) add(x, vector, width);
    }
  }
};

}  // namespace
