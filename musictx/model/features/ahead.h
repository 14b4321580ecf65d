// For one new id what ahead.py computes, and what it is compared with.
#pragma once
#include "group_keys.h"

namespace {

struct Ahead : Feature {
  static constexpr int64_t CLASSES = 3, WHOLE = 1;  // as in ahead.py and tokens/ahead.py

  struct Seen {
    int64_t id = 0, known = 0, field = 0;
  };
  // scores: by field and class
  GroupTable of;
  const int64_t *is_meter, *section;  // by id
  const float *gates, *stood, *state;
  int64_t bar_id, size;

  void read(const Known& row, Seen& seen) const {
    const Groups groups(of, row);
    seen = {0, 0, groups.field};
    if (!groups.whole) return;
    const std::vector<int64_t> known = keys(groups);
    const int64_t last = groups.whole - 1, bar = groups.each[last].bar;
    const int64_t now = (bar + (groups.field && groups.line(groups.whole))) * BAR;
    const int64_t line = first_from(known, now);
    if (line == groups.whole || known[line] != now) return;
    seen.known = 1 + (section[groups.at(line)[3]] == WHOLE);
    const Span span = groups.span(groups.key[last] + 1, bar);
    const int64_t found = first_from(known, span.least);
    if (found < groups.whole && span.has(known[found]))
      seen.id = groups.at(found)[groups.field];
    else if (!groups.field)
      seen.id = bar_id;
  }
  // Sorted keys of the groups ahead, at each other group the one before it.
  std::vector<int64_t> keys(const Groups& groups) const {
    std::vector<int64_t> found;
    int64_t count = 0, lead = -groups.whole, before = -1;
    for (int64_t k = 0; k < groups.whole; k++) {
      const auto [bar, other, ahead] = groups.each[k];
      const int64_t* group = groups.at(k);
      const bool line = ahead && is_meter[group[1]], note = ahead && !of.is_known[group[0]];
      count += line;
      // The k-th bar ahead is the one after the last that is written or told.
      if (line) lead = std::max(lead, bar - count);
      if (line)
        before = std::max(before, (count + 1 + lead) * BAR);
      else if (note && count)
        before = std::max(before, (count + 1 + lead) * BAR + of.within(group));
      found.push_back(before);
    }
    return found;
  }
  void embed(const Known&, const Seen& seen, float* x, int64_t width) const {
    const float* from = stood + std::min(seen.id, size - 1) * width;
    if (seen.id)
      for (int64_t i = 0; i < width; i++) x[i] += gates[seen.known] * from[i];
    add(x, state + seen.known * width, width);
  }
  void score(const Known&, const Seen& seen, const float* scored, float* logits, int64_t) const {
    if (seen.id) logits[seen.id] += scored[seen.field * CLASSES + seen.known];
  }
};

}  // namespace
