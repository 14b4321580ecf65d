// Attention of one new token over the tokens held, with every term that a position scheme can have
// (attention/terms.py says what they mean).
//
// The cache is a ring: the token at position p stands in slot p mod capacity. Keys lie in panels of 64
// slots and values one group of slots after the other, so the logits of 64 slots, the logits of 64
// distances and the channels of the mean are each lanes of the same product (lanes.h). The slots that a
// query sees are one or two runs of neighbours; on each the distance falls by one from slot to slot.
#pragma once
#include <type_traits>
#include <vector>

#include "matrix.h"

namespace {

constexpr int64_t CHANNELS = 16;  // values are filled up to a multiple of so many
constexpr int64_t NOT_MEASURED = INT64_MIN;  // the coordinate of a key that an axis passes over

struct Axis {
  const uint32_t* table;  // for each head, or one: panels of the distances; may be missing
  const float* bias;  // (heads or 1, distances); may be missing
  const float* scales;  // of a table of bytes (heads or 1, distances filled up to panels); else missing
  int64_t table_heads, bias_heads, low, high;
  int64_t coordinate;  // which of the cache's, -1: the order of tokens

  int64_t row(int64_t distance) const { return std::clamp(distance, low, high) - low; }
};

struct Terms {
  const Axis* axes;
  const float *content_bias, *position_bias;  // (heads, size); may be missing
  const uint32_t* value_table;  // float32 (value_heads, distances of the first axis, channels); may be missing
  double scale;
  int64_t count, value_heads;
  int64_t block;  // the length of local attention's blocks, 0: none
};

struct Run {
  int64_t begin, end, base;  // slots; the distance of slot s is base - s
};

// What is held: `held` tokens, the newest at position `newest`. A token is one id, or a group of them: then
// it is read with the first of its row of ids (songs/grouped.py), of which `field` + 1 are there.
struct Cache {
  // As words of a format, Float32 or Bytes: (layers, rows, heads, panels, groups of the size, 64) and
  // (layers, rows, heads, groups of the capacity, channels).
  uint32_t *keys, *values;
  float *key_scales, *value_scales;  // of Bytes (layers, rows, heads, slots); else missing
  int64_t *ids, *coordinates;  // (rows, capacity, group), (rows, further, capacity)
  float *states, *sums;  // (rows, width): after the last id; what the next token gets of this row's ids
  int64_t rows, layers, heads, size, capacity, further, newest, held;
  int64_t group, field;
  int64_t shared;  // tokens at positions before this are the same in all rows

