// For one new id what bars.py computes, and what it is compared with.
#pragma once
#include "group_keys.h"
#include "predicted.h"

namespace {

struct Bars : Gated {
  // As constants of bars.py.
  static constexpr int64_t LAGS[] = {1, 2, 4, 8}, COUNT = 6, FARTHEST = 32, NOTES = 16, CLASSES = 6,
                           REPEATS = 3;

  struct Seen : Predictions<COUNT> {
    int64_t meter = 0;
  };
  GroupTable of;
  int64_t bar_id;
  const float* in_meter;

  void read(const History& past, Seen& seen) const {
    const Groups groups(of, past);
    seen = {};
    seen.field = groups.field;
    if (!groups.whole) return;
    const int64_t last = groups.whole - 1, bar = groups.each[last].bar;
    const int64_t lags = std::min(FARTHEST, bar - groups.each[0].bar - groups.each[0].other);
    std::vector<int64_t> agreed(FARTHEST + 1, 0);
    const int64_t notes = agree(groups, lags, agreed);
    const int64_t best = std::max_element(agreed.begin() + 1, agreed.end()) - agreed.begin();
    const Span span = groups.span(groups.key[last] + 1, bar);
    int64_t line = last;
    while (line >= 0 && !groups.line(line)) line--;
    const int64_t section = line < 0 ? 0 : of.section[groups.at(line)[3]];
    const int64_t repeated = std::max<int64_t>(section - REPEATS + 1, 0);
    for (int64_t c = 0; c < COUNT; c++) {
      const int64_t lag = c < 4 ? LAGS[c] : c == 4 ? best : repeated;
      if (!lag || lag > lags) continue;
      const Span then{span.least - lag * BAR, span.below - lag * BAR};
      const int64_t index = first_from(groups.key, then.least);
      if (index < groups.whole && then.has(groups.key[index]))
        seen.ids[c] = groups.at(index)[groups.field];
      else if (!groups.field)
        seen.ids[c] = bar_id;
      if (seen.ids[c])
        seen.trust[c] = 1 + std::min(5 * agreed[lag] / std::max<int64_t>(notes, 1), CLASSES - 2);
    }
    if (line >= 0) seen.meter = of.meter[groups.at(line)[1]];
  }
  // How many of the last notes stood there `lag` bars ago, for lags from 1 on; how many notes there are.
  static int64_t agree(const Groups& groups, int64_t lags, std::vector<int64_t>& agreed) {
    int64_t notes = 0;
    for (int64_t k = groups.whole - 1; k >= 0 && notes < NOTES; k--) {
      if (groups.line(k) || groups.each[k].other) continue;
      notes++;
      auto upto = groups.key.begin() + k;
      for (int64_t lag = 1; lag <= lags; lag++) {
        upto = std::lower_bound(groups.key.begin(), upto, groups.key[k] - lag * BAR);
        agreed[lag] += *upto == groups.key[k] - lag * BAR &&
                       groups.at(upto - groups.key.begin())[3] == groups.at(k)[3];
      }
    }
    return notes;
  }
  void embed(const History& past, const Seen& seen, float* x, int64_t width) const {
    Gated::embed(past, seen, x, width);
    add(x, in_meter + seen.meter * width, width);
  }
};

}  // namespace
