// What bars.py computes, for one new id.
#pragma once
#include "group_keys.h"
#include "predicted.h"

namespace {

struct Bars : Gated {
  // As constants of bars.py.
  static constexpr int64_t DISTANCES[] = {1, 2, 4, 8}, COUNT = 6, FARTHEST_BARS = 32, AGREEMENT_NOTES = 16,
                           CLASSES = 6, FIRST_REPEAT = 3;

  struct State : Predictions<COUNT> {
    int64_t meter = 0;
  };
  GroupTable table;
  int64_t bar_id;
  const float* in_meter;

  void read(const History& history, State& state) const {
    const Groups groups(table, history);
    state = {};
    state.field = groups.field;
    if (!groups.count) return;
    const int64_t last = groups.count - 1, bar = groups.properties[last].bar;
    const int64_t first_bar = groups.properties[0].bar + groups.properties[0].is_outside;
    const int64_t lags = std::min(FARTHEST_BARS, bar - first_bar);
    std::vector<int64_t> agreed(FARTHEST_BARS + 1, 0);
    const int64_t notes = count_agreeing(groups, lags, agreed);
    const int64_t best = std::max_element(agreed.begin() + 1, agreed.end()) - agreed.begin();
    const Span span = groups.span(groups.key[last] + 1, bar);
    int64_t line = last;
    while (line >= 0 && !groups.is_line(line)) line--;
    const int64_t section = line < 0 ? 0 : table.section[groups.at(line)[3]];
    const int64_t repeated = std::max<int64_t>(section - FIRST_REPEAT + 1, 0);
    for (int64_t c = 0; c < COUNT; c++) {
      const int64_t lag = c < 4 ? DISTANCES[c] : c == 4 ? best : repeated;
      if (!lag || lag > lags) continue;
      const Span earlier{span.least - lag * BAR, span.below - lag * BAR};
      const int64_t index = first_from(groups.key, earlier.least);
      if (index < groups.count && earlier.has(groups.key[index]))
        state.ids[c] = groups.at(index)[groups.field];
      else if (!groups.field)
        state.ids[c] = bar_id;
      if (state.ids[c])
        state.confidence[c] = 1 + std::min(5 * agreed[lag] / std::max<int64_t>(notes, 1), CLASSES - 2);
    }
    if (line >= 0) state.meter = table.meter[groups.at(line)[1]];
  }
  // Counts in `agreed`, for each lag from 1 on, how many of the last notes were also there `lag` bars ago.
  // Returns the number of these last notes.
  static int64_t count_agreeing(const Groups& groups, int64_t lags, std::vector<int64_t>& agreed) {
    int64_t notes = 0;
    for (int64_t k = groups.count - 1; k >= 0 && notes < AGREEMENT_NOTES; k--) {
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
  void embed(const History& history, const State& state, float* x, int64_t width) const {
    Gated::embed(history, state, x, width);
    add(x, in_meter + state.meter * width, width);
  }
};

}  // namespace
