// What group_keys.py computes, for one new id.
#pragma once
#include <algorithm>
#include <vector>

#include "feature.h"

namespace {

// As the constants of group_keys.py.
constexpr int64_t SIZE = 5, TONES = 128, PARTS = 130, BAR = 512 * PARTS * TONES, DRUM_PART = 129;

// The tables of `GroupFeature`, by id.
struct GroupTable {
  const int64_t *place, *is_bar, *part, *tone, *is_known, *meter, *section;

  // The key of a group within its bar, from place, part and tone.
  int64_t key_in_bar(const int64_t* group) const {
    return (place[group[0]] * PARTS + part[group[1]]) * TONES + tone[group[2]];
  }
};

// The index of the first of the sorted numbers that is at least `least`; their count if there is none.
inline int64_t first_from(const std::vector<int64_t>& sorted, int64_t least) {
  return std::lower_bound(sorted.begin(), sorted.end(), least) - sorted.begin();
}

// The keys from `least` up to but excluding `below`.
struct Span {
  int64_t least, below;

  bool has(int64_t key) const { return least <= key && key < below; }
};

// The complete groups of a row, and the ids so far of the current group.
struct Groups {
  struct Properties {
    int64_t bar;
    bool is_outside, is_ahead;
  };
  const GroupTable& table;
  const int64_t* ids;  // of group 0; the id before it is bos or cut
  int64_t count, field;  // the number of complete groups, and of ids of the current one
  std::vector<int64_t> key;  // sorted
  std::vector<Properties> properties;

  Groups(const GroupTable& table, const History& history)
      : table(table), ids(history.ids + 1), count((history.count - 1) / SIZE), field((history.count - 1) % SIZE) {
    int64_t bar = 0;
    bool is_ahead = false;
    properties.reserve(count);
    key.reserve(count);
    for (int64_t k = 0; k < count; k++) {
      const int64_t *group = at(k), first = group[0];
      bar += table.is_bar[first];
      if (table.is_bar[first] || table.is_known[first]) is_ahead = table.is_known[first];
      const bool is_outside = is_ahead || (!table.is_bar[first] && !table.place[first]);
      properties.push_back({bar, is_outside, is_ahead});
      key.push_back(bar * BAR + (is_outside ? BAR - 1 : table.is_bar[first] ? 0 : table.key_in_bar(group)));
    }
  }
  const int64_t* at(int64_t k) const { return ids + k * SIZE; }
  bool is_line(int64_t k) const { return table.is_bar[at(k)[0]]; }

  // The keys that the current group may have. `after` is the smallest key after that of the last group, and
  // `bar` the bar of the last group.
  Span span(int64_t after, int64_t bar) const {
    if (!field) return {after, (bar + 1) * BAR};
    const int64_t* group = at(count);
    if (is_line(count)) return {(bar + 1) * BAR, (bar + 1) * BAR + 1};
    int64_t least = bar * BAR + table.place[group[0]] * PARTS * TONES, size = PARTS * TONES;
    if (field > 1) least += table.part[group[1]] * TONES, size = TONES;
    if (field > 2) return {least + table.tone[group[2]], least + table.tone[group[2]] + 1};
    return {std::max(after, least), least + size};
  }
  // The sorted keys of the groups ahead, where every other group repeats the key before it.
  std::vector<int64_t> given_keys() const {
    std::vector<int64_t> keys;
    keys.reserve(count);
    int64_t bars_ahead = 0, lead = -count, latest = -1;
    for (int64_t k = 0; k < count; k++) {
      const auto [bar, is_outside, is_ahead] = properties[k];
      const int64_t* group = at(k);
      const bool line = is_ahead && table.meter[group[1]], note = is_ahead && !table.is_known[group[0]];
      bars_ahead += line;
      // A bar ahead is the bar after the last that is written or given.
      if (line) lead = std::max(lead, bar - bars_ahead);
      const int64_t start = (bars_ahead + 1 + lead) * BAR;
      if (line || (note && bars_ahead))
        latest = std::max(latest, line ? start : start + table.key_in_bar(group));
      keys.push_back(latest);
    }
    return keys;
  }
};

}  // namespace
