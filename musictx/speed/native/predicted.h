// The base structs of features that predict ids (model/features/base.py).
#pragma once
#include <algorithm>
#include <type_traits>

#include "feature.h"

namespace {

// The predicted next ids, 0 for none; the class of confidence in each; the index of the next id in its group,
// 0 for tokens without groups.
template <int64_t COUNT>
struct Predictions {
  int64_t ids[COUNT] = {}, confidence[COUNT] = {}, field = 0;
};

struct PredictionFeature : Feature {
  // `scores` has one output for each combination of field, prediction and class.
  int64_t classes;

  template <class State>
  void score(const History&, const State& state, const float* products, float* logits, int64_t) const {
    constexpr int64_t COUNT = std::extent_v<decltype(State::ids)>;
    for (int64_t n = 0; n < COUNT; n++) {
      const int64_t row = (state.field * COUNT + n) * classes + state.confidence[n];
      if (state.ids[n]) logits[state.ids[n]] += products[row];
    }
  }
};

// Also embeds the predictions: adds the gate of each times the vector of its id in `stood` (size, width), and
// the vector of its class.
struct Gated : PredictionFeature {
  const float *stood, *gates, *class_embeddings;
  int64_t size;

  template <class State>
  void embed(const History&, const State& state, float* x, int64_t width) const {
    for (int64_t n = 0; n < static_cast<int64_t>(std::extent_v<decltype(State::ids)>); n++) {
      const int64_t row = n * classes + state.confidence[n];
      const float* vector = stood + std::min(state.ids[n], size - 1) * width;
      if (state.ids[n])
        for (int64_t i = 0; i < width; i++) x[i] += gates[row] * vector[i];
      add(x, class_embeddings + row * width, width);
    }
  }
};

}  // namespace
