// The cache of the decoding step, and the terms of a position scheme (attention/terms.py explains them).
//
// The cache is a ring buffer: the token at position p is in slot p mod capacity. Keys are stored in panels of
// 64 slots (lanes.h), values in groups of slots.
#pragma once
#include <type_traits>
#include <vector>

#include "matrix.h"

namespace {

constexpr int64_t CHANNELS = 16;  // the channels of values are padded to a multiple of this number
constexpr int64_t NOT_MEASURED = INT64_MIN;  // the coordinate of a key for which an axis has no term

struct Axis {
  const uint32_t* table;  // for each head, or shared: panels of distances; may be null
  const float* bias;      // (heads or 1, distances); may be null
  const float* scales;    // of an int8 table (heads or 1, distances padded to panels); else null
  int64_t table_heads, bias_heads, low, high;
  int64_t coordinate;  // index of a coordinate in the cache; -1: the order of tokens

  int64_t distances() const { return high - low + 1; }
  int64_t row(int64_t distance) const { return std::clamp(distance, low, high) - low; }
};

struct Terms {
  const Axis* axes;
  const float *content_bias, *position_bias;  // (heads, size); may be null
  const uint32_t* value_table;  // float32 (value_heads, distances of the first axis, channels); may be null
  double scale;
  int64_t count, value_heads;
  int64_t block;  // the block length of local attention; 0: all tokens are attended to
};

// Slots begin .. end - 1 of the ring; the distance of slot s to the query is query_slot - s.
struct Segment {
  int64_t begin, end, query_slot;
};

// The slots of the `length` tokens that the newest token attends to: one segment or, if they wrap around the
// end of the ring, two, the older tokens first.
struct Window {
  Segment segments[2];
  int64_t count, length, first_slot, last_slot;

  bool wraps() const { return count == 2; }
  const Segment* begin() const { return segments; }
  const Segment* end() const { return segments + count; }
};

// `length` tokens, the newest at position `newest`. A token is one id, or a group of ids (songs/grouped.py); the
// newest token has `field` + 1 ids so far. The layers run when its first id arrives.
struct Cache {
  // In words of a format, Float32 or Bytes: (layers, rows, heads, panels, groups of the size, 64) and
  // (layers, rows, heads, groups of the capacity, channels).
  uint32_t *keys, *values;
  float *key_scales, *value_scales;  // of Bytes (layers, rows, heads, slots); else null
  int64_t *ids, *coordinates;  // (rows, capacity, group), (rows, coordinate_count, capacity)
  // (rows, width): the state after the last id; the sum of the embeddings of the group's ids after its first.
  float *states, *sums;
  int64_t rows, layers, heads, size, capacity, coordinate_count, newest, length;
  int64_t group, field;
  int64_t shared;  // tokens at positions below this one are the same in all rows

  int64_t channels() const { return (size + CHANNELS - 1) / CHANNELS * CHANNELS; }
  int64_t slots() const { return (capacity + LANES - 1) / LANES * LANES; }
  int64_t head_index(int64_t layer, int64_t row, int64_t head) const {
    return (layer * rows + row) * heads + head;
  }
  // The slots whose tokens all rows share, which are read from row 0. Empty if they wrap around.
  Segment shared_slots() const {
    const int64_t oldest = newest - length + 1, begin = oldest % capacity;
    const int64_t end = (shared - 1) % capacity + 1;
    return shared > oldest && begin < end ? Segment{begin, end, 0} : Segment{0, 0, 0};
  }
  // The tokens to attend to: all, or with a block length those of the query's block and the previous one.
  Window window(int64_t block) const {
    int64_t count = length;
    if (block)
      count = std::min(count, newest - std::max<int64_t>(0, newest / block - 1) * block + 1);
    const int64_t last = newest % capacity, first = (newest - count + 1) % capacity;
    if (first <= last) return {{{first, last + 1, last}}, 1, count, first, last};
    return {{{first, capacity, last + capacity}, {0, last + 1, last}}, 2, count, first, last};
  }
};

// Writes the newest token's key and value (size) of one head into the cache.
template <class Format>
void store_newest(const Cache& cache, int64_t layer, int64_t row, int64_t head, const float* key,
                  const float* value) {
  constexpr int64_t GROUP = Format::GROUP;
  const int64_t slot = cache.newest % cache.capacity, index = cache.head_index(layer, row, head);
  const int64_t panel = index * (cache.slots() / LANES) + slot / LANES;
  const int64_t group = index * groups<Format>(cache.capacity) + slot / GROUP;
  uint32_t* keys = cache.keys + panel * groups<Format>(cache.size) * LANES + slot % LANES;
  uint32_t* values = cache.values + group * cache.channels();
  const auto write = [&](const auto* key, const auto* value) {
    using Number = std::remove_cvref_t<decltype(*key)>;
    // The groups of a key are in distant cache lines: fetch all of them at once.
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
    std::vector<int8_t> integers(2 * cache.size);
    const int64_t scale = index * cache.slots() + slot;
    cache.key_scales[scale] = to_bytes(key, cache.size, integers.data());
    cache.value_scales[scale] = to_bytes(value, cache.size, integers.data() + cache.size);
    write(integers.data(), integers.data() + cache.size);
  }
}

}  // namespace
