// For one new id what ahead.py computes, and what it is compared with.
#pragma once
#include "group_keys.h"

namespace {

struct Ahead : Feature {
  static constexpr int64_t WHOLE = 1, VARIED = 2;  // as in tokens/ahead.py

  struct Seen {
    int64_t id = 0, known = 0, field = 0;
  };
  // scores: by field and class
  GroupTable of;
  const int64_t *is_meter, *section;  // by id
  const float *gates, *stood, *state;
  int64_t bar_id, size, classes;

  void read(const Known& row, Seen& seen) const {
    const Groups groups(of, row);
    seen = {0, 0, groups.field};
    if (!groups.whole) return;
    const std::vector<int64_t> known = groups.known(is_meter);
    const int64_t last = groups.whole - 1, bar = groups.each[last].bar;
    const int64_t now = (bar + (groups.field && groups.line(groups.whole))) * BAR;
    const int64_t line = first_from(known, now);
    if (line == groups.whole || known[line] != now) return;
    const int64_t kind = section[groups.at(line)[3]];
    seen.known = kind == VARIED && classes > VARIED + 1 ? VARIED + 1 : 1 + (kind == WHOLE);
    const Span span = groups.span(groups.key[last] + 1, bar);
    const int64_t found = first_from(known, span.least);
    if (found < groups.whole && span.has(known[found]))
      seen.id = groups.at(found)[groups.field];
    else if (!groups.field)
      seen.id = bar_id;
  }
  void embed(const Known&, const Seen& seen, float* x, int64_t width) const {
    const float* from = stood + std::min(seen.id, size - 1) * width;
    if (seen.id)
      for (int64_t i = 0; i < width; i++) x[i] += gates[seen.known] * from[i];
    add(x, state + seen.known * width, width);
  }
  void score(const Known&, const Seen& seen, const float* scored, float* logits, int64_t) const {
    if (seen.id) logits[seen.id] += scored[seen.field * classes + seen.known];
  }
};

}  // namespace
