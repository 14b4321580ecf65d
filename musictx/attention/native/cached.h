// Attention of one new token over the tokens held, with every term that a position scheme can have
// (attention/terms.py says what they mean).
//
// The cache is a ring: the token at position p stands in slot p mod capacity. Keys lie in panels of 64
// slots and values one slot after the other, so the logits of 64 slots, the logits of 64 distances and
// the channels of the mean are each lanes of the same product (matrix.h). The slots that a query sees
// are one or two runs of neighbours; on each the distance falls by one from slot to slot.
#pragma once
#include <vector>

#include "matrix.h"

namespace {

constexpr int64_t NOT_MEASURED = INT64_MIN;  // the coordinate of a key that an axis passes over

struct Axis {
  const void* table;  // for each head, or one: packed vectors of the distances; may be missing
  const float* bias;  // (heads or 1, distances); may be missing
  int64_t table_heads, bias_heads, low, high;
  int64_t coordinate;  // which of the cache's, -1: the order of tokens

  int64_t row(int64_t distance) const { return std::clamp(distance, low, high) - low; }
};

struct Terms {
  const Axis* axes;
  const float *content_bias, *position_bias;  // (heads, size); may be missing
  const float* value_table;  // (value_heads, distances of the first axis, channels); may be missing
  double scale;
  int64_t count, value_heads;
  int64_t block;  // the length of local attention's blocks, 0: none
};

// What is held: `held` tokens, the newest at position `newest`. `Number` of keys, values and tables.
struct Cache {
  void *keys, *values;         // (layers, rows, heads, panels, size, 64), (.., capacity, channels)
  int64_t *ids, *coordinates;  // (rows, capacity), (rows, further, capacity)
  int64_t rows, layers, heads, size, capacity, further, newest, held;

