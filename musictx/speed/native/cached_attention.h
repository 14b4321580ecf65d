// Attention of one new token over the cached tokens, with every term that a position scheme can have.
//
// The products of lanes.h compute the logits of 64 slots, the relative logits of 64 distances, or channels of the
// output, each in its own lane. The slots that a query attends to are one or two segments of the ring buffer
// (cache.h); within a segment the distance decreases by one from slot to slot.
#pragma once
#include <vector>

#include "cache.h"

namespace {

// The working memory of one thread, for one head of several rows.
template <class Format>
struct Scratch {
  std::vector<float> logits, scaled_weights, by_distance, content, position, outputs, totals;
  std::vector<typename Format::Sum> sums;
  Inputs<Format> content_inputs, weight_inputs;
  Inputs<Float32> position_inputs;
  Inputs<Bytes> position_bytes;  // for int8 tables
};

// products (rows, 64), with row stride `stride`, = the rows of inputs from `row` on times one panel.
template <class Format, int rows>
inline void multiply_panel(const uint32_t* panel, const Inputs<Format>& x, int64_t row,
                           float* products, int64_t stride) {
  typename Format::Sum sums[rows * LANES / WIDTH] = {};
  panel_sums<Format, rows>(panel, x.row(row), x.stride, x.stride, sums);
  for (int r = 0; r < rows; r++)
    for (int v = 0; v < LANES / WIDTH; v++)
      store_vector(products + r * stride + v * WIDTH,
                   Format::value(sums[r * LANES / WIDTH + v], x.prepared[row + r]));
}

// sums (rows, channels) += weights (rows, `count` groups), with row stride `stride` groups, times values.
template <class Format, int rows>
void add_weighted_values(const uint32_t* values, int64_t channels,
                         const typename Format::Input* weights, int64_t stride, int64_t count,
                         void* sums) {
  const auto add_vectors = [&]<int vectors>(int64_t channel) {
    void* first_sum = static_cast<char*>(sums) + channel / WIDTH * sizeof(typename Format::Sum);
    accumulate<Format, rows, vectors>(values + channel, channels, weights, stride, count, first_sum,
                                      channels / WIDTH);
  };
  int64_t channel = 0;
  for (; channel + LANES <= channels; channel += LANES)
    add_vectors.template operator()<LANES / WIDTH>(channel);
  for (; channel < channels; channel += WIDTH) add_vectors.template operator()<1>(channel);
}

// Adds by_distance[axis.row(distance)] to each logit of a segment, for an axis of the order of tokens.
inline void add_by_order(const Axis& axis, const Segment& segment, const float* by_distance,
                         float* logits) {
  const auto [begin, end, query_slot] = segment;
  // Distances of earlier slots are clipped to `high`, those of later slots to `low`.
  const int64_t inner_begin = std::clamp(query_slot - axis.high, begin, end);
  const int64_t inner_end = std::clamp(query_slot - axis.low + 1, inner_begin, end);
  const float* descending = by_distance + query_slot - axis.low;
  for (int64_t s = begin; s < inner_begin; s++) logits[s] += by_distance[axis.high - axis.low];
  for (int64_t s = inner_begin; s < inner_end; s++) logits[s] += descending[-s];
  for (int64_t s = inner_end; s < end; s++) logits[s] += by_distance[0];
}

// Replaces the logits in the window with e^(logit - highest logit); returns their sum.
inline float exponentials(float* logits, const Window& window) {
  float highest = -INFINITY, sum = 0.0f;
  for (const Segment& segment : window)
    highest = highest_of(logits + segment.begin, segment.end - segment.begin, highest);
  for (const Segment& segment : window) {
#pragma omp simd reduction(+ : sum)
    for (int64_t s = segment.begin; s < segment.end; s++) {
      logits[s] = exponential(logits[s] - highest);
      sum += logits[s];
    }
  }
  return sum;
}

// Attention in one head of one layer, for `rows` rows from `first_row` on. The cache already has the keys and
// values of the newest tokens. Tokens that all rows share are read once for all rows, from row 0.
template <class Format>
struct HeadAttention {
  const Terms& terms;
  const Cache& cache;
  int64_t layer, head, first_row, rows;
  Scratch<Format>& scratch;
  Window window = cache.window(terms.block);
  Segment shared = cache.shared_slots();
  int64_t size = cache.size, slots = cache.slots(), channels = cache.channels();

  int64_t head_index(int64_t row) const { return cache.head_index(layer, row, head); }
  const uint32_t* keys(int64_t row, int64_t panel) const {
    const int64_t index = head_index(row) * (slots / LANES) + panel;
    return cache.keys + index * groups<Format>(size) * LANES;
  }
  const uint32_t* values(int64_t row, int64_t group) const {
    return cache.values + (head_index(row) * groups<Format>(cache.capacity) + group) * channels;
  }

