// What the network is told of the ids so far, for one new token: model/features says what each means
// and is what this is compared with. Everything is read off the ids anew, oldest first: a thousand of
// them take microseconds, and nothing has to be kept when rows are dropped, copied or cut.
#pragma once
#include <vector>

#include "matrix.h"

namespace {

// Ids of one row that are held, oldest first, the new one last; it stands at place `place`.
struct Known {
  const int64_t* ids;
  int64_t count, place;

  int64_t back(int64_t n) const { return n < count ? ids[count - 1 - n] : -1; }
};

inline void add(float* x, const float* more, int64_t width) {
  for (int64_t i = 0; i < width; i++) x[i] += more[i];
}

struct Intervals {
  const int64_t *pitches, *input_lags, *output_lags;
  const float* inputs;  // (input lags, rows, width)
  Matrix outputs;       // output lags x rows
  int64_t input_count, output_count, span;

  int64_t rows() const { return 2 * span + 2; }
  int64_t pitch(const Known& known, int64_t back) const {
    const int64_t id = back <= known.place ? known.back(back) : -1;
    return id < 0 ? -1 : pitches[id];
  }
  int64_t row(int64_t later, int64_t earlier) const {
    return later < 0 || earlier < 0 ? 0 : later - earlier + span + 1;
  }
  void embed(const Known& known, float* x, int64_t width) const {
    const int64_t here = pitch(known, 0);
    for (int64_t n = 0; n < input_count; n++) {
      const int64_t which = row(here, pitch(known, input_lags[n]));
      add(x, inputs + (n * rows() + which) * width, width);
    }
  }
  void score(const Known& known, const float* scores, float* logits, int64_t vocabulary) const {
    for (int64_t n = 0; n < output_count; n++) {
      const int64_t then = pitch(known, output_lags[n] - 1);
      for (int64_t id = 0; id < vocabulary; id++) {
        const int64_t which = row(pitches[id], then);
        if (which > 0) logits[id] += scores[n * rows() + which];
      }
    }
  }
};

struct NoteAges {
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
};

struct Match {
  int64_t id, steps;
};

struct Repeats {
  const int64_t* pitches;
  const float *lengths, *intervals;  // (2, classes, width), (2, 2 span + 2, width)
  Matrix scores;                     // 2 x classes
  int64_t voices, span, classes, most;
  int64_t shortest[2], changes[2];  // for all voices; for the next voice alone

  Match longest(const Known& known, int own) const {
    const int64_t stride = own ? voices : 1, end = known.count - 1 - (own ? voices - 1 : 0);
    const int64_t begin = std::max<int64_t>(end - most * voices, 0);
    const int64_t* ids = known.ids;
    const auto place = [&](int64_t n) { return known.place - (known.count - 1 - n); };
    int64_t best = 0, lag_of = voices;
    for (int64_t lag = voices; lag <= std::max(known.count, voices); lag += voices) {
      int64_t n = end;
      while (n >= begin && n >= lag && place(n) > lag && ids[n] == ids[n - lag]) n -= stride;
      const int64_t run = std::min(end - n, most * voices);
      if (run > best) best = run, lag_of = lag;
    }
    int64_t moved = 0;
    for (int64_t n = end; n > end - best; n -= stride)
      moved += n >= voices && ids[n] != ids[n - voices];
    if (best < shortest[own] * voices || moved < changes[own]) return {0, 0};
    return {ids[known.count - lag_of], best / voices};
  }
  int64_t length_class(int64_t steps) const {
    int64_t found = 0;
    while (found < classes - 1 && steps >= int64_t{1} << found) found++;
    return found;
  }
  void embed(const Known& known, const Match* matches, float* x, int64_t width) const {
    const int64_t last = known.place < voices ? -1 : known.back(voices - 1);
    const int64_t old = last < 0 ? -1 : pitches[last];
    for (int own = 0; own < 2; own++) {
      const auto [id, steps] = matches[own];
      add(x, lengths + (own * classes + length_class(steps)) * width, width);
      const int64_t then = pitches[id];
      const int64_t row = then < 0 || old < 0 ? 0 : then - old + span + 1;
      if (steps > 0) add(x, intervals + (own * (2 * span + 2) + row) * width, width);
    }
  }
  void score(const Match* matches, const float* scored, float* logits) const {
    for (int own = 0; own < 2; own++) {
      const auto [id, steps] = matches[own];
      if (steps > 0) logits[id] += scored[own * classes + length_class(steps)];
    }
  }
};

// Adds to `to` (pitches) what the intervals to pitches in a `state` say. The chords, weighted by
// `wanted`, become one number for each interval; then what is known of each pitch is added up.
inline void by_interval(const float* maps, const float* wanted, int64_t kinds, int64_t chords,
                        const std::vector<int64_t>& state, const int64_t* kind_of, float* to) {
  const int64_t pitches = static_cast<int64_t>(state.size()), apart = 2 * pitches - 1;
  std::vector<float> sums(kinds * apart, 0.0f);
  for (int64_t kind = 0; kind < kinds; kind++)
    for (int64_t c = 0; c < chords; c++) {
      const float* map = maps + (kind * chords + c) * apart;
      for (int64_t d = 0; d < apart; d++) sums[kind * apart + d] += wanted[c] * map[d];
    }
  for (int64_t from = 0; from < pitches; from++)
    if (state[from] > 0 && kind_of[state[from]] >= 0)
      add(to, sums.data() + kind_of[state[from]] * apart + pitches - 1 - from, pitches);
}

struct Counterpoint {
  static constexpr int64_t octave = 12, successions = 2 * octave * octave;
  const int64_t* pitches;
  const float *scores, *notes;  // (voices, voices - 1, successions), (voices, vocabulary)
  int64_t voices;