  int64_t channels() const { return (size + WIDTH - 1) / WIDTH * WIDTH; }
  int64_t slots() const { return (capacity + LANES - 1) / LANES * LANES; }
  int64_t head(int64_t layer, int64_t row, int64_t head) const {
    return (layer * rows + row) * heads + head;
  }
};

struct Run {
  int64_t begin, end, base;  // slots; the distance of slot s is base - s
};

// What a thread needs to compute one head.
struct Room {
  std::vector<float> logits, by_row, content, position, mean;
};

// 64 lanes of vectors (inputs, 64) for x.
template <class Number>
inline void panel(const Number* w, const float* x, int64_t inputs, float* found) {
  Floats sum[1][LANES / WIDTH] = {};
  accumulate<1, LANES / WIDTH>(w, LANES, x, 0, inputs, sum);
  for (int v = 0; v < LANES / WIDTH; v++) put(found + v * WIDTH, sum[0][v]);
}

// mean (channels) += sum of weights[i] values[i].
template <class Number>
void weigh(const Number* values, int64_t channels, const float* weights, int64_t count,
           float* mean) {
  const auto some = [&]<int vectors>(int64_t from) {
    Floats sum[1][vectors];
    for (int v = 0; v < vectors; v++) sum[0][v] = floats(mean + from + v * WIDTH);
    accumulate<1, vectors>(values + from, channels, weights, 0, count, sum);
    for (int v = 0; v < vectors; v++) put(mean + from + v * WIDTH, sum[0][v]);
  };
  int64_t from = 0;
  for (; from + LANES <= channels; from += LANES) some.template operator()<LANES / WIDTH>(from);
  for (; from < channels; from += WIDTH) some.template operator()<1>(from);
}

// Adds the terms of one axis to the logits of the runs.
template <class Number>
void add_axis(const Axis& axis, const Cache& cache, int64_t head, const Run* runs, int count,
              int64_t seen, const int64_t* coordinates, int64_t here, Room& room) {
  // The rows that can be met: of consecutive distances only those of the tokens seen.
  const bool order = axis.coordinate < 0;
  const int64_t first = order ? axis.row(0) : 0;
  const int64_t last = order ? axis.row(seen - 1) : axis.high - axis.low;
  const int64_t panels = (axis.high - axis.low) / LANES + 1;
  if (room.by_row.size() < static_cast<size_t>(panels * LANES)) room.by_row.resize(panels * LANES);
  float* by_row = room.by_row.data();
  if (axis.table) {
    const Number* table = static_cast<const Number*>(axis.table);
    table += (axis.table_heads > 1 ? head : 0) * panels * cache.size * LANES;
    for (int64_t p = first / LANES; p <= last / LANES; p++)
      panel(table + p * cache.size * LANES, room.position.data(), cache.size, by_row + p * LANES);
  } else {
    std::fill(by_row + first, by_row + last + 1, 0.0f);
  }
  if (axis.bias) {
    const float* bias = axis.bias + (axis.bias_heads > 1 ? head : 0) * (axis.high - axis.low + 1);
    for (int64_t r = first; r <= last; r++) by_row[r] += bias[r];
  }
  float* logits = room.logits.data();
  for (int n = 0; n < count; n++) {
    const Run run = runs[n];
    if (order) {
      for (int64_t s = run.begin; s < run.end; s++) logits[s] += by_row[axis.row(run.base - s)];
    } else {
      for (int64_t s = run.begin; s < run.end; s++)
        if (coordinates[s] != NOT_MEASURED) logits[s] += by_row[axis.row(here - coordinates[s])];
    }
  }
}

// out (size) = attention of the query q (size), turned already, of one head of one row; `here` are the
// query's coordinates. The token's own key and value are in the cache.
template <class Number>
void attend(const Terms& terms, const Cache& cache, int64_t layer, int64_t row, int64_t head,
            const float* q, const int64_t* here, float* out, Room& room) {
  const int64_t size = cache.size, capacity = cache.capacity, newest = cache.newest;
  int64_t seen = cache.held;
  if (terms.block)  // its own block and the one before
    seen = std::min(seen, newest - std::max<int64_t>(0, newest / terms.block - 1) * terms.block + 1);
  const int64_t last = newest % capacity, first = (newest - seen + 1) % capacity;
  const bool whole = first <= last;
  const Run runs[2] = {{first, whole ? last + 1 : capacity, whole ? last : last + capacity},
                       {0, last + 1, last}};
  const int count = whole ? 1 : 2;

  room.content.resize(size);
  room.position.resize(size);
  room.logits.resize(cache.slots());
  const float scale = static_cast<float>(terms.scale);
  for (int64_t d = 0; d < size; d++) {
    const int64_t at = head * size + d;
    room.content[d] = (q[d] + (terms.content_bias ? terms.content_bias[at] : 0.0f)) * scale;
    room.position[d] = (q[d] + (terms.position_bias ? terms.position_bias[at] : 0.0f)) * scale;
  }
  float* logits = room.logits.data();
  const int64_t which = cache.head(layer, row, head);
  const Number* keys = static_cast<const Number*>(cache.keys) + which * cache.slots() * size;
  for (int n = 0; n < count; n++)
    for (int64_t p = runs[n].begin / LANES; p * LANES < runs[n].end; p++) {
      float found[LANES];
      panel(keys + p * size * LANES, room.content.data(), size, found);
      const int64_t from = std::max(runs[n].begin, p * LANES);
      const int64_t to = std::min(runs[n].end, (p + 1) * LANES);
      std::copy(found + (from - p * LANES), found + (to - p * LANES), logits + from);
    }
  for (int64_t a = 0; a < terms.count; a++) {
    const Axis& axis = terms.axes[a];
    const int64_t n = std::max<int64_t>(axis.coordinate, 0);
    const int64_t* there = cache.coordinates + (row * cache.further + n) * capacity;
    add_axis<Number>(axis, cache, head, runs, count, seen, there,
                     axis.coordinate < 0 ? 0 : here[axis.coordinate], room);
  }

  float highest = -INFINITY, total = 0.0f;
  for (int n = 0; n < count; n++) {
#pragma omp simd reduction(max : highest)
    for (int64_t s = runs[n].begin; s < runs[n].end; s++)
      highest = logits[s] > highest ? logits[s] : highest;
  }
  for (int n = 0; n < count; n++) {
#pragma omp simd reduction(+ : total)
    for (int64_t s = runs[n].begin; s < runs[n].end; s++) {
      logits[s] = exponential(logits[s] - highest);
      total += logits[s];
    }
  }
  const int64_t channels = cache.channels();
  room.mean.assign(channels, 0.0f);
  const Number* values = static_cast<const Number*>(cache.values) + which * capacity * channels;
  for (int n = 0; n < count; n++)
    weigh(values + runs[n].begin * channels, channels, logits + runs[n].begin,
          runs[n].end - runs[n].begin, room.mean.data());
  if (terms.value_table) {  // weights are added up by distance first
    const Axis& axis = terms.axes[0];
    const int64_t rows = axis.high - axis.low + 1;
    room.by_row.assign(std::max<size_t>(room.by_row.size(), rows), 0.0f);
    for (int n = 0; n < count; n++)
      for (int64_t s = runs[n].begin; s < runs[n].end; s++)
        room.by_row[axis.row(runs[n].base - s)] += logits[s];
    const float* table = terms.value_table + (terms.value_heads > 1 ? head : 0) * rows * channels;
    weigh(table, channels, room.by_row.data(), rows, room.mean.data());
  }
  for (int64_t d = 0; d < size; d++) out[d] = room.mean[d] / total;
}

// Writes the newest token's key and value (size) of one head.
template <class Number>
void keep(const Cache& cache, int64_t layer, int64_t row, int64_t head, const float* key,
          const float* value) {
  const int64_t slot = cache.newest % cache.capacity, which = cache.head(layer, row, head);
  Number* keys = static_cast<Number*>(cache.keys) + which * cache.slots() * cache.size;
  keys += slot / LANES * cache.size * LANES + slot % LANES;
  Number* values = static_cast<Number*>(cache.values);
  values += (which * cache.capacity + slot) * cache.channels();
  for (int64_t d = 0; d < cache.size; d++) {
    store(keys + d * LANES, key[d]);
    store(values + d, value[d]);
  }
}

}  // namespace
