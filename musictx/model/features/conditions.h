// For one new token what conditions.py computes, and what it is compared with.
#pragma once
#include "pitches.h"

namespace {

// What is asked for and what is known ahead, for one token.
struct Asked {
  std::vector<int64_t> rows, starts, ends;
  int64_t gap;
};

struct Conditions : Feature {
  using Seen = Asked;
  // scores: of starts, of ends by state; of the exact shift and those past it; of chords
  const int64_t *steps, *starts, *ends, *candidates, *part, *control, *row;  // by id
  const int64_t* first_rows;                                                 // by control
  const int64_t *start_class, *end_class, *time_class;                       // by time
  const int64_t* kind_of;                                                    // by state of starts
  const float *context, *coming, *ending, *maps;                             // maps may be missing
  int64_t pitches, controls, first_time, kinds, chords, start_count, end_count, longest_start,
      longest_end, longest, longest_shift, never;

  enum Part : int64_t { BEFORE_MARKS, KNOWN, STREAM, HERE };

  void read(const Known& known, Asked& asked) const {
    const int64_t begin = std::max<int64_t>(known.count - 1 - known.place, 0);
    const int64_t* ids = known.ids;
    int64_t at[4] = {-1, -1, -1, -1}, time_at[4] = {0, 0, 0, 0}, time = 0;
    asked.rows.assign(first_rows, first_rows + controls);
    for (int64_t n = begin; n < known.count; n++) {
      const int64_t id = ids[n];
      time += steps[id];
      if (control[id] >= 0) asked.rows[control[id]] = row[id];
      if (part[id]) at[part[id]] = n, time_at[part[id]] = time;
    }
    const bool here = at[STREAM] >= 0 && at[HERE] > at[STREAM];
    asked.rows.push_back(here                          ? HERE
                         : at[STREAM] > at[KNOWN] ? STREAM
                         : at[KNOWN] > at[STREAM] ? KNOWN
                                                  : BEFORE_MARKS);
    asked.starts.assign(pitches, 0);
    asked.ends.assign(pitches, 0);
    asked.gap = never;
    if (here && at[KNOWN] >= 0 && at[KNOWN] < at[STREAM]) {
      const int64_t moment = time - time_at[HERE];  // on the clock of the known notes
      // What is written of this step begins after the last shift of time.
      std::vector<char> struck(pitches, 0), ended(pitches, 0);
      for (int64_t n = known.count - 1; n > at[HERE] && !steps[ids[n]]; n--) {
        if (starts[ids[n]] >= 0) struck[starts[ids[n]]] = 1;
        if (ends[ids[n]] >= 0) ended[ends[ids[n]]] = 1;
      }
      int64_t then = 0;
      for (int64_t n = at[KNOWN] + 1; n < at[STREAM]; n++) {
        const int64_t id = ids[n];
        then += steps[id];
        const auto note = [&](int64_t pitch, const std::vector<char>& written,
                              std::vector<int64_t>& found, const int64_t* classes, int64_t most) {
          if (pitch < 0 || found[pitch] || then < moment + written[pitch]) return;
          found[pitch] = 1 + classes[std::min(then - moment, most - 1)];
          asked.gap = std::min(asked.gap, then - moment);
        };
        note(starts[id], struck, asked.starts, start_class, longest_start);
        note(ends[id], ended, asked.ends, end_class, longest_end);
      }
    }
    asked.rows.push_back(first_time + time_class[std::min(asked.gap, longest - 1)]);
  }
  void embed(const Known&, const Asked& asked, float* x, int64_t width) const {
    for (const int64_t which : asked.rows) add(x, context + which * width, width);
    for (int64_t p = 0; p < pitches; p++) {
      if (const int64_t s = asked.starts[p])
        add(x, coming + (p * start_count + s - 1) * width, width);
      if (const int64_t s = asked.ends[p]) add(x, ending + (p * end_count + s - 1) * width, width);
    }
  }
  void score(const Known&, const Asked& asked, const float* scored, float* logits,
             int64_t vocabulary) const {
    if (asked.gap == never) return;
    const float *of_ends = scored + start_count, *of_shifts = of_ends + end_count;
    std::vector<float> both(2 * pitches + 1, 0.0f);
    for (int64_t p = 0; p < pitches; p++) {
      if (asked.starts[p]) both[p] = scored[asked.starts[p] - 1];
      if (asked.ends[p]) both[pitches + p] = of_ends[asked.ends[p] - 1];
    }
    if (maps)
      by_interval(maps, of_shifts + 2, kinds, chords, asked.starts, kind_of, both.data());
    const int64_t exact = std::min(asked.gap, longest_shift);
    for (int64_t id = 0; id < vocabulary; id++) {
      logits[id] += both[candidates[id]];
      if (steps[id] > 0 && steps[id] == exact) logits[id] += of_shifts[0];
      if (steps[id] > asked.gap) logits[id] += of_shifts[1];
    }
  }
};

}  // namespace
