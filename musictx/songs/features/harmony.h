// What harmony.py computes, for one new id.
#pragma once
#include <cmath>

#include "group_keys.h"

namespace {

struct Harmony : Feature {
  // As constants of harmony.py.
  static constexpr int64_t CLASSES = 12, NO_ROOT = 12, STRETCHES = 4, HALF = 48;
  static constexpr int64_t HIDDEN = 32;
  enum Kind : int64_t { OTHER, ROOT, QUALITY, PITCH };

  struct State {
    float shares[STRETCHES * CLASSES] = {};
    int64_t root = NO_ROOT, quality = 0, new_root = NO_ROOT, next_kind = OTHER;
  };
  // The weights of `TransposedMLP`, without `state`: these are in `scores`, those of `of_chord` first.
  struct TransposedMLP {
    const float *ahead, *bias, *chord, *out;
  };
  GroupTable table;
  const int64_t *is_chord, *steps, *quality_of;  // by id
  const int64_t* pitch_class;  // of each pitch
  const float *classes, *chords;
  TransposedMLP of_chord, of_note;
  int64_t first_root, first_quality, qualities, first_pitch, pitches;

  bool is_pitched(const int64_t* group) const {
    const int64_t part = table.part[group[1]];
    return table.place[group[0]] > 0 && part > 0 && part != DRUM_PART;
  }
  bool is_chord_group(const int64_t* group) const { return is_chord[group[1]] && table.place[group[0]] > 0; }
  int64_t half(const int64_t* group) const {
    return std::max<int64_t>(table.place[group[0]] - 1, 0) / HALF;
  }
  void read(const History& history, State& state) const {
    const Groups groups(table, history);
    state = {};
    const int64_t* current = groups.at(groups.count);
    if (groups.field == 2)
      state.next_kind = is_chord_group(current) ? ROOT : is_pitched(current) ? PITCH : OTHER;
    if (groups.field == 3 && is_chord_group(current)) {
      state.next_kind = QUALITY;
      state.new_root = table.tone[current[2]];
    }
    int64_t k = groups.count - 1;
    while (k >= 0 && (groups.properties[k].is_outside || !is_chord_group(groups.at(k)))) k--;
    if (k >= 0) {
      state.root = table.tone[groups.at(k)[2]];
      state.quality = quality_of[groups.at(k)[3]];
    }
    if (groups.count) read_shares(groups, state);
  }
  // The shares of the given notes of this half bar, of the rest of the bar, of the bar after it, and of all.
  void read_shares(const Groups& groups, State& state) const {
    const std::vector<int64_t> given = groups.given_keys();
    const int64_t last = groups.count - 1;
    int64_t bar = groups.properties[last].bar, current_half = 0;
    if (groups.field) {
      bar += groups.is_line(groups.count);
      current_half = half(groups.at(groups.count));
    } else if (!groups.properties[last].is_outside) {
      current_half = half(groups.at(last));
    }
    const int64_t place = PARTS * TONES, end = (bar + 1) * BAR;
    const int64_t begin = bar * BAR + (current_half * HALF + 1) * place;
    const int64_t bounds[] = {begin, std::min(begin + HALF * place, end), end, end + BAR};
    for (int64_t s = 0; s + 1 < STRETCHES; s++)
      add_shares(groups, first_from(given, bounds[s]), first_from(given, bounds[s + 1]),
                 state.shares + s * CLASSES);
    add_shares(groups, 0, groups.count, state.shares + (STRETCHES - 1) * CLASSES);
  }
  // The shares of the time of the given notes among groups `begin` to `stop` - 1, by pitch class.
  void add_shares(const Groups& groups, int64_t begin, int64_t stop, float* shares) const {
    float sum = 0.0f;
    for (int64_t k = begin; k < stop; k++)
      if (groups.properties[k].is_ahead && is_pitched(groups.at(k))) {
        const float time = static_cast<float>(steps[groups.at(k)[3]]);
        shares[table.tone[groups.at(k)[2]] % CLASSES] += time;
        sum += time;
      }
    for (int64_t c = 0; c < CLASSES; c++) shares[c] /= std::max(sum, 1.0f);
  }
  void embed(const History&, const State& state, float* x, int64_t width) const {
    add(x, chords + (state.quality * (CLASSES + 1) + state.root) * width, width);
    for (int64_t n = 0; n < STRETCHES * CLASSES; n++)
      for (int64_t i = 0; i < width && state.shares[n] != 0.0f; i++)
        x[i] += state.shares[n] * classes[n * width + i];
  }
  // Adds to `out` the outputs `first` to `stop` - 1 of `network` for the pitch class `candidate`. `products` is its part of
  // the product of `scores` and the output of the layers.
  void add_outputs(const TransposedMLP& network, const State& state, const float* products,
                   int64_t candidate, int64_t first, int64_t stop, float* out) const {
    const int64_t interval = (candidate - state.root % CLASSES + CLASSES) % CLASSES;
    const int64_t chord = state.quality * (CLASSES + 1) + (state.root == NO_ROOT ? CLASSES : interval);
    float h[HIDDEN];
    for (int64_t i = 0; i < HIDDEN; i++) {
      float sum = network.bias[i] + network.chord[chord * HIDDEN + i] + products[i];
      const float* weights = network.ahead + i * STRETCHES * CLASSES;
      for (int64_t s = 0; s < STRETCHES; s++)
        for (int64_t c = 0; c < CLASSES; c++)
          sum += weights[s * CLASSES + c] * state.shares[s * CLASSES + (candidate + c) % CLASSES];
      h[i] = 0.5f * sum * (1.0f + std::erf(sum * 0.70710678f));
    }
    for (int64_t n = first; n < stop; n++)
      for (int64_t i = 0; i < HIDDEN; i++) out[n - first] += network.out[n * HIDDEN + i] * h[i];
  }
  void score(const History&, const State& state, const float* products, float* logits, int64_t) const {
    if (state.next_kind == ROOT)
      for (int64_t c = 0; c < CLASSES; c++)
        add_outputs(of_chord, state, products, c, 0, 1, logits + first_root + c);
    if (state.next_kind == QUALITY && state.new_root != NO_ROOT)
      add_outputs(of_chord, state, products, state.new_root, 1, 1 + qualities, logits + first_quality);
    if (state.next_kind == PITCH) {
      float class_scores[CLASSES] = {};
      for (int64_t c = 0; c < CLASSES; c++)
        add_outputs(of_note, state, products + HIDDEN, c, 0, 1, class_scores + c);
      for (int64_t p = 0; p < pitches; p++) logits[first_pitch + p] += class_scores[pitch_class[p]];
    }
  }
};

}  // namespace
