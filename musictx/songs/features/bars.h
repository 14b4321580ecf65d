// What bars.py computes, for one new id.
#pragma once
#include "group_keys.h"
#include "predicted.h"

namespace {

struct Bars : Gated {
  // As constants of bars.py.
  static constexpr int64_t LAGS[] = {1, 2, 4, 8}, COUNT = 6, FARTHEST = 32, NOTES = 16, CLASSES = 6,
                           FIRST_REPEAT = 3;

  struct Seen : Predictions<COUNT> {
    int64_t meter = 0;
  };
  GroupTable table;
  int64_t bar_id;
  const float* in_meter;

  void read(const History& past, Seen& seen) const {
    const Groups groups(table, past);
    seen = {};
    seen.field = groups.field;
    if (!groups.count) return;
    const int64_t last = groups.count - 1, bar = groups.properties[last].bar;
    const int64_t first_bar = groups.properties[0].bar + groups.properties[0].is_outside;
    const int64_t lags = std::min(FARTHEST, bar - first_bar);
    std::vector<int64_t> agreed(FARTHEST + 1, 0);
    const int64_t notes = agree(groups, lags, agreed);
    const int64_t best = std::max_element(agreed.begin() + 1, agreed.end()) - agreed.begin();
    const Span span = groups.span(groups.key[last] + 1, bar);
    int64_t line = last;
    while (line >= 0 && !groups.is_line(line)) line--;
    const int64_t section = line < 0 ? 0 : table.section[groups.at(line)[3]];
    const int64_t repeated = std::max<int64_t>(section - FIRST_REPEAT + 1, 0);
    for (int64_t c = 0; c < COUNT; c++) {
      const int64_t lag = c < 4 ? LAGS[c] : c == 4 ? best : repeated;
      if (!lag || lag > lags) continue;
      const Span earlier{span.least - lag * BAR, span.below - lag * BAR};
      const int64_t index = first_from(groups.key, earlier.least);
      if (index < groups.count && earlier.has(groups.key[index]))
        seen.ids[c] = groups.at(index)[groups.field];
      else if (!groups.field)
        seen.ids[c] = bar_id;
      if (seen.ids[c])
        seen.trust[c] = 1 + std::min(5 * agreed[lag] / std::max<int64_t>(notes, 1), CLASSES - 2);
    }
    if (line >= 0) seen.meter = table.meter[groups.at(line)[1]];
  }
  // Counts, for each lag from 1 on, the last notes that are also `lag` bars ago. Returns their number.
  static int64_t agree(const Groups& groups, int64_t lags, std::vector<int64_t>& agreed) {
    int64_t notes = 0;
    for (int64_t k = groups.count - 1; k >= 0 && notes < NOTES; k--) {
      if (groups.is_line(k) || groups.properties[k].is_outside) continue;
      notes++;
      auto stop = groups.key.begin() + k;
      for (int64_t lag = 1; lag <= lags; lag++) {
        const int64_t earlier = groups.key[k] - lag * BAR;
        stop = std::lower_bound(groups.key.begin(), stop, earlier);
        agreed[lag] += *stop == earlier && groups.at(stop - groups.key.begin())[3] == groups.at(k)[3];
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
