// For one new token what note_ages.py computes, and what it is compared with.
#pragma once
#include "feature.h"

namespace {

struct NoteAges : Feature {
  const float *inputs, *outputs;  // (next voice, voice back, age; width)
  int64_t voices, most;

  int64_t age(const Known& known, int64_t lag) const {
    const int64_t place = known.place - lag;
    if (place <= 0 || lag >= known.count) return 0;
    int64_t run = 0;
    for (int64_t n = lag; run < most && known.place - n > voices && n + voices < known.count;
         n += voices, run++)
      if (known.back(n) != known.back(n + voices)) break;
    return std::min(run + 1, most);
  }
  void add_to(const float* table, const Known& known, float* x, int64_t width) const {
    for (int64_t lag = 0; lag < voices; lag++) {
      const int64_t row = (known.place % voices * voices + lag) * (most + 1) + age(known, lag);
      add(x, table + row * width, width);
    }
  }
  void embed(const Known& known, const None&, float* x, int64_t width) const {
    add_to(inputs, known, x, width);
  }
  void finish(const Known& known, const None&, float* x, int64_t width) const {
    add_to(outputs, known, x, width);
  }
};

}  // namespace
