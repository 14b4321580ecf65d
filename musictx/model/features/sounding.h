// What sounding.py computes, for one new token.
#pragma once
#include "pitches.h"

namespace {

struct Sounding : PitchFeature {
  // The state of each pitch, 0 or 1 + the state, and the rows of the table `context`.
  struct Seen {
    std::vector<int64_t> state, rows;
  };
  // `scores` has rows for starts by state, for ends by state, and for chords.
  const int64_t *level_of, *resets, *state_of;  // by id, by id, by steps since the start
  const float *states, *context;
  int64_t levels, recent, times, state_count, ages;

  struct Note {
    int64_t pitch, level, time;
  };
  void read(const History& past, Seen& seen) const {
    auto& [state, rows] = seen;
    constexpr int64_t never = -1;
    std::vector<int64_t> struck(pitches, never);
    std::vector<char> silent(pitches, 0);
    std::vector<Note> notes(std::max<int64_t>(recent, 1), Note{never, 0, 0});
    int64_t time = 0, level = 0, number = 0;
    const int64_t size = static_cast<int64_t>(notes.size());
    int64_t begin = past.count - 1;
    while (begin > 0 && !resets[past.ids[begin]]) begin--;
    for (int64_t n = begin; n < past.count; n++) {
      const int64_t id = past.ids[n];
      time += steps[id];
      if (level_of[id] > 0) level = level_of[id];
      if (starts[id] >= 0) {
        struck[starts[id]] = time;
        silent[starts[id]] = 0;
        notes[number++ % size] = {starts[id], level, time};
      }
      if (ends[id] >= 0) silent[ends[id]] = 1;
    }
    state.assign(pitches, 0);
    for (int64_t p = 0; p < pitches; p++)
      if (struck[p] != never)
        state[p] = state_of[std::min(time - struck[p], ages - 1) + silent[p] * ages];
    rows.assign(1, level);
    int64_t later = time, first = levels + times;
    for (int64_t back = 0; back < size; back++) {
      const bool there = number > back;
      const Note note = there ? notes[(number - 1 - back) % size] : Note{never, 0, 0};
      const int64_t gap = time_class[there ? std::min(later - note.time, longest - 1) : longest - 1];
      later = note.time;
      if (back == 0) rows.push_back(levels + gap);
      if (back < recent) {
        rows.insert(rows.end(), {first + note.pitch + 1, first + pitches + 1 + note.level,
                                 first + pitches + 1 + levels + gap});
        first += pitches + 1 + levels + times;
      }
    }
  }
  void embed(const History&, const Seen& seen, float* x, int64_t width) const {
    const auto& [state, rows] = seen;
    for (int64_t p = 0; p < pitches; p++)
      if (state[p] > 0) add(x, states + (p * state_count + state[p] - 1) * width, width);
    for (const int64_t row : rows) add(x, context + row * width, width);
  }
  // `scored`: the score of each state for starts, then for ends, and the weight of each chord.
  void score(const History&, const Seen& seen, const float* scored, float* logits,
             int64_t vocabulary) const {
    const std::vector<int64_t>& state = seen.state;
    std::vector<float> both(2 * pitches + 1, 0.0f);
    for (int64_t p = 0; p < pitches; p++)
      if (state[p] > 0) {
        both[p] = scored[state[p] - 1];
        both[pitches + p] = scored[state_count + state[p] - 1];
      }
    by_interval(scored + 2 * state_count, state, both.data());
    for (int64_t id = 0; id < vocabulary; id++) logits[id] += both[candidates[id]];
  }
};

}  // namespace
