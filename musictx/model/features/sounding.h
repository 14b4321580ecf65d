// What sounding.py computes, for one new token.
#pragma once
#include "pitches.h"

namespace {

struct Sounding : PitchFeature {
  // 1 + the state of each pitch, 0 for none; and the rows of the table `context`.
  struct State {
    std::vector<int64_t> pitch_states, rows;
  };
  // `scores` has rows for starts by state, for ends by state, and for chords.
  const int64_t *level_of, *resets, *state_of;  // by id, by id, by steps since the start
  const float *states, *context;
  int64_t levels, recent, times, state_count, ages;

  struct Note {
    int64_t pitch, level, time;
  };
  void read(const History& history, State& state) const {
    auto& [pitch_states, rows] = state;
    constexpr int64_t never = -1;
    std::vector<int64_t> start_time(pitches, never);
    std::vector<char> silent(pitches, 0);
    std::vector<Note> notes(std::max<int64_t>(recent, 1), Note{never, 0, 0});
    int64_t time = 0, level = 0, number = 0;
    const int64_t size = static_cast<int64_t>(notes.size());
    int64_t begin = history.count - 1;
    while (begin > 0 && !resets[history.ids[begin]]) begin--;
    for (int64_t n = begin; n < history.count; n++) {
      const int64_t id = history.ids[n];
      time += steps[id];
      if (level_of[id] > 0) level = level_of[id];
      if (starts[id] >= 0) {
        start_time[starts[id]] = time;
        silent[starts[id]] = 0;
        notes[number++ % size] = {starts[id], level, time};
      }
      if (ends[id] >= 0) silent[ends[id]] = 1;
    }
    pitch_states.assign(pitches, 0);
    for (int64_t p = 0; p < pitches; p++)
      if (start_time[p] != never)
        pitch_states[p] = state_of[std::min(time - start_time[p], ages - 1) + silent[p] * ages];
    rows.assign(1, level);
    int64_t next_time = time, first = levels + times;
    for (int64_t back = 0; back < size; back++) {
      const bool exists = number > back;
      const Note note = exists ? notes[(number - 1 - back) % size] : Note{never, 0, 0};
      const int64_t gap = time_class[exists ? std::min(next_time - note.time, longest - 1) : longest - 1];
      next_time = note.time;
      if (back == 0) rows.push_back(levels + gap);
      if (back < recent) {
        rows.insert(rows.end(), {first + note.pitch + 1, first + pitches + 1 + note.level,
                                 first + pitches + 1 + levels + gap});
        first += pitches + 1 + levels + times;
      }
    }
  }
  void embed(const History&, const State& state, float* x, int64_t width) const {
    for (int64_t p = 0; p < pitches; p++)
      if (const int64_t s = state.pitch_states[p])
        add(x, states + (p * state_count + s - 1) * width, width);
    for (const int64_t row : state.rows) add(x, context + row * width, width);
  }
  // `products`: the score of each state for starts, then for ends, and the weight of each chord.
  void score(const History&, const State& state, const float* products, float* logits,
             int64_t vocabulary) const {
    std::vector<float> scores(2 * pitches + 1, 0.0f);
    for (int64_t p = 0; p < pitches; p++)
      if (const int64_t s = state.pitch_states[p]) {
        scores[p] = products[s - 1];
        scores[pitches + p] = products[state_count + s - 1];
      }
    add_interval_scores(products + 2 * state_count, state.pitch_states, scores.data());
    for (int64_t id = 0; id < vocabulary; id++) logits[id] += scores[candidates[id]];
  }
};

}  // namespace