  void score(const Known& known, float* logits, int64_t vocabulary) const {
    const auto pitch = [&](int64_t back) {
      const int64_t id = back <= known.place ? known.back(back) : -1;
      return id < 0 ? -1 : pitches[id];
    };
    const int64_t own = pitch(voices - 1), voice = known.place % voices;
    add(logits, notes + voice * vocabulary, vocabulary);
    for (int64_t n = 1; own >= 0 && n <= voice; n++) {
      const float* scored = scores + (voice * (voices - 1) + n - 1) * successions;
      const int64_t before = pitch(n - 1 + voices), after = pitch(n - 1);
      if (before < 0 || after < 0) continue;
      const int64_t then = std::abs(before - own) % octave;
      for (int64_t id = 0; id < vocabulary; id++) {
        const int64_t motion = pitches[id] < 0 ? 0 : (pitches[id] - own) * (after - before);
        const int64_t interval = std::abs(after - pitches[id]) % octave;
        if (motion) logits[id] += scored[((motion > 0) * octave + then) * octave + interval];
      }
    }
  }
};

struct Sounding {
  const int64_t *steps, *starts, *ends, *loud, *resets;  // by id
  const int64_t *state_of, *time_class, *candidates;  // by age, by time, by id
  const int64_t* kind_of;                             // by state, from 1
  const float *states, *context, *maps;  // maps (kinds, chords, 2 pitches - 1); may be missing
  Matrix scores;                         // of starts, of ends by state; of chords
  int64_t pitches, levels, times, recent, kinds, chords, state_count, ages, longest;

