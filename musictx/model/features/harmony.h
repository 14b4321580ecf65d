// For one new id what harmony.py computes, and what it is compared with.
#pragma once
#include "group_keys.h"

namespace {

struct Harmony : Feature {
  // As constants of harmony.py.
  static constexpr int64_t CLASSES = 12, NO_ROOT = 12, STRETCHES = 3, HALF = 48;
  enum Next : int64_t { OTHER, ROOT, QUALITY, PITCH };

  struct Seen {
    float ahead[STRETCHES * CLASSES] = {};
    int64_t root = NO_ROOT, quality = 0, begun = 0, next = OTHER;
  };
  // scores: what the known notes and the chord are worth
  GroupTable of;
  const int64_t *is_meter, *is_chord, *steps, *quality_of;  // by id
  const int64_t* pitch_class;  // of each pitch
  const float *classes, *chords;
  const float *root_by_ahead, *quality_by_ahead, *pitch_by_ahead, *root_by_chord, *pitch_by_chord;
  int64_t first_root, first_quality, qualities, first_pitch, pitches;

  bool pitched(const int64_t* group) const {
    const int64_t part = of.part[group[1]];
    return of.place[group[0]] > 0 && part > 0 && part != DRUM_PART;
  }
  int64_t half(const int64_t* group) const {
    return std::max<int64_t>(of.place[group[0]] - 1, 0) / HALF;
  }
  void read(const Known& row, Seen& seen) const {
    const Groups groups(of, row);
    seen = {};
    const int64_t* written = groups.at(groups.whole);
    if (groups.field == 2)
      seen.next = is_chord[written[1]] ? ROOT : pitched(written) ? PITCH : OTHER;
    if (groups.field == 3) {
      seen.next = is_chord[written[1]] ? QUALITY : OTHER;
      seen.begun = of.tone[written[2]];
    }
    int64_t k = groups.whole - 1;
    while (k >= 0 && (groups.each[k].other || !is_chord[groups.at(k)[1]])) k--;
    if (k >= 0) {
      seen.root = of.tone[groups.at(k)[2]];
      seen.quality = quality_of[groups.at(k)[3]];
    }
    if (groups.whole) look(groups, seen);
  }
  // The known notes of this half of the bar, of the rest of the bar, of the bar after it.
  void look(const Groups& groups, Seen& seen) const {
    const std::vector<int64_t> known = groups.known(is_meter);
    const int64_t last = groups.whole - 1;
    int64_t bar = groups.each[last].bar, here = 0;
    if (groups.field) {
      bar += groups.line(groups.whole);
      here = half(groups.at(groups.whole));
    } else if (!groups.each[last].other) {
      here = half(groups.at(last));
    }
    const int64_t wide = PARTS * TONES, end = (bar + 1) * BAR;
    const int64_t begin = bar * BAR + (here * HALF + 1) * wide;
    const int64_t bounds[] = {begin, std::min(begin + HALF * wide, end), end, end + BAR};
    for (int64_t s = 0; s < STRETCHES; s++) {
      const int64_t stop = first_from(known, bounds[s + 1]);
      float sum = 0.0f, *share = seen.ahead + s * CLASSES;
      for (int64_t k = first_from(known, bounds[s]); k < stop; k++)
        if (groups.each[k].ahead && pitched(groups.at(k))) {
          const float time = static_cast<float>(steps[groups.at(k)[3]]);
          share[of.tone[groups.at(k)[2]] % CLASSES] += time;
          sum += time;
        }
      for (int64_t c = 0; c < CLASSES; c++) share[c] /= std::max(sum, 1.0f);
    }
  }
  void embed(const Known&, const Seen& seen, float* x, int64_t width) const {
    add(x, chords + (seen.quality * (CLASSES + 1) + seen.root) * width, width);
    for (int64_t n = 0; n < STRETCHES * CLASSES; n++)
      for (int64_t i = 0; i < width && seen.ahead[n] != 0.0f; i++)
        x[i] += seen.ahead[n] * classes[n * width + i];
  }
  void score(const Known&, const Seen& seen, const float* scored, float* logits, int64_t) const {
    const float ahead = 1.0f + scored[0], chord = 1.0f + scored[1];
    // What is added to pitch class `to`, by how far others lie above it and it above the root.
    const auto worth = [&](const float* by_ahead, const float* by_chord, int64_t to) {
      float sum = 0.0f;
      for (int64_t s = 0; s < STRETCHES; s++)
        for (int64_t c = 0; c < CLASSES; c++)
          sum += seen.ahead[s * CLASSES + c] * by_ahead[s * CLASSES + (c - to + CLASSES) % CLASSES];
      const int64_t above = (to - seen.root % CLASSES + CLASSES) % CLASSES;
      const float in_force = seen.root == NO_ROOT ? 0.0f : by_chord[seen.quality * CLASSES + above];
      return ahead * sum + chord * in_force;
    };
    if (seen.next == ROOT)
      for (int64_t c = 0; c < CLASSES; c++)
        logits[first_root + c] += worth(root_by_ahead, root_by_chord, c);
    if (seen.next == QUALITY && seen.begun != NO_ROOT)
      for (int64_t s = 0; s < STRETCHES; s++)
        for (int64_t c = 0; c < CLASSES; c++) {
          const int64_t above = (c - seen.begun + CLASSES) % CLASSES;
          const float* by = quality_by_ahead + (s * CLASSES + above) * qualities;
          for (int64_t q = 0; q < qualities; q++)
            logits[first_quality + q] += ahead * seen.ahead[s * CLASSES + c] * by[q];
        }
    if (seen.next == PITCH) {
      float by_class[CLASSES];
      for (int64_t c = 0; c < CLASSES; c++) by_class[c] = worth(pitch_by_ahead, pitch_by_chord, c);
      for (int64_t p = 0; p < pitches; p++) logits[first_pitch + p] += by_class[pitch_class[p]];
    }
  }
};

}  // namespace
