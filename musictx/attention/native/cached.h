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

struct Run {
  int64_t begin, end, base;  // slots; the distance of slot s is base - s
};

// What is held: `held` tokens, the newest at position `newest`. `Number` of keys, values and tables.
struct Cache {
  void *keys, *values;         // (layers, rows, heads, panels, size, 64), (.., capacity, channels)
  int64_t *ids, *coordinates;  // (rows, capacity), (rows, further, capacity)
  int64_t rows, layers, heads, size, capacity, further, newest, held;
  int64_t shared;  // tokens at positions before this are the same in all rows

  int64_t channels() const { return (size + WIDTH - 1) / WIDTH * WIDTH; }
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
struct Room {
  std::vector<float> logits, by_row, content, position, mean;
};

// found (rows, 64), apart by `between`: 64 lanes of vectors w (inputs, 64) for each of x (rows, inputs).
template <int rows, class Number>
inline void panel(const Number* w, const float* x, int64_t inputs, float* found, int64_t between) {
  Floats sum[rows][LANES / WIDTH] = {};
  accumulate<rows, LANES / WIDTH>(w, LANES, x, inputs, inputs, sum);
  for (int r = 0; r < rows; r++)
    for (int v = 0; v < LANES / WIDTH; v++) put(found + r * between + v * WIDTH, sum[r][v]);
}

// mean (rows, channels) += sum of weights[i] values[i]; the weights of a row are apart by `between`.
template <int rows, class Number>
void weigh(const Number* values, int64_t channels, const float* weights, int64_t between,
           int64_t count, float* mean) {
  const auto some = [&]<int vectors>(int64_t from) {
    Floats sum[rows][vectors];
    for (int r = 0; r < rows; r++)
      for (int v = 0; v < vectors; v++) sum[r][v] = floats(mean + r * channels + from + v * WIDTH);
    accumulate<rows, vectors>(values + from, channels, weights, between, count, sum);
    for (int r = 0; r < rows; r++)
      for (int v = 0; v < vectors; v++) put(mean + r * channels + from + v * WIDTH, sum[r][v]);
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
template <int rows, class Number>
void add_axis(const Axis& axis, const Cache& cache, int64_t row, int64_t head, const Run* runs,
              int count, int64_t seen, const int64_t* here, Room& room) {
  // The rows that can be met: of consecutive distances only those of the tokens seen.
  const bool order = axis.coordinate < 0;
  const int64_t first = order ? axis.row(0) : 0;
  const int64_t last = order ? axis.row(seen - 1) : axis.high - axis.low;
  const int64_t panels = (axis.high - axis.low) / LANES + 1, wide = panels * LANES;
  if (room.by_row.size() < static_cast<size_t>(rows * wide)) room.by_row.resize(rows * wide);
  float* by_row = room.by_row.data();
  if (axis.table) {
    const Number* table = static_cast<const Number*>(axis.table);
    table += (axis.table_heads > 1 ? head : 0) * panels * cache.size * LANES;
    for (int64_t p = first / LANES; p <= last / LANES; p++)
      panel<rows>(table + p * cache.size * LANES, room.position.data(), cache.size,
                  by_row + p * LANES, wide);
  } else {
    std::fill(by_row, by_row + rows * wide, 0.0f);
  }
  for (int r = 0; r < rows; r++, by_row += wide) {
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

// out (rows, size), apart by `between`, = attention of the queries q, apart by `wide`, turned already, of
// one head of `rows` rows from `row` on; `here` are the queries' coordinates. The tokens' own keys and
// values are in the cache. What rows share is read once for all of them, from the first row of all.
template <int rows, class Number>
void attend(const Terms& terms, const Cache& cache, int64_t layer, int64_t row, int64_t head,
            const float* q, int64_t wide, const int64_t* here, float* out, int64_t between,
            Room& room) {
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
  for (int r = 0; r < rows; r++)
    for (int64_t d = 0; d < size; d++) {
      const int64_t at = head * size + d, to = r * size + d;
      const float x = q[r * wide + d];
      room.content[to] = (x + (terms.content_bias ? terms.content_bias[at] : 0.0f)) * scale;
      room.position[to] = (x + (terms.position_bias ? terms.position_bias[at] : 0.0f)) * scale;
    }
  const auto keys = [&](int64_t of, int64_t p) {
    const Number* from = static_cast<const Number*>(cache.keys);
    return from + (cache.head(layer, of, head) * slots + p * LANES) * size;
  };
  const auto values = [&](int64_t of, int64_t slot) {
    const Number* from = static_cast<const Number*>(cache.values);
    return from + (cache.head(layer, of, head) * capacity + slot) * channels;
  };
  for (int n = 0; n < count; n++)
    for (int64_t p = runs[n].begin / LANES; p * LANES < runs[n].end; p++) {
      const int64_t from = std::max(runs[n].begin, p * LANES);
      const int64_t to = std::min(runs[n].end, (p + 1) * LANES);
      float found[rows * LANES];
      if (common.begin <= from && to <= common.end)
        panel<rows>(keys(0, p), room.content.data(), size, found, LANES);
      else
        for (int r = 0; r < rows; r++)
          panel<1>(keys(row + r, p), &room.content[r * size], size, found + r * LANES, LANES);
      for (int r = 0; r < rows; r++)
        std::copy_n(found + r * LANES + from - p * LANES, to - from, &room.logits[r * slots + from]);
    }
  for (int64_t a = 0; a < terms.count; a++)
    add_axis<rows, Number>(terms.axes[a], cache, row, head, runs, count, seen, here, room);

  float total[rows] = {};
  for (int r = 0; r < rows; r++) {
    float *logits = &room.logits[r * slots], highest = -INFINITY, sum = 0.0f;
    for (int n = 0; n < count; n++) {
#pragma omp simd reduction(max : highest)
      for (int64_t s = runs[n].begin; s < runs[n].end; s++)
        highest = logits[s] > highest ? logits[s] : highest;
    }
    for (int n = 0; n < count; n++) {
#pragma omp simd reduction(+ : sum)
      for (int64_t s = runs[n].begin; s < runs[n].end; s++) {
        logits[s] = exponential(logits[s] - highest);
        sum += logits[s];
      }
    }
    total[r] = sum;
  }
  room.mean.assign(rows * channels, 0.0f);
  for (int n = 0; n < count; n++) {
    const auto own = [&](int64_t from, int64_t to) {
      for (int r = 0; r < rows && from < to; r++)
        weigh<1>(values(row + r, from), channels, &room.logits[r * slots + from], slots, to - from,
                 &room.mean[r * channels]);
    };
    const int64_t from = std::clamp(common.begin, runs[n].begin, runs[n].end);
    const int64_t to = std::clamp(common.end, from, runs[n].end);
    own(runs[n].begin, from);
    if (from < to)
      weigh<rows>(values(0, from), channels, &room.logits[from], slots, to - from, room.mean.data());
    own(to, runs[n].end);
  }
  if (terms.value_table) {  // weights are added up by distance first
    const Axis& axis = terms.axes[0];
    const int64_t distances = axis.high - axis.low + 1;
    const float* table = terms.value_table;
    table += (terms.value_heads > 1 ? head : 0) * distances * channels;
    for (int r = 0; r < rows; r++) {
      room.by_row.assign(std::max<size_t>(room.by_row.size(), distances), 0.0f);
      for (int n = 0; n < count; n++)
        for (int64_t s = runs[n].begin; s < runs[n].end; s++)
          room.by_row[axis.row(runs[n].base - s)] += room.logits[r * slots + s];
      weigh<1>(table, channels, room.by_row.data(), 0, distances, &room.mean[r * channels]);
    }
  }
  for (int r = 0; r < rows; r++)
    for (int64_t d = 0; d < size; d++)
      out[r * between + d] = room.mean[r * channels + d] / total[r];
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