  // content, position = (queries + bias) times the scale.
  void scale_queries(const float* q, int64_t stride) {
    scratch.content.resize(rows * size);
    scratch.position.resize(rows * size);
    const float scale = static_cast<float>(terms.scale);
    for (int64_t r = 0; r < rows; r++)
      for (int64_t d = 0; d < size; d++) {
        const int64_t channel = head * size + d;
        const float x = q[r * stride + d];
        const float content_bias = terms.content_bias ? terms.content_bias[channel] : 0.0f;
        const float position_bias = terms.position_bias ? terms.position_bias[channel] : 0.0f;
        scratch.content[r * size + d] = (x + content_bias) * scale;
        scratch.position[r * size + d] = (x + position_bias) * scale;
      }
    scratch.content_inputs.assign(scratch.content.data(), rows, size, size);
  }

  // logits = content times keys.
  void compute_content_logits() {
    scratch.logits.resize(rows * slots);
    for (const Segment& segment : window)
      for (int64_t panel = segment.begin / LANES; panel * LANES < segment.end; panel++) {
        const int64_t begin = std::max(segment.begin, panel * LANES);
        const int64_t end = std::min(segment.end, (panel + 1) * LANES);
        if (shared.begin <= begin && end <= shared.end)
          in_row_blocks(rows, [&]<int count>(int64_t r) {
            panel_logits<count>(r, keys(0, panel), panel * LANES, begin, end);
          });
        else
          for (int64_t r = 0; r < rows; r++)
            panel_logits<1>(r, keys(first_row + r, panel), panel * LANES, begin, end);
      }
  }

  // The logits of `count` rows from row r on, for slots begin .. end - 1 of the panel at first_slot.
  template <int count>
  void panel_logits(int64_t r, const uint32_t* panel, int64_t first_slot, int64_t begin,
                    int64_t end) {
    float products[count * LANES];
    multiply_panel<Format, count>(panel, scratch.content_inputs, r, products, LANES);
    for (int64_t i = 0; i < count; i++) {
      const float* product = products + i * LANES + begin - first_slot;
      float* logits = &scratch.logits[(r + i) * slots + begin];
      if (!cache.key_scales) {
        std::copy_n(product, end - begin, logits);
        continue;
      }
      const float* scales = cache.key_scales + head_index(first_row + r + i) * slots + begin;
      for (int64_t s = 0; s < end - begin; s++) logits[s] = product[s] * scales[s];
    }
  }

  // Adds the terms of one axis; query_coordinates (rows, coordinate_count).
  void add_relative_logits(const Axis& axis, const int64_t* query_coordinates) {
    // The rows of the table to compute: for the order of tokens only those of distances in the window.
    const bool by_order = axis.coordinate < 0;
    const int64_t first = by_order ? axis.row(0) : 0;
    const int64_t last = by_order ? axis.row(window.length - 1) : axis.high - axis.low;
    const int64_t stride = (axis.distances() + LANES - 1) / LANES * LANES;
    if (scratch.by_distance.size() < static_cast<size_t>(rows * stride))
      scratch.by_distance.resize(rows * stride);
    multiply_table(axis, first, last, stride);
    for (int64_t r = 0; r < rows; r++) {
      float *by_distance = &scratch.by_distance[r * stride], *logits = &scratch.logits[r * slots];
      if (axis.bias) {
        const float* bias = axis.bias + (axis.bias_heads > 1 ? head : 0) * axis.distances();
        for (int64_t d = first; d <= last; d++) by_distance[d] += bias[d];
      }
      for (const Segment& segment : window)
        if (by_order)
          add_by_order(axis, segment, by_distance, logits);
        else
          add_by_coordinate(axis, segment, r, query_coordinates, by_distance, logits);
    }
  }

  void add_by_coordinate(const Axis& axis, const Segment& segment, int64_t r,
                         const int64_t* query_coordinates, const float* by_distance,
                         float* logits) const {
    const int64_t index = (first_row + r) * cache.coordinate_count + axis.coordinate;
    const int64_t* keys = cache.coordinates + index * cache.capacity;
    const int64_t query = query_coordinates[r * cache.coordinate_count + axis.coordinate];
    for (int64_t s = segment.begin; s < segment.end; s++)
      if (keys[s] != NOT_MEASURED) logits[s] += by_distance[axis.row(query - keys[s])];
  }

  // by_distance (rows, stride) = position times rows `first` to `last` of the table, 0 without a table.
  void multiply_table(const Axis& axis, int64_t first, int64_t last, int64_t stride) {
    float* by_distance = scratch.by_distance.data();
    const int64_t table_head = axis.table_heads > 1 ? head : 0;
    const auto multiply = [&]<class Stored>(Inputs<Stored>& x) {
      x.assign(scratch.position.data(), rows, size, size);
      const int64_t words = groups<Stored>(size) * LANES;
      const uint32_t* table = axis.table + table_head * (stride / LANES) * words;
      for (int64_t panel = first / LANES; panel <= last / LANES; panel++)
        in_row_blocks(rows, [&]<int count>(int64_t r) {
          multiply_panel<Stored, count>(table + panel * words, x, r,
                                        by_distance + r * stride + panel * LANES, stride);
        });
    };
    if (!axis.table) {
      std::fill(by_distance, by_distance + rows * stride, 0.0f);
    } else if (!axis.scales) {
      multiply(scratch.position_inputs);
    } else {
      multiply(scratch.position_bytes);
      const float* scales = axis.scales + table_head * stride;
      for (int64_t r = 0; r < rows; r++)
        for (int64_t d = first; d <= last; d++) by_distance[r * stride + d] *= scales[d];
    }
  }

