// The base structs of features that predict ids (model/features/predicted.py).
#pragma once
#include <algorithm>
#include <type_traits>

#include "feature.h"

namespace {

// The predicted next ids, 0 for none; the class of confidence in each; which field of a group is next.
template <int64_t COUNT>
struct Predictions {
  int64_t ids[COUNT] = {}, trust[COUNT] = {}, field = 0;
};

struct Predicted : Feature {
  // `scores` has one output for each combination of field, prediction and class.
  int64_t classes;

  template <class Seen>
  void score(const History&, const Seen& seen, const float* scored, float* logits, int64_t) const {
    constexpr int64_t COUNT = std::extent_v<decltype(Seen::ids)>;
    for (int64_t n = 0; n < COUNT; n++)
      if (seen.ids[n]) logits[seen.ids[n]] += scored[(seen.field * COUNT + n) * classes + seen.trust[n]];
  }
};

// Also embeds the predictions: adds the gate of each times its row of `stood` (size, width), and a vector for
// its class.
struct Gated : Predicted {
  const float *stood, *gates, *by_class;
  int64_t size;

  template <class Seen>
  void embed(const History&, const Seen& seen, float* x, int64_t width) const {
    for (int64_t n = 0; n < static_cast<int64_t>(std::extent_v<decltype(Seen::ids)>); n++) {
      const int64_t row = n * classes + seen.trust[n];
      const float* from = stood + std::min(seen.ids[n], size - 1) * width;
      if (seen.ids[n])
        for (int64_t i = 0; i < width; i++) x[i] += gates[row] * from[i];
      add(x, by_class + row * width, width);
    }
  }
};

}  // namespace
