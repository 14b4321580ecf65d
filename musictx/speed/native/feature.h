// What the step of decoding asks of a feature of the ids so far, for one new token. A feature is a
// struct with tables and numbers (``NativeForm`` in model/features/base.py), in a header that stands
// beside its Python file, which says what it means and is what the struct is compared with.
//
// Everything is read off the ids anew, oldest first: a thousand of them take microseconds, and nothing
// has to be kept when rows are dropped, copied or cut.
#pragma once
#include <vector>

#include "matrix.h"

namespace {

// Ids of one row that are held, oldest first, the new one last; it stands at place `place`.
struct History {
  const int64_t* ids;
  int64_t count, place;

  int64_t back(int64_t n) const { return n < count ? ids[count - 1 - n] : -1; }
};

inline void add(float* x, const float* more, int64_t width) {
  for (int64_t i = 0; i < width; i++) x[i] += more[i];
}

struct None {};

// The members that a feature may have; one that it does not name does nothing.
struct Feature {
  Matrix scores;      // what the output is multiplied with for `score`; may have no outputs
  using Seen = None;  // what `read` finds for one row

  template <class Seen>
  void read(const History&, Seen&) const {}
  // Adds to the embedding x (width,).
  template <class Seen>
  void embed(const History&, const Seen&, float*, int64_t) const {}
  // Adds to x (width,) after the last layer, before its norm.
  template <class Seen>
  void finish(const History&, const Seen&, float*, int64_t) const {}
  // Adds to logits (vocabulary,); `scored` is the product of `scores` and the output.
  template <class Seen>
  void score(const History&, const Seen&, const float*, float*, int64_t) const {}
};

}  // namespace
