// What motif_memory.py computes, for one new token.
#pragma once
#include <algorithm>

#include "predicted.h"

namespace {

struct Echoes : Predicted {
  // The constants of motif_memory.py.
  static constexpr int64_t LENGTHS[] = {3, 4, 6, 8, 12, 16, 32}, CLASSES = 8;
  static constexpr int64_t MOST_NOTES = 32, FARTHEST = 1024;

  struct Seen : Predictions<3> {
    int64_t pitch = 0, steps = 0, level = 0;
  };
  const int64_t *steps, *starts, *level_of;  // by id
  const int64_t* time_class;
  const int64_t *start_id, *step_id, *level_id;  // by pitch, steps, level
  const float *in_length, *in_pitch, *in_steps, *in_level;
  int64_t longest, times;

  struct Note {
    int64_t pitch, time, level;
  };
  void read(const History& past, Seen& seen) const {
    seen = {};
    std::vector<Note> notes;
    int64_t time = 0, level = 0;
    for (int64_t n = std::max<int64_t>(past.count - 1 - past.place, 0); n < past.count; n++) {
      const int64_t id = past.ids[n];
      time += steps[id];
      if (level_of[id] > 0) level = level_of[id];
      if (starts[id] >= 0) notes.push_back({starts[id], time, level});
    }
    const int64_t last = static_cast<int64_t>(notes.size()) - 1;
    int64_t best = 0, lag_of = 1;
    for (int64_t lag = 1; lag <= std::min(last, FARTHEST); lag++) {
      int64_t run = 0;
      while (run < MOST_NOTES && last - run >= lag &&
             notes[last - run].pitch == notes[last - run - lag].pitch)
        run++;
      if (run > best) best = run, lag_of = lag;
    }
    int64_t length = 0;
    while (length < CLASSES - 1 && best >= LENGTHS[length]) length++;
    if (!length) return;
    const Note& then = notes[last + 1 - lag_of];
    const int64_t gap = then.time - notes[last - lag_of].time;
    seen.pitch = then.pitch;
    seen.steps = std::max<int64_t>(gap - (time - notes[last].time), 0);
    seen.level = then.level;
    const int64_t ids[] = {start_id[seen.pitch], step_id[std::min(seen.steps, longest)],
                           level_id[seen.level]};
    std::copy_n(ids, 3, seen.ids);
    std::fill_n(seen.trust, 3, length);
  }
  void embed(const History&, const Seen& seen, float* x, int64_t width) const {
    if (!seen.trust[0]) return;
    add(x, in_pitch + seen.pitch * width, width);
    add(x, in_level + seen.level * width, width);
    add(x, in_steps + time_class[std::min(seen.steps, times - 1)] * width, width);
    add(x, in_length + seen.trust[0] * width, width);
  }
};

}  // namespace
