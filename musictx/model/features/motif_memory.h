// What motif_memory.py computes, for one new token.
#pragma once
#include <algorithm>

#include "predicted.h"

namespace {

struct Echoes : PredictionFeature {
  // The constants of motif_memory.py.
  static constexpr int64_t LENGTHS[] = {3, 4, 6, 8, 12, 16, 32}, CLASSES = 8;
  static constexpr int64_t MOST_NOTES = 32, FARTHEST = 1024;

  struct State : Predictions<3> {
    int64_t pitch = 0, steps = 0, level = 0;
  };
  const int64_t *steps, *starts, *level_of;  // by id
  const int64_t* time_class;
  const int64_t *start_id, *step_id, *level_id;  // by pitch, steps, level
  const float *in_length, *in_pitch, *in_steps, *in_level;
  int64_t longest, times;  // the longest time shift; the number of entries of `time_class`

  struct Note {
    int64_t pitch, time, level;
  };
  void read(const History& history, State& state) const {
    state = {};
    std::vector<Note> notes;
    int64_t time = 0, level = 0;
    for (int64_t n = std::max<int64_t>(history.count - 1 - history.position, 0); n < history.count; n++) {
      const int64_t id = history.ids[n];
      time += steps[id];
      if (level_of[id] > 0) level = level_of[id];
      if (starts[id] >= 0) notes.push_back({starts[id], time, level});
    }
    const int64_t last = static_cast<int64_t>(notes.size()) - 1;
    int64_t best = 0, best_lag = 1;
    for (int64_t lag = 1; lag <= std::min(last, FARTHEST); lag++) {
      int64_t run = 0;
      while (run < MOST_NOTES && last - run >= lag &&
             notes[last - run].pitch == notes[last - run - lag].pitch)
        run++;
      if (run > best) best = run, best_lag = lag;
    }
    int64_t length = 0;
    while (length < CLASSES - 1 && best >= LENGTHS[length]) length++;
    if (!length) return;
    const Note& predicted = notes[last + 1 - best_lag];
    const int64_t gap = predicted.time - notes[last - best_lag].time;
    state.pitch = predicted.pitch;
    state.steps = std::max<int64_t>(gap - (time - notes[last].time), 0);
    state.level = predicted.level;
    const int64_t ids[] = {start_id[state.pitch], step_id[std::min(state.steps, longest)],
                           level_id[state.level]};
    std::copy_n(ids, 3, state.ids);
    std::fill_n(state.confidence, 3, length);
  }
  void embed(const History&, const State& state, float* x, int64_t width) const {
    if (!state.confidence[0]) return;
    add(x, in_pitch + state.pitch * width, width);
    add(x, in_level + state.level * width, width);
    add(x, in_steps + time_class[std::min(state.steps, times - 1)] * width, width);
    add(x, in_length + state.confidence[0] * width, width);
  }
};

}  // namespace
