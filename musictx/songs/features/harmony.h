// For one new id what harmony.py computes, and what it is compared with.
#pragma once
#include <cmath>

#include "group_keys.h"

namespace {

struct Harmony : Feature {
  // As constants of harmony.py.
  static constexpr int64_t CLASSES = 12, NO_ROOT = 12, STRETCHES = 4, HALF = 48;
  static constexpr int64_t HIDDEN = 32;
  enum Next : int64_t { OTHER, ROOT, QUALITY, PITCH };

  struct Seen {
    float ahead[STRETCHES * CLASSES] = {};
    int64_t root = NO_ROOT, quality = 0, begun = NO_ROOT, next = OTHER;
  };
  // The weights of `Turned`; its map of the state is in `scores`, that of chords first.
  struct Turned {
    const float *ahead, *bias, *chord, *out;
  };
  GroupTable of;
  const int64_t *is_chord, *steps, *quality_of;  // by id
  const int64_t* pitch_class;  // of each pitch
  const float *classes, *chords;
  Turned of_chord, of_note;
  int64_t first_root, first_quality, qualities, first_pitch, pitches;

  bool pitched(const int64_t* group) const {
    const int64_t part = of.part[group[1]];
    return of.place[group[0]] > 0 && part > 0 && part != DRUM_PART;
  }
  bool chord(const int64_t* group) const { return is_chord[group[1]] && of.place[group[0]] > 0; }
  int64_t half(const int64_t* group) const {
    return std::max<int64_t>(of.place[group[0]] - 1, 0) / HALF;
  }
  void read(const History& row, Seen& seen) const {
    const Groups groups(of, row);
    seen = {};
    const int64_t* written = groups.at(groups.whole);
    if (groups.field == 2)
      seen.next = chord(written) ? ROOT : pitched(written) ? PITCH : OTHER;
    if (groups.field == 3 && chord(written)) {
      seen.next = QUALITY;
      seen.begun = of.tone[written[2]];
    }
    int64_t k = groups.whole - 1;
    while (k >= 0 && (groups.each[k].other || !chord(groups.at(k)))) k--;
    if (k >= 0) {
      seen.root = of.tone[groups.at(k)[2]];
      seen.quality = quality_of[groups.at(k)[3]];
    }
    if (groups.whole) look(groups, seen);
  }
  // The given notes of this half of the bar, of the rest of the bar, of the bar after it, and all.
  void look(const Groups& groups, Seen& seen) const {
    const std::vector<int64_t> given = groups.given();
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
    for (int64_t s = 0; s + 1 < STRETCHES; s++)
      take(groups, first_from(given, bounds[s]), first_from(given, bounds[s + 1]),
           seen.ahead + s * CLASSES);
    take(groups, 0, groups.whole, seen.ahead + (STRETCHES - 1) * CLASSES);
  }
  // The shares of the time of the given notes among groups `from` to `stop`, by pitch class.
  void take(const Groups& groups, int64_t from, int64_t stop, float* share) const {
    float sum = 0.0f;
    for (int64_t k = from; k < stop; k++)
      if (groups.each[k].ahead && pitched(groups.at(k))) {
        const float time = static_cast<float>(steps[groups.at(k)[3]]);
        share[of.tone[groups.at(k)[2]] % CLASSES] += time;
        sum += time;
      }
    for (int64_t c = 0; c < CLASSES; c++) share[c] /= std::max(sum, 1.0f);
  }
  void embed(const History&, const Seen& seen, float* x, int64_t width) const {
    add(x, chords + (seen.quality * (CLASSES + 1) + seen.root) * width, width);
    for (int64_t n = 0; n < STRETCHES * CLASSES; n++)
      for (int64_t i = 0; i < width && seen.ahead[n] != 0.0f; i++)
        x[i] += seen.ahead[n] * classes[n * width + i];
  }
  // The numbers `first` to `stop` that a network says of the pitch class `of_class`, added to `to`.
  void say(const Turned& by, const Seen& seen, const float* state, int64_t of_class, int64_t first,
           int64_t stop, float* to) const {
    const int64_t above = (of_class - seen.root % CLASSES + CLASSES) % CLASSES;
    const int64_t in_force = seen.quality * (CLASSES + 1) + (seen.root == NO_ROOT ? CLASSES : above);
    float h[HIDDEN];
    for (int64_t i = 0; i < HIDDEN; i++) {
      float sum = by.bias[i] + by.chord[in_force * HIDDEN + i] + state[i];
      const float* weights = by.ahead + i * STRETCHES * CLASSES;
      for (int64_t s = 0; s < STRETCHES; s++)
        for (int64_t c = 0; c < CLASSES; c++)
          sum += weights[s * CLASSES + c] * seen.ahead[s * CLASSES + (of_class + c) % CLASSES];
      h[i] = 0.5f * sum * (1.0f + std::erf(sum * 0.70710678f));
    }
    for (int64_t n = first; n < stop; n++)
      for (int64_t i = 0; i < HIDDEN; i++) to[n - first] += by.out[n * HIDDEN + i] * h[i];
  }
  void score(const History&, const Seen& seen, const float* scored, float* logits, int64_t) const {
    if (seen.next == ROOT)
      for (int64_t c = 0; c < CLASSES; c++)
        say(of_chord, seen, scored, c, 0, 1, logits + first_root + c);
    if (seen.next == QUALITY && seen.begun != NO_ROOT)
      say(of_chord, seen, scored, seen.begun, 1, 1 + qualities, logits + first_quality);
    if (seen.next == PITCH) {
      float by_class[CLASSES] = {};
      for (int64_t c = 0; c < CLASSES; c++)
        say(of_note, seen, scored + HIDDEN, c, 0, 1, by_class + c);
      for (int64_t p = 0; p < pitches; p++) logits[first_pitch + p] += by_class[pitch_class[p]];
    }
  }
};

}  // namespace