  int64_t channels() const { return (size + CHANNELS - 1) / CHANNELS * CHANNELS; }
  int64_t slots() const { return (capacity + LANES - 1) / LANES * LANES; }
  int64_t head(int64_t layer, int64_t row, int64_t head) const {
    return (layer * rows + row) * heads + head;
  }
  // The slots, one run of them, that hold the same in all rows: the first row's stand for all.
  Run common() const {
    const int64_t oldest = newest - held + 1, begin = oldest % capacity;
    const int64_t end = (shared - 1) % capacity + 1;
    return shared > oldest && begin < end ? Run{begin, end, 0} : Run{0, 0, 0};
  }
};

// What a thread needs to compute one head of a few rows, whose parts lie one after the other.
template <class Format>
struct Room {
  std::vector<float> logits, scaled, by_row, content, position, mean, total;
  std::vector<typename Format::Sum> sums;
  Inputs<Format> contents, weights;
  Inputs<Float32> positions;
  Inputs<Bytes> by_bytes;  // positions, for tables of bytes
};

// found (rows, 64), apart by `between`: the products of rows of inputs with one panel.
template <class Format, int rows>
inline void panel(const uint32_t* w, const Inputs<Format>& x, int64_t row, float* found,
                  int64_t between) {
  typename Format::Sum sums[rows * LANES / WIDTH] = {};
  panel_sums<Format, rows>(w, x.row(row), x.apart, x.apart, sums);
  for (int r = 0; r < rows; r++)
    for (int v = 0; v < LANES / WIDTH; v++)
      put(found + r * between + v * WIDTH,
          Format::value(sums[r * LANES / WIDTH + v], x.prepared[row + r]));
}

// sums (rows, channels) += the sum of `count` groups of weights (rows apart by `apart`) and values.
template <class Format, int rows>
void weigh(const uint32_t* values, int64_t channels, const typename Format::Input* weights,
           int64_t apart, int64_t count, void* sums) {
  const auto some = [&]<int vectors>(int64_t from) {
    void* at = static_cast<char*>(sums) + from / WIDTH * sizeof(typename Format::Sum);
    accumulate<Format, rows, vectors>(values + from, channels, weights, apart, count, at,
                                      channels / WIDTH);
  };
  int64_t from = 0;
  for (; from + LANES <= channels; from += LANES) some.template operator()<LANES / WIDTH>(from);
  for (; from < channels; from += WIDTH) some.template operator()<1>(from);
}

// Adds by_row[distance] of an axis by order to the logits of a run; distances beyond are clipped.
inline void add_run(const Axis& axis, const Run& run, const float* by_row, float* logits) {
  const int64_t near = std::clamp(run.base - axis.high, run.begin, run.end);
  const int64_t far = std::clamp(run.base - axis.low + 1, near, run.end);
  const float* at = by_row + run.base - axis.low;
  for (int64_t s = run.begin; s < near; s++) logits[s] += by_row[axis.high - axis.low];
  for (int64_t s = near; s < far; s++) logits[s] += at[-s];
  for (int64_t s = far; s < run.end; s++) logits[s] += by_row[0];
}

// Adds the terms of one axis to the logits of the runs, of `rows` rows from `row` on.
template <class Format>
void add_axis(const Axis& axis, const Cache& cache, int64_t row, int64_t rows, int64_t head,
              const Run* runs, int count, int64_t seen, const int64_t* here, Room<Format>& room) {
  // The rows of the table that can be met: of consecutive distances only those of the tokens seen.
  const bool order = axis.coordinate < 0;
  const int64_t first = order ? axis.row(0) : 0;
  const int64_t last = order ? axis.row(seen - 1) : axis.high - axis.low;
  const int64_t panels = (axis.high - axis.low) / LANES + 1, wide = panels * LANES;
  if (room.by_row.size() < static_cast<size_t>(rows * wide)) room.by_row.resize(rows * wide);
  float* by_row = room.by_row.data();
  const int64_t which = axis.table_heads > 1 ? head : 0;
  const auto products = [&]<class Stored>(const Inputs<Stored>& x) {
    const int64_t words = groups<Stored>(cache.size) * LANES;
    const uint32_t* table = axis.table + which * panels * words;
    for (int64_t p = first / LANES; p <= last / LANES; p++)
      by_rows(rows, [&]<int some>(int64_t r) {
        panel<Stored, some>(table + p * words, x, r, by_row + r * wide + p * LANES, wide);
      });
  };
  if (axis.table && axis.scales) {
    room.by_bytes.read(room.position.data(), rows, cache.size, cache.size);
    products(room.by_bytes);
    for (int64_t r = 0; r < rows; r++)
      for (int64_t d = first; d <= last; d++) by_row[r * wide + d] *= axis.scales[which * wide + d];
  } else if (axis.table) {
    room.positions.read(room.position.data(), rows, cache.size, cache.size);
    products(room.positions);
  } else {
    std::fill(by_row, by_row + rows * wide, 0.0f);
  }
  for (int64_t r = 0; r < rows; r++, by_row += wide) {
    if (axis.bias) {
      const float* bias = axis.bias + (axis.bias_heads > 1 ? head : 0) * (axis.high - axis.low + 1);
      for (int64_t d = first; d <= last; d++) by_row[d] += bias[d];
    }
    float* logits = room.logits.data() + r * cache.slots();
    for (int n = 0; n < count; n++) {
      const Run run = runs[n];
      if (order) {
        add_run(axis, run, by_row, logits);
        continue;
      }
      const int64_t which = (row + r) * cache.further + axis.coordinate;
      const int64_t* there = cache.coordinates + which * cache.capacity;
      const int64_t at = here[r * cache.further + axis.coordinate];
      for (int64_t s = run.begin; s < run.end; s++)
        if (there[s] != NOT_MEASURED) logits[s] += by_row[axis.row(at - there[s])];
    }
  }
}

// logits -> e^(logit - the highest) on the runs; returns their sum.
inline float exponentials(float* logits, const Run* runs, int count) {
  float highest = -INFINITY, sum = 0.0f;
  for (int n = 0; n < count; n++)
    highest = highest_of(logits + runs[n].begin, runs[n].end - runs[n].begin, highest);
  for (int n = 0; n < count; n++) {
#pragma omp simd reduction(+ : sum)
    for (int64_t s = runs[n].begin; s < runs[n].end; s++) {
      logits[s] = exponential(logits[s] - highest);
      sum += logits[s];
    }
  }
  return sum;
}

// out (rows, size), apart by `between`, = attention of the queries q, apart by `wide`, turned already, of
// one head of `rows` rows from `row` on; `here` are the queries' coordinates. The tokens' own keys and
// values are in the cache. What rows share is read once for all of them, from the first row of all.
template <class Format>
void attend(const Terms& terms, const Cache& cache, int64_t layer, int64_t row, int64_t rows,
            int64_t head, const float* q, int64_t wide, const int64_t* here, float* out,
            int64_t between, Room<Format>& room) {
  constexpr int64_t GROUP = Format::GROUP;
  const int64_t size = cache.size, capacity = cache.capacity, newest = cache.newest;
  int64_t seen = cache.held;
  if (terms.block)  // its own block and the one before
    seen = std::min(seen, newest - std::max<int64_t>(0, newest / terms.block - 1) * terms.block + 1);
  const int64_t last = newest % capacity, first = (newest - seen + 1) % capacity;
  const bool whole = first <= last;
  const Run runs[2] = {{first, whole ? last + 1 : capacity, whole ? last : last + capacity},
                       {0, last + 1, last}};
  const int count = whole ? 1 : 2;
  const Run common = cache.common();

  const int64_t slots = cache.slots(), channels = cache.channels();
  room.content.resize(rows * size);
  room.position.resize(rows * size);
  room.logits.resize(rows * slots);
  const float scale = static_cast<float>(terms.scale);
  for (int64_t r = 0; r < rows; r++)
    for (int64_t d = 0; d < size; d++) {
      const int64_t at = head * size + d, to = r * size + d;
      const float x = q[r * wide + d];
      room.content[to] = (x + (terms.content_bias ? terms.content_bias[at] : 0.0f)) * scale;
      room.position[to] = (x + (terms.position_bias ? terms.position_bias[at] : 0.0f)) * scale;
    }
  room.contents.read(room.content.data(), rows, size, size);
  const auto keys = [&](int64_t of, int64_t p) {
    const int64_t panels = cache.head(layer, of, head) * (slots / LANES) + p;
    return cache.keys + panels * groups<Format>(size) * LANES;
  };
  const auto values = [&](int64_t of, int64_t group) {
    return cache.values + (cache.head(layer, of, head) * groups<Format>(capacity) + group) * channels;
  };
  for (int n = 0; n < count; n++)
    for (int64_t p = runs[n].begin / LANES; p * LANES < runs[n].end; p++) {
      const int64_t from = std::max(runs[n].begin, p * LANES);
      const int64_t to = std::min(runs[n].end, (p + 1) * LANES);
      const auto meet = [&]<int some>(int64_t r, int64_t of) {
        float found[some * LANES];
        panel<Format, some>(keys(of, p), room.contents, r, found, LANES);
        for (int64_t i = 0; i < some; i++) {
          const float* one = found + i * LANES + from - p * LANES;
          float* logits = &room.logits[(r + i) * slots + from];
          if (!cache.key_scales) {
            std::copy_n(one, to - from, logits);
            continue;
          }
          const float* scales = cache.key_scales + cache.head(layer, row + r + i, head) * slots + from;
          for (int64_t s = 0; s < to - from; s++) logits[s] = one[s] * scales[s];
        }
      };
      if (common.begin <= from && to <= common.end)
        by_rows(rows, [&]<int some>(int64_t r) { meet.template operator()<some>(r, 0); });
      else
        for (int64_t r = 0; r < rows; r++) meet.template operator()<1>(r, row + r);
    }
  for (int64_t a = 0; a < terms.count; a++)
    add_axis(terms.axes[a], cache, row, rows, head, runs, count, seen, here, room);

  room.total.resize(rows);
  for (int64_t r = 0; r < rows; r++)
    room.total[r] = exponentials(&room.logits[r * slots], runs, count);
  const float* weights = room.logits.data();
  const int64_t used = whole ? last + 1 : capacity;
  if (cache.value_scales) {  // a weight and a value's scale are one number; of what is not seen it is 0
    room.scaled.assign(rows * slots, 0.0f);
    for (int64_t r = 0; r < rows; r++) {
      const float* scales = cache.value_scales + cache.head(layer, row + r, head) * slots;
      for (int n = 0; n < count; n++)
        for (int64_t s = runs[n].begin; s < runs[n].end; s++)
          room.scaled[r * slots + s] = room.logits[r * slots + s] * scales[s];
    }
    weights = room.scaled.data();
  }
  room.weights.read(weights, rows, used, slots);
  room.sums.clear();
  room.sums.resize(rows * channels / WIDTH);
  const auto weigh_groups = [&]<int some>(int64_t r, int64_t of, int64_t from, int64_t to) {
    weigh<Format, some>(values(of, from), channels, room.weights.row(r) + from, room.weights.apart,
                        to - from, &room.sums[r * channels / WIDTH]);
  };
  // Groups of slots, each once: of two runs the later slots' after the earlier ones'.
  const int64_t ends = groups<Format>(last + 1), begins = first / GROUP;
  const int64_t seen_groups[2][2] = {{whole ? begins : 0, ends},
                                     {std::max(begins, ends), groups<Format>(capacity)}};
  const int64_t alike[2] = {groups<Format>(common.begin), common.end / GROUP};
  for (int n = 0; n < count; n++) {
    const auto [begin, end] = seen_groups[n];
    const int64_t from = std::clamp(alike[0], begin, end), to = std::clamp(alike[1], from, end);
    for (int64_t r = 0; r < rows; r++)
      weigh_groups.template operator()<1>(r, row + r, begin, from);
    for (int64_t group = from; group < to; group += BLOCK)  // which stay near at hand
      by_rows(rows, [&]<int some>(int64_t r) {
        weigh_groups.template operator()<some>(r, 0, group, std::min(group + BLOCK, to));
      });
    for (int64_t r = 0; r < rows; r++) weigh_groups.template operator()<1>(r, row + r, to, end);
  }
  room.mean.resize(rows * channels);
  for (int64_t r = 0; r < rows; r++)
    for (int64_t d = 0; d < channels; d += WIDTH)
      put(&room.mean[r * channels + d],
          Format::value(room.sums[(r * channels + d) / WIDTH], room.weights.prepared[r]));
  if (terms.value_table) {  // weights are added up by distance first
    const Axis& axis = terms.axes[0];
    const int64_t distances = axis.high - axis.low + 1;
    const uint32_t* table = terms.value_table;
    table += (terms.value_heads > 1 ? head : 0) * distances * channels;
    for (int64_t r = 0; r < rows; r++) {
      room.by_row.assign(std::max<size_t>(room.by_row.size(), distances), 0.0f);
      for (int n = 0; n < count; n++)
        for (int64_t s = runs[n].begin; s < runs[n].end; s++)
          room.by_row[axis.row(runs[n].base - s)] += room.logits[r * slots + s];
      weigh<Float32, 1>(table, channels, room.by_row.data(), 0, distances, &room.mean[r * channels]);
    }
  }
  for (int64_t r = 0; r < rows; r++)
    for (int64_t d = 0; d < size; d++)
      out[r * between + d] = room.mean[r * channels + d] / room.total[r];
}

// Writes the newest token's key and value (size) of one head.
template <class Format>
void keep(const Cache& cache, int64_t layer, int64_t row, int64_t head, const float* key,
          const float* value) {
  constexpr int64_t GROUP = Format::GROUP;
  const int64_t slot = cache.newest % cache.capacity, which = cache.head(layer, row, head);
  const int64_t panel = which * (cache.slots() / LANES) + slot / LANES;
  const int64_t group = which * groups<Format>(cache.capacity) + slot / GROUP;
  uint32_t* keys = cache.keys + panel * groups<Format>(cache.size) * LANES + slot % LANES;
  uint32_t* values = cache.values + group * cache.channels();
  const auto write = [&](const auto* key, const auto* value) {
    using Number = std::remove_cvref_t<decltype(*key)>;
    // Each group of a key lies in a line of its own, none of which is near: all are fetched at once.
    for (int64_t d = 0; d < cache.size; d += GROUP)
      __builtin_prefetch(keys + d / GROUP * LANES, 1);
    for (int64_t d = 0; d < cache.size; d++) {
      reinterpret_cast<Number*>(keys + d / GROUP * LANES)[d % GROUP] = key[d];
      reinterpret_cast<Number*>(values + d)[slot % GROUP] = value[d];
    }
  };
  if constexpr (GROUP == 1) {
    write(key, value);
  } else {
    std::vector<int8_t> whole(2 * cache.size);
    const int64_t at = which * cache.slots() + slot;
    cache.key_scales[at] = to_bytes(key, cache.size, whole.data());
    cache.value_scales[at] = to_bytes(value, cache.size, whole.data() + cache.size);
    write(whole.data(), whole.data() + cache.size);
  }
}

}  // namespace
