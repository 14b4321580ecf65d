// What conditions.py computes, for one new token.
#pragma once
#include "pitches.h"

namespace {

struct Conditions : PitchFeature {
  // The controls and the given notes ahead, for one token.
  struct Seen {
    std::vector<int64_t> rows, starts, ends;
    int64_t gap;
  };
  // `scores` has rows for starts by state, for ends by state, for the exact shift, for shifts past it,
  // and for chords.
  const int64_t *part, *control, *row;                  // by id
  const int64_t *first_rows, *start_class, *end_class;  // by control, by time
  const float *context, *coming, *ending;
  int64_t first_time, longest_shift, controls, start_count, end_count, longest_start, longest_end, never;

  enum Part : int64_t { BEFORE_MARKS, KNOWN, STREAM, HERE };

  void read(const History& past, Seen& seen) const {
    const int64_t begin = std::max<int64_t>(past.count - 1 - past.place, 0);
    const int64_t* ids = past.ids;
    int64_t at[4] = {-1, -1, -1, -1}, time_at[4] = {0, 0, 0, 0}, time = 0;
    seen.rows.assign(first_rows, first_rows + controls);
    for (int64_t n = begin; n < past.count; n++) {
      const int64_t id = ids[n];
      time += steps[id];
      if (control[id] >= 0) seen.rows[control[id]] = row[id];
      if (part[id]) at[part[id]] = n, time_at[part[id]] = time;
    }
    const bool here = at[STREAM] >= 0 && at[HERE] > at[STREAM];
    seen.rows.push_back(here                          ? HERE
                         : at[STREAM] > at[KNOWN] ? STREAM
                         : at[KNOWN] > at[STREAM] ? KNOWN
                                                  : BEFORE_MARKS);
    seen.starts.assign(pitches, 0);
    seen.ends.assign(pitches, 0);
    seen.gap = never;
    if (here && at[KNOWN] >= 0 && at[KNOWN] < at[STREAM]) {
      const int64_t moment = time - time_at[HERE];  // on the clock of the given notes
      // The music of the current step begins after the last time shift.
      std::vector<char> struck(pitches, 0), ended(pitches, 0);
      for (int64_t n = past.count - 1; n > at[HERE] && !steps[ids[n]]; n--) {
        if (starts[ids[n]] >= 0) struck[starts[ids[n]]] = 1;
        if (ends[ids[n]] >= 0) ended[ends[ids[n]]] = 1;
      }
      int64_t then = 0;
      for (int64_t n = at[KNOWN] + 1; n < at[STREAM]; n++) {
        const int64_t id = ids[n];
        then += steps[id];
        const auto note = [&](int64_t pitch, const std::vector<char>& written,
                              std::vector<int64_t>& classes_of, const int64_t* classes, int64_t most) {
          if (pitch < 0 || classes_of[pitch] || then < moment + written[pitch]) return;
          classes_of[pitch] = 1 + classes[std::min(then - moment, most - 1)];
          seen.gap = std::min(seen.gap, then - moment);
        };
        note(starts[id], struck, seen.starts, start_class, longest_start);
        note(ends[id], ended, seen.ends, end_class, longest_end);
      }
    }
    seen.rows.push_back(first_time + time_class[std::min(seen.gap, longest - 1)]);
  }
  void embed(const History&, const Seen& seen, float* x, int64_t width) const {
    for (const int64_t which : seen.rows) add(x, context + which * width, width);
    for (int64_t p = 0; p < pitches; p++) {
      if (const int64_t s = seen.starts[p])
        add(x, coming + (p * start_count + s - 1) * width, width);
      if (const int64_t s = seen.ends[p]) add(x, ending + (p * end_count + s - 1) * width, width);
    }
  }
  void score(const History&, const Seen& seen, const float* scored, float* logits,
             int64_t vocabulary) const {
    if (seen.gap == never) return;
    const float *of_ends = scored + start_count, *of_shifts = of_ends + end_count;
    std::vector<float> both(2 * pitches + 1, 0.0f);
    for (int64_t p = 0; p < pitches; p++) {
      if (seen.starts[p]) both[p] = scored[seen.starts[p] - 1];
      if (seen.ends[p]) both[pitches + p] = of_ends[seen.ends[p] - 1];
    }
    by_interval(of_shifts + 2, seen.starts, both.data());
    const int64_t exact = std::min(seen.gap, longest_shift);
    for (int64_t id = 0; id < vocabulary; id++) {
      logits[id] += both[candidates[id]];
      if (steps[id] > 0 && steps[id] == exact) logits[id] += of_shifts[0];
      if (steps[id] > seen.gap) logits[id] += of_shifts[1];
    }
  }
};

}  // namespace
