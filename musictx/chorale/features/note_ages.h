// What note_ages.py computes, for one new token.
#pragma once
#include "feature.h"

namespace {

struct NoteAges : Feature {
  const float *inputs, *outputs;  // (next voice, voice back, age; width)
  int64_t voices, most;

  int64_t age(const History& past, int64_t lag) const {
    const int64_t place = past.place - lag;
    if (place <= 0 || lag >= past.count) return 0;
    int64_t run = 0;
    for (int64_t n = lag; run < most && past.place - n > voices && n + voices < past.count;
         n += voices, run++)
      if (past.back(n) != past.back(n + voices)) break;
    return std::min(run + 1, most);
  }
  void add_to(const float* table, const History& past, float* x, int64_t width) const {
    for (int64_t lag = 0; lag < voices; lag++) {
      const int64_t row = (past.place % voices * voices + lag) * (most + 1) + age(past, lag);
      add(x, table + row * width, width);
    }
  }
  void embed(const History& past, const None&, float* x, int64_t width) const {
    add_to(inputs, past, x, width);
  }
  void add_to_output(const History& past, const None&, float* x, int64_t width) const {
    add_to(outputs, past, x, width);
  }
};

}  // namespace
