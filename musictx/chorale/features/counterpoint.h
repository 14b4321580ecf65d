// What counterpoint.py computes, for one new token.
#pragma once
#include "feature.h"

namespace {

struct Counterpoint : Feature {
  static constexpr int64_t octave = 12, successions = 2 * octave * octave;
  const int64_t* pitches;
  const float *moves, *notes;  // (voices, voices - 1, successions), (voices, vocabulary)
  int64_t voices;

  void score(const History& history, const None&, const float*, float* logits, int64_t vocabulary) const {
    const auto pitch = [&](int64_t back) {
      const int64_t id = back <= history.position ? history.id_before(back) : -1;
      return id < 0 ? -1 : pitches[id];
    };
    const int64_t last = pitch(voices - 1), voice = history.position % voices;
    add(logits, notes + voice * vocabulary, vocabulary);
    for (int64_t n = 1; last >= 0 && n <= voice; n++) {
      const float* table = moves + (voice * (voices - 1) + n - 1) * successions;
      const int64_t before = pitch(n - 1 + voices), after = pitch(n - 1);
      if (before < 0 || after < 0) continue;
      const int64_t first = std::abs(before - last) % octave;
      for (int64_t id = 0; id < vocabulary; id++) {
        const int64_t motion = pitches[id] < 0 ? 0 : (pitches[id] - last) * (after - before);
        const int64_t second = std::abs(after - pitches[id]) % octave;
        if (motion) logits[id] += table[((motion > 0) * octave + first) * octave + second];
      }
    }
  }
};

}  // namespace
