// What conditions.py computes, for one new token.
#pragma once
#include "pitches.h"

namespace {

struct Conditions : PitchFeature {
  struct State {
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

  void read(const History& history, State& state) const {
    const int64_t begin = std::max<int64_t>(history.count - 1 - history.position, 0);
    const int64_t* ids = history.ids;
    int64_t at[4] = {-1, -1, -1, -1}, time_at[4] = {0, 0, 0, 0}, time = 0;
    state.rows.assign(first_rows, first_rows + controls);
    for (int64_t n = begin; n < history.count; n++) {
      const int64_t id = ids[n];
      time += steps[id];
      if (control[id] >= 0) state.rows[control[id]] = row[id];
      if (part[id]) at[part[id]] = n, time_at[part[id]] = time;
    }
    const bool is_here = at[STREAM] >= 0 && at[HERE] > at[STREAM];
    state.rows.push_back(is_here                  ? HERE
                         : at[STREAM] > at[KNOWN] ? STREAM
                         : at[KNOWN] > at[STREAM] ? KNOWN
                                                  : BEFORE_MARKS);
    state.starts.assign(pitches, 0);
    state.ends.assign(pitches, 0);
    state.gap = never;
    if (is_here && at[KNOWN] >= 0 && at[KNOWN] < at[STREAM]) {
      const int64_t moment = time - time_at[HERE];  // on the clock of the given notes
      // The music of the current step begins after the last time shift.
      std::vector<char> struck(pitches, 0), ended(pitches, 0);
      for (int64_t n = history.count - 1; n > at[HERE] && !steps[ids[n]]; n--) {
        if (starts[ids[n]] >= 0) struck[starts[ids[n]]] = 1;
        if (ends[ids[n]] >= 0) ended[ends[ids[n]]] = 1;
      }
      int64_t given_time = 0;
      for (int64_t n = at[KNOWN] + 1; n < at[STREAM]; n++) {
        const int64_t id = ids[n];
        given_time += steps[id];
        const int64_t gap = given_time - moment;
        const auto note = [&](int64_t pitch, const std::vector<char>& written,
                              std::vector<int64_t>& class_of, const int64_t* classes, int64_t longest_gap) {
          if (pitch < 0 || class_of[pitch] || gap < written[pitch]) return;
          class_of[pitch] = 1 + classes[std::min(gap, longest_gap - 1)];
          state.gap = std::min(state.gap, gap);
        };
        note(starts[id], struck, state.starts, start_class, longest_start);
        note(ends[id], ended, state.ends, end_class, longest_end);
      }
    }
    state.rows.push_back(first_time + time_class[std::min(state.gap, longest - 1)]);
  }
  void embed(const History&, const State& state, float* x, int64_t width) const {
    for (const int64_t each : state.rows) add(x, context + each * width, width);
    for (int64_t p = 0; p < pitches; p++) {
      if (const int64_t s = state.starts[p])
        add(x, coming + (p * start_count + s - 1) * width, width);
      if (const int64_t s = state.ends[p]) add(x, ending + (p * end_count + s - 1) * width, width);
    }
  }
  void score(const History&, const State& state, const float* products, float* logits,
             int64_t vocabulary) const {
    if (state.gap == never) return;
    const float *of_ends = products + start_count, *of_shifts = of_ends + end_count;
    std::vector<float> scores(2 * pitches + 1, 0.0f);
    for (int64_t p = 0; p < pitches; p++) {
      if (state.starts[p]) scores[p] = products[state.starts[p] - 1];
      if (state.ends[p]) scores[pitches + p] = of_ends[state.ends[p] - 1];
    }
    add_interval_scores(of_shifts + 2, state.starts, scores.data());
    const int64_t exact = std::min(state.gap, longest_shift);
    for (int64_t id = 0; id < vocabulary; id++) {
      logits[id] += scores[candidates[id]];
      if (steps[id] > 0 && steps[id] == exact) logits[id] += of_shifts[0];
      if (steps[id] > state.gap) logits[id] += of_shifts[1];
    }
  }
};

}  // namespace