  // Turns the logits into weights and sums them in `totals`.
  void compute_weights() {
    scratch.totals.resize(rows);
    for (int64_t r = 0; r < rows; r++)
      scratch.totals[r] = exponentials(&scratch.logits[r * slots], window);
    const float* weights = scratch.logits.data();
    if (cache.value_scales) {  // multiply each weight by its value's scale; 0 outside the window
      scratch.scaled_weights.assign(rows * slots, 0.0f);
      for (int64_t r = 0; r < rows; r++) {
        const float* scales = cache.value_scales + head_index(first_row + r) * slots;
        for (const Segment& segment : window)
          for (int64_t s = segment.begin; s < segment.end; s++)
            scratch.scaled_weights[r * slots + s] = scratch.logits[r * slots + s] * scales[s];
      }
      weights = scratch.scaled_weights.data();
    }
    const int64_t used = window.wraps() ? cache.capacity : window.last_slot + 1;
    scratch.weight_inputs.assign(weights, rows, used, slots);
  }

  // outputs (rows, channels) = weights times values.
  void sum_values() {
    scratch.sums.clear();
    scratch.sums.resize(rows * channels / WIDTH);
    // Each group of slots is added once, even if both segments have slots in it.
    const int64_t begin = window.first_slot / Format::GROUP;
    const int64_t end = groups<Format>(window.last_slot + 1);
    if (!window.wraps()) {
      sum_groups(begin, end);
    } else {
      sum_groups(0, end);
      sum_groups(std::max(begin, end), groups<Format>(cache.capacity));
    }
    scratch.outputs.resize(rows * channels);
    for (int64_t r = 0; r < rows; r++)
      for (int64_t d = 0; d < channels; d += WIDTH)
        store_vector(&scratch.outputs[r * channels + d],
                     Format::value(scratch.sums[(r * channels + d) / WIDTH],
                                   scratch.weight_inputs.prepared[r]));
  }

  // Adds the groups of slots begin .. end - 1: shared ones for all rows at once, the others row by row.
  void sum_groups(int64_t begin, int64_t end) {
    const auto add = [&]<int count>(int64_t r, int64_t values_row, int64_t from, int64_t to) {
      const Inputs<Format>& weights = scratch.weight_inputs;
      add_weighted_values<Format, count>(values(values_row, from), channels, weights.row(r) + from,
                                         weights.stride, to - from,
                                         &scratch.sums[r * channels / WIDTH]);
    };
    const int64_t shared_begin = std::clamp(groups<Format>(shared.begin), begin, end);
    const int64_t shared_end = std::clamp(shared.end / Format::GROUP, shared_begin, end);
    for (int64_t r = 0; r < rows; r++)
      add.template operator()<1>(r, first_row + r, begin, shared_begin);
    for (int64_t group = shared_begin; group < shared_end; group += BLOCK)  // stays in the cache
      in_row_blocks(rows, [&]<int count>(int64_t r) {
        add.template operator()<count>(r, 0, group, std::min(group + BLOCK, shared_end));
      });
    for (int64_t r = 0; r < rows; r++)
      add.template operator()<1>(r, first_row + r, shared_end, end);
  }

  // Adds the value table, weighted with the sum of the weights at each distance.
  void add_value_table() {
    const Axis& axis = terms.axes[0];
    const int64_t distances = axis.distances();
    const uint32_t* table = terms.value_table;
    table += (terms.value_heads > 1 ? head : 0) * distances * channels;
    std::vector<float>& by_distance = scratch.by_distance;
    for (int64_t r = 0; r < rows; r++) {
      by_distance.assign(std::max<size_t>(by_distance.size(), distances), 0.0f);
      for (const Segment& segment : window)
        for (int64_t s = segment.begin; s < segment.end; s++)
          by_distance[axis.row(segment.query_slot - s)] += scratch.logits[r * slots + s];
      add_weighted_values<Float32, 1>(table, channels, by_distance.data(), 0, distances,
                                      &scratch.outputs[r * channels]);
    }
  }

  // Computes out (rows, size), with row stride out_stride, from the rotated queries q, with row stride q_stride.
  void run(const float* q, int64_t q_stride, const int64_t* query_coordinates, float* out,
           int64_t out_stride) {
    scale_queries(q, q_stride);
    compute_content_logits();
    for (int64_t a = 0; a < terms.count; a++) add_relative_logits(terms.axes[a], query_coordinates);
    compute_weights();
    sum_values();
    if (terms.value_table) add_value_table();
    for (int64_t r = 0; r < rows; r++)
      for (int64_t d = 0; d < size; d++)
        out[r * out_stride + d] = scratch.outputs[r * channels + d] / scratch.totals[r];
  }
};

}  // namespace