  struct Note {
    int64_t pitch, level, time;
  };
  // The state of each pitch, 0 or 1 + the state, and the rows of the table `context`.
  void read(const Known& known, std::vector<int64_t>& state, std::vector<int64_t>& rows) const {
    constexpr int64_t never = -1;
    std::vector<int64_t> struck(pitches, never);
    std::vector<char> silent(pitches, 0);
    std::vector<Note> notes(std::max<int64_t>(recent, 1), Note{never, 0, 0});
    int64_t time = 0, level = 0, number = 0;
    const int64_t size = static_cast<int64_t>(notes.size());
    int64_t begin = known.count - 1;
    while (begin > 0 && !resets[known.ids[begin]]) begin--;
    for (int64_t n = begin; n < known.count; n++) {
      const int64_t id = known.ids[n];
      time += steps[id];
      if (loud[id] > 0) level = loud[id];
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
  void embed(const std::vector<int64_t>& state, const std::vector<int64_t>& rows, float* x,
             int64_t width) const {
    for (int64_t p = 0; p < pitches; p++)
      if (state[p] > 0) add(x, states + (p * state_count + state[p] - 1) * width, width);
    for (const int64_t row : rows) add(x, context + row * width, width);
  }
  // `scored`: what x says of each state of starts, of ends, and of each chord.
  void score(const std::vector<int64_t>& state, const float* scored, float* logits,
             int64_t vocabulary) const {
    std::vector<float> both(2 * pitches + 1, 0.0f);
    for (int64_t p = 0; p < pitches; p++)
      if (state[p] > 0) {
        both[p] = scored[state[p] - 1];
        both[pitches + p] = scored[state_count + state[p] - 1];
      }
    if (maps)
      by_interval(maps, scored + 2 * state_count, kinds, chords, state, kind_of, both.data());
    for (int64_t id = 0; id < vocabulary; id++) logits[id] += both[candidates[id]];
  }
};

// What is asked for and what is known ahead, for one token.
struct Asked {
  std::vector<int64_t> rows, starts, ends;
  int64_t gap;
};

struct Conditions {
  const int64_t *steps, *starts, *ends, *candidates, *part, *control, *row;  // by id
  const int64_t* first_rows;                                                 // by control
  const int64_t *start_class, *end_class, *time_class;                       // by time
  const int64_t* kind_of;                                                    // by state of starts
  const float *context, *coming, *ending, *maps;                             // maps may be missing
  Matrix scores;  // of starts, of ends by state; of the exact shift and those past it; of chords
  int64_t pitches, controls, first_time, kinds, chords, start_count, end_count, longest_start,
      longest_end, longest, longest_shift, never;

  enum Part : int64_t { NOWHERE, KNOWN, STREAM, HERE };

  void read(const Known& known, Asked& asked) const {
    const int64_t begin = std::max<int64_t>(known.count - 1 - known.place, 0);
    const int64_t* ids = known.ids;
    int64_t at[4] = {-1, -1, -1, -1}, time_at[4] = {0, 0, 0, 0}, time = 0;
    asked.rows.assign(first_rows, first_rows + controls);
    for (int64_t n = begin; n < known.count; n++) {
      const int64_t id = ids[n];
      time += steps[id];
      if (control[id] >= 0) asked.rows[control[id]] = row[id];
      if (part[id]) at[part[id]] = n, time_at[part[id]] = time;
    }
    const bool here = at[STREAM] >= 0 && at[HERE] > at[STREAM];
    asked.rows.push_back(here                          ? HERE
                         : at[STREAM] > at[KNOWN] ? STREAM
                         : at[KNOWN] > at[STREAM] ? KNOWN
                                                  : NOWHERE);
    asked.starts.assign(pitches, 0);
    asked.ends.assign(pitches, 0);
    asked.gap = never;
    if (here && at[KNOWN] >= 0 && at[KNOWN] < at[STREAM]) {
      const int64_t moment = time - time_at[HERE];  // on the clock of the known notes
      // What is written of this step begins after the last shift of time.
      std::vector<char> struck(pitches, 0), ended(pitches, 0);
      for (int64_t n = known.count - 1; n > at[HERE] && !steps[ids[n]]; n--) {
        if (starts[ids[n]] >= 0) struck[starts[ids[n]]] = 1;
        if (ends[ids[n]] >= 0) ended[ends[ids[n]]] = 1;
      }
      int64_t then = 0;
      for (int64_t n = at[KNOWN] + 1; n < at[STREAM]; n++) {
        const int64_t id = ids[n];
        then += steps[id];
        const auto note = [&](int64_t pitch, const std::vector<char>& written,
                              std::vector<int64_t>& found, const int64_t* classes, int64_t most) {
          if (pitch < 0 || found[pitch] || then < moment + written[pitch]) return;
          found[pitch] = 1 + classes[std::min(then - moment, most - 1)];
          asked.gap = std::min(asked.gap, then - moment);
        };
        note(starts[id], struck, asked.starts, start_class, longest_start);
        note(ends[id], ended, asked.ends, end_class, longest_end);
      }
    }
    asked.rows.push_back(first_time + time_class[std::min(asked.gap, longest - 1)]);
  }
  void embed(const Asked& asked, float* x, int64_t width) const {
    for (const int64_t which : asked.rows) add(x, context + which * width, width);
    for (int64_t p = 0; p < pitches; p++) {
      if (const int64_t s = asked.starts[p])
        add(x, coming + (p * start_count + s - 1) * width, width);
      if (const int64_t s = asked.ends[p]) add(x, ending + (p * end_count + s - 1) * width, width);
    }
  }
  void score(const Asked& asked, const float* scored, float* logits, int64_t vocabulary) const {
    if (asked.gap == never) return;
    const float *of_ends = scored + start_count, *of_shifts = of_ends + end_count;
    std::vector<float> both(2 * pitches + 1, 0.0f);
    for (int64_t p = 0; p < pitches; p++) {
      if (asked.starts[p]) both[p] = scored[asked.starts[p] - 1];
      if (asked.ends[p]) both[pitches + p] = of_ends[asked.ends[p] - 1];
    }
    if (maps)
      by_interval(maps, of_shifts + 2, kinds, chords, asked.starts, kind_of, both.data());
    const int64_t exact = std::min(asked.gap, longest_shift);
    for (int64_t id = 0; id < vocabulary; id++) {
      logits[id] += both[candidates[id]];
      if (steps[id] > 0 && steps[id] == exact) logits[id] += of_shifts[0];
      if (steps[id] > asked.gap) logits[id] += of_shifts[1];
    }
  }
};

struct Calibration {
  static constexpr int64_t EOS = 2;  // as in tokens/vocab.py
  const float *scale, *hold, *end;   // the first two by place, `kinds` in turn
  int64_t voices, kinds;

  void score(const Known& known, float* logits, int64_t vocabulary) const {
    const int64_t kind = known.place % kinds;
    for (int64_t id = 0; id < vocabulary; id++) logits[id] *= scale[kind];
    const int64_t last = known.place < voices ? -1 : known.back(voices - 1);
    if (last >= 0) logits[last] += hold[kind];
    logits[EOS] += *end;
  }
};

}  // namespace
