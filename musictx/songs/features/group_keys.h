// The order of groups as numbers for one new id, as in group_keys.py, which says what they mean.
#pragma once
#include <algorithm>
#include <vector>

#include "feature.h"

namespace {

// As the constants of group_keys.py.
constexpr int64_t SIZE = 5, TONES = 128, PARTS = 130, BAR = 512 * PARTS * TONES, DRUM_PART = 129;

// What each id says, as `GroupFeature.tables`.
struct GroupTable {
  const int64_t *place, *is_bar, *part, *tone, *is_known, *meter, *section;

  // What place, part and tone of a group add to the key of its bar.
  int64_t within(const int64_t* group) const {
    return (place[group[0]] * PARTS + part[group[1]]) * TONES + tone[group[2]];
  }
};

// The first of the sorted numbers that is not below `least`; the last place where there is none.
inline int64_t first_from(const std::vector<int64_t>& sorted, int64_t least) {
  return std::lower_bound(sorted.begin(), sorted.end(), least) - sorted.begin();
}

struct Span {
  int64_t least, below;

  bool has(int64_t key) const { return least <= key && key < below; }
};

// The whole groups of a row, and what there is of the one that is being written.
struct Groups {
  struct Group {
    int64_t bar;
    bool other, ahead;
  };
  const GroupTable& of;
  const int64_t* ids;  // of group 0: the id before it closes the row before
  int64_t whole, field;  // how many are whole; how many ids of the next one are there
  std::vector<int64_t> key;  // sorted
  std::vector<Group> each;

  Groups(const GroupTable& of, const History& past)
      : of(of), ids(past.ids + 1), whole((past.count - 1) / SIZE), field((past.count - 1) % SIZE) {
    int64_t bar = 0;
    bool ahead = false;
    each.reserve(whole);
    key.reserve(whole);
    for (int64_t k = 0; k < whole; k++) {
      const int64_t *group = at(k), first = group[0];
      bar += of.is_bar[first];
      if (of.is_bar[first] || of.is_known[first]) ahead = of.is_known[first];
      const bool other = ahead || (!of.is_bar[first] && !of.place[first]);
      each.push_back({bar, other, ahead});
      key.push_back(bar * BAR + (other ? BAR - 1 : of.is_bar[first] ? 0 : of.within(group)));
    }
  }
  const int64_t* at(int64_t k) const { return ids + k * SIZE; }
  bool line(int64_t k) const { return of.is_bar[at(k)[0]]; }

  // The keys that the next id leaves open; the last whole group stands in `bar`, before `after`.
  Span span(int64_t after, int64_t bar) const {
    if (!field) return {after, (bar + 1) * BAR};
    const int64_t* group = at(whole);
    if (line(whole)) return {(bar + 1) * BAR, (bar + 1) * BAR + 1};
    int64_t least = bar * BAR + of.place[group[0]] * PARTS * TONES, wide = PARTS * TONES;
    if (field > 1) least += of.part[group[1]] * TONES, wide = TONES;
    if (field > 2) return {least + of.tone[group[2]], least + of.tone[group[2]] + 1};
    return {std::max(after, least), least + wide};
  }
  // Sorted keys of the groups ahead, at each other group the one before it.
  std::vector<int64_t> given() const {
    std::vector<int64_t> keys;
    keys.reserve(whole);
    int64_t count = 0, lead = -whole, before = -1;
    for (int64_t k = 0; k < whole; k++) {
      const auto [bar, other, ahead] = each[k];
      const int64_t* group = at(k);
      const bool line = ahead && of.meter[group[1]], note = ahead && !of.is_known[group[0]];
      count += line;
      // The k-th bar ahead is the one after the last that is written or given.
      if (line) lead = std::max(lead, bar - count);
      const int64_t start = (count + 1 + lead) * BAR;
      if (line || (note && count))
        before = std::max(before, line ? start : start + of.within(group));
      keys.push_back(before);
    }
    return keys;
  }
};

}  // namespace
