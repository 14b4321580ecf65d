// For one new token what repeats.py computes, and what it is compared with.
#pragma once
#include "predicted.h"

namespace {

struct Repeats : Predicted {
  using Seen = Predictions<2>;  // of all voices; of the next voice alone
  struct Match {
    int64_t id, steps;
  };
  const int64_t* pitches;
  const float *lengths, *intervals;  // (2, classes, width), (2, 2 span + 2, width)
  int64_t voices, span, most;
  int64_t shortest[2], changes[2];  // for all voices; for the next voice alone

  Match longest(const Known& known, int own) const {
    const int64_t stride = own ? voices : 1, end = known.count - 1 - (own ? voices - 1 : 0);
    const int64_t begin = std::max<int64_t>(end - most * voices, 0);
    const int64_t* ids = known.ids;
    const auto place = [&](int64_t n) { return known.place - (known.count - 1 - n); };
    int64_t best = 0, lag_of = voices;
    for (int64_t lag = voices; lag <= std::max(known.count, voices); lag += voices) {
      int64_t n = end;
      while (n >= begin && n >= lag && place(n) > lag && ids[n] == ids[n - lag]) n -= stride;
      const int64_t run = std::min(end - n, most * voices);
      if (run > best) best = run, lag_of = lag;
    }
    int64_t moved = 0;
    for (int64_t n = end; n > end - best; n -= stride)
      moved += n >= voices && ids[n] != ids[n - voices];
    if (best < shortest[own] * voices || moved < changes[own]) return {0, 0};
    return {ids[known.count - lag_of], best / voices};
  }
  int64_t length_class(int64_t steps) const {
    int64_t found = 0;
    while (found < classes - 1 && steps >= int64_t{1} << found) found++;
    return found;
  }
  void read(const Known& known, Seen& seen) const {
    for (int own = 0; own < 2; own++) {
      const auto [id, steps] = longest(known, own);
      seen.ids[own] = id;
      seen.trust[own] = length_class(steps);
    }
  }
  void embed(const Known& known, const Seen& seen, float* x, int64_t width) const {
    const int64_t last = known.place < voices ? -1 : known.back(voices - 1);
    const int64_t old = last < 0 ? -1 : pitches[last];
    for (int own = 0; own < 2; own++) {
      add(x, lengths + (own * classes + seen.trust[own]) * width, width);
      const int64_t then = pitches[seen.ids[own]];
      const int64_t row = then < 0 || old < 0 ? 0 : then - old + span + 1;
      if (seen.trust[own]) add(x, intervals + (own * (2 * span + 2) + row) * width, width);
    }
  }
};

}  // namespace
