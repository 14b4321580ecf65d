// For one new id what lookahead.py computes, and what it is compared with.
#pragma once
#include "group_keys.h"
#include "predicted.h"

namespace {

struct Ahead : Gated {
  static constexpr int64_t WHOLE = 1, VARIED = 2;  // as in songs/bar_codec.py

  using Seen = Predictions<1>;
  GroupTable of;
  int64_t bar_id;

  void read(const History& row, Seen& seen) const {
    const Groups groups(of, row);
    seen = {};
    seen.field = groups.field;
    if (!groups.whole) return;
    const std::vector<int64_t> given = groups.given();
    const int64_t last = groups.whole - 1, bar = groups.each[last].bar;
    const int64_t now = (bar + (groups.field && groups.line(groups.whole))) * BAR;
    const int64_t line = first_from(given, now);
    if (line == groups.whole || given[line] != now) return;
    const int64_t kind = of.section[groups.at(line)[3]];
    seen.trust[0] = kind == VARIED && classes > VARIED + 1 ? VARIED + 1 : 1 + (kind == WHOLE);
    const Span span = groups.span(groups.key[last] + 1, bar);
    const int64_t index = first_from(given, span.least);
    if (index < groups.whole && span.has(given[index]))
      seen.ids[0] = groups.at(index)[groups.field];
    else if (!groups.field)
      seen.ids[0] = bar_id;
  }
};

}  // namespace
