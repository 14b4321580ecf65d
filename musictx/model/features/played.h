// For one new id what played.py computes, and what it is compared with.
#pragma once
#include <cmath>

#include "group_keys.h"

namespace {

struct Played : Feature {
  // As constants of played.py.
  static constexpr int64_t BAR_STEPS = 192, LONGEST_WAIT = 384, WAITS = LONGEST_WAIT + 2;
  static constexpr int64_t NOTES = 16, NEAR = 4, KINDS = 3, ENDS = 2;
  enum State : int64_t { SOUNDS, NOW, LATELY };

  struct Seen {
    int64_t field = 0, base = 0, since = 0, wait = 0, count = 0;
    int64_t pitch[NOTES] = {}, state[NOTES] = {}, until[NOTES] = {}, shared[NOTES] = {};
  };
  // scores: by wait, by note and kind of end, by note and interval, by weighting
  GroupTable of;
  const int64_t* steps;  // by id
  const float *waits, *sounds, *intervals;
  int64_t first_place, bar_id, first_length, longest, first_pitch, pitches, low, chords;

  bool is_note(const Groups& groups, int64_t k) const {
    const int64_t* group = groups.at(k);
    return of.place[group[0]] > 0 && of.part[group[1]] > 0 && !groups.each[k].other;
  }
  void read(const Known& known, Seen& seen) const {
    const Groups groups(of, known);
    seen = {};
    seen.field = groups.field;
    const int64_t last = groups.whole - 1, bar = groups.whole ? groups.each[last].bar : 0;
    const auto step = [&](int64_t k) {
      const int64_t place = is_note(groups, k) ? of.place[groups.at(k)[0]] - 1 : 0;
      return groups.each[k].bar * BAR_STEPS + place;
    };
    const int64_t now = groups.whole ? step(last) : 0;
    int64_t begun[NOTES] = {}, end[NOTES] = {};
    for (int64_t k = last; k >= 0 && seen.count < NOTES; k--) {
      if (!is_note(groups, k)) continue;
      const int64_t n = seen.count++;
      seen.pitch[n] = of.tone[groups.at(k)[2]] - low;
      begun[n] = step(k);
      end[n] = begun[n] + steps[groups.at(k)[3]];
    }
    seen.base = now - bar * BAR_STEPS;
    seen.since = seen.count ? std::max<int64_t>(now - begun[0], 0) : 0;
    const int64_t place = groups.field ? of.place[groups.at(groups.whole)[0]] : 0;
    const int64_t here = bar * BAR_STEPS + place - 1;
    const bool ahead = groups.whole && groups.each[last].ahead;
    if (groups.field == 1 && place && !ahead)
      seen.wait = std::clamp<int64_t>(here - now + seen.since, 0, LONGEST_WAIT) + 1;
    for (int64_t n = 0; n < seen.count; n++) {
      seen.until[n] = place ? std::max<int64_t>(end[n] - here, 0) : 0;
      for (int64_t m = 0; m < seen.count; m++) seen.shared[n] |= m != n && end[m] == end[n];
      seen.state[n] = begun[n] == here ? NOW : seen.until[n] ? SOUNDS : LATELY;
    }
  }
  void embed(const Known&, const Seen& seen, float* x, int64_t width) const {
    if (!seen.wait) return;
    for (int64_t n = 0; n < seen.count; n++)
      add(x, sounds + (seen.state[n] * pitches + seen.pitch[n]) * width, width);
    add(x, waits + seen.wait * width, width);
  }
  void score(const Known&, const Seen& seen, const float* scored, float* logits, int64_t) const {
    if (seen.field == 0) place(seen, scored, logits);
    const float* of_end = scored + WAITS;
    const float* of_interval = of_end + NOTES * ENDS;
    if (seen.field == 2) pitched(seen, of_interval, logits + first_pitch);
    for (int64_t n = 0; n < seen.count && seen.field == 3; n++)
      if (seen.until[n])
        logits[first_length + std::min(seen.until[n], longest) - 1] +=
            of_end[n * ENDS + seen.shared[n]];
  }
  void place(const Seen& seen, const float* of_wait, float* logits) const {
    for (int64_t p = 0; p < BAR_STEPS; p++) {
      const int64_t wait = std::min(p - seen.base + seen.since, LONGEST_WAIT);
      logits[first_place + p] += of_wait[p < seen.base ? WAITS - 1 : wait];
    }
    const int64_t beyond = std::min(BAR_STEPS - seen.base + seen.since, LONGEST_WAIT);
    const float most = *std::max_element(of_wait + beyond, of_wait + WAITS - 1);
    float sum = 0.0f;
    for (int64_t w = beyond; w < WAITS - 1; w++) sum += std::exp(of_wait[w] - most);
    logits[bar_id] += most + std::log(sum);
  }
  void pitched(const Seen& seen, const float* of_interval, float* logits) const {
    const int64_t wide = 2 * pitches - 1;
    for (int64_t n = 0; n < std::min(seen.count, NEAR); n++)
      for (int64_t p = 0; p < pitches; p++)
        logits[p] += of_interval[n * wide + p - seen.pitch[n] + pitches - 1];
    // Each pitch once in each state, however many of the notes have it.
    const float* wanted = of_interval + NEAR * wide;
    std::vector<char> told(KINDS * pitches, 0);
    for (int64_t n = 0; n < seen.count; n++) {
      char& once = told[seen.state[n] * pitches + seen.pitch[n]];
      if (once) continue;
      once = 1;
      for (int64_t c = 0; c < chords; c++) {
        const float* map = intervals + (seen.state[n] * chords + c) * wide + pitches - 1;
        for (int64_t p = 0; p < pitches; p++) logits[p] += wanted[c] * map[p - seen.pitch[n]];
      }
    }
  }
};

}  // namespace
