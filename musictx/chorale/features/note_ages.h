// What note_ages.py computes, for one new token.
#pragma once
#include "feature.h"

namespace {

struct NoteAges : Feature {
  const float *inputs, *outputs;  // (next voice, voice back, age; width)
  int64_t voices, most;  // `most` is the greatest age

  // The age of the note `lag` tokens before the new one, 0 if there is none.
  int64_t age(const History& history, int64_t lag) const {
    if (history.position <= lag || lag >= history.count) return 0;
    int64_t run = 0;
    for (int64_t n = lag; run < most && history.position - n > voices && n + voices < history.count;
         n += voices, run++)
      if (history.id_before(n) != history.id_before(n + voices)) break;
    return std::min(run + 1, most);
  }
  void add_vectors(const float* table, const History& history, float* x, int64_t width) const {
    for (int64_t lag = 0; lag < voices; lag++) {
      const int64_t row = (history.position % voices * voices + lag) * (most + 1) + age(history, lag);
      add(x, table + row * width, width);
    }
  }
  void embed(const History& history, const None&, float* x, int64_t width) const {
    add_vectors(inputs, history, x, width);
  }
  void add_to_output(const History& history, const None&, float* x, int64_t width) const {
    add_vectors(outputs, history, x, width);
  }
};

}  // namespace
