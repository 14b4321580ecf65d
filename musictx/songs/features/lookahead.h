// What lookahead.py computes, for one new id.
#pragma once
#include "group_keys.h"
#include "predicted.h"

namespace {

struct Ahead : Gated {
  static constexpr int64_t WHOLE = 1, VARIED = 2;  // as in songs/bar_codec.py

  using State = Predictions<1>;
  GroupTable table;
  int64_t bar_id;

  void read(const History& history, State& state) const {
    const Groups groups(table, history);
    state = {};
    state.field = groups.field;
    if (!groups.count) return;
    const std::vector<int64_t> given = groups.given_keys();
    const int64_t last = groups.count - 1, bar = groups.properties[last].bar;
    const int64_t line_key = (bar + (groups.field && groups.is_line(groups.count))) * BAR;
    const int64_t line = first_from(given, line_key);
    if (line == groups.count || given[line] != line_key) return;
    const int64_t section = table.section[groups.at(line)[3]];
    state.confidence[0] = section == VARIED && classes > VARIED + 1 ? VARIED + 1 : 1 + (section == WHOLE);
    const Span span = groups.span(groups.key[last] + 1, bar);
    const int64_t index = first_from(given, span.least);
    if (index < groups.count && span.has(given[index]))
      state.ids[0] = groups.at(index)[groups.field];
    else if (!groups.field)
      state.ids[0] = bar_id;
  }
};

}  // namespace
