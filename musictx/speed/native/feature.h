// The interface of features in the C++ decoding step. A feature is a struct with tables and numbers
// (``NativeForm`` in model/features/base.py), in a header next to its Python file. The Python file documents
// the feature and is its specification.
//
// `read` computes the state anew from the cached ids in each step. A thousand ids take microseconds, and nothing
// has to be updated when rows are dropped or copied or the window slides.
#pragma once
#include <vector>

#include "matrix.h"

namespace {

// The cached ids of one row, oldest first. The last one is new; `position` is its position in the piece.
struct History {
  const int64_t* ids;
  int64_t count, position;

  // The id n positions before the new one, -1 if it is not cached.
  int64_t id_before(int64_t n) const { return n < count ? ids[count - 1 - n] : -1; }
};

inline void add(float* x, const float* y, int64_t width) {
  for (int64_t i = 0; i < width; i++) x[i] += y[i];
}

struct None {};

// The base of features: the member functions do nothing unless a feature defines its own.
struct Feature {
  Matrix scores;       // multiplied by the network's output for `score`; may have no outputs
  using State = None;  // the result of `read` for one row

  template <class State>
  void read(const History&, State&) const {}
  // Adds to the embedding x (width,).
  template <class State>
  void embed(const History&, const State&, float*, int64_t) const {}
  // Adds to x (width,) after the last layer, before its norm.
  template <class State>
  void add_to_output(const History&, const State&, float*, int64_t) const {}
  // Adds to logits (vocabulary,); `products` is the product of `scores` and the network's output.
  template <class State>
  void score(const History&, const State&, const float*, float*, int64_t) const {}
};

}  // namespace
