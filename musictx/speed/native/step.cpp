// One step of decoding as one call: ids in, logits of the next ids out, for a few rows at once.
//
// What musictx/model/transformer.py computes for one new id over a cache, and what it is compared with;
// where the layers take a group of ids as one token, musictx/songs/grouped.py. A pass in Python is some
// hundred small operations, and to start them takes longer than to do them; here nothing stands between
// the memory that holds the weights and the arithmetic.
//
// lanes.h and matrix.h have the products, cached.h attention over the cache. What is read off the ids are
// structs of the model's features, each in a header next to its Python file: the compiler includes these
// headers before this file, and the macro FEATURES has the names of the structs with commas between.
#include <cmath>
#include <tuple>
#include <utility>
#include <vector>

#include "cached.h"
#include "feature.h"

namespace {

struct Norm {
  const float *weight, *bias;
  double epsilon;
};

struct Layer {
  const float* first_values;  // (heads,) the share of the first layer's values; may be missing
  Norm attention_norm, feedforward_norm;
  Matrix qkv;  // queries, keys, values and, with gates, a number for each head
  Matrix out, up, down;
  Terms terms;
};

// How a coordinate is read off an id: from two tables; as a running sum of the first; or as the voice
// of the token's place (attention/positions/coordinates.py).
enum Kind : int64_t { TABLES, SUM, VOICE };
struct Reader {
  const int64_t *as_query, *as_key;
  int64_t kind, voices;
};

// One of the maps of musictx/songs/grouped.py.
struct Map {
  Norm norm;
  Matrix up, down;
};

struct Model {
  const float* embedding;  // (vocabulary, width), with all that the id alone decides
  const Layer* layers;
  const double* frequencies;  // (size / 2,) radians a position, for rotary; may be missing
  const Reader* readers;
  const void* const* features;  // the structs that FEATURES names; those that it lacks are missing
  const int64_t* order;         // the numbers there of those that it has, as they come in turn
  const Map* maps;  // (group - 1,)
  Norm norm;
  Matrix output;
  int64_t width, feedforward, vocabulary, gates, parts;
};

void normed(const Norm& norm, const float* x, int64_t rows, int64_t width, float* y) {
  for (int64_t r = 0; r < rows; r++, x += width, y += width) {
    float sum = 0.0f, squares = 0.0f;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < width; i++) sum += x[i];
    const float mean = sum / width;
#pragma omp simd reduction(+ : squares)
    for (int64_t i = 0; i < width; i++) squares += (x[i] - mean) * (x[i] - mean);
    const float by = 1.0f / std::sqrt(squares / width + static_cast<float>(norm.epsilon));
    for (int64_t i = 0; i < width; i++) y[i] = (x[i] - mean) * by * norm.weight[i] + norm.bias[i];
  }
}

// x Phi(x), with erf by Abramowitz and Stegun 7.1.26: off by less than 1.5e-7.
void gelu(float* x, int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    const float z = std::fabs(x[i]) * 0.70710678f;
    const float t = 1.0f / (1.0f + 0.3275911f * z);
    float p = 1.061405429f;
    p = p * t - 1.453152027f;
    p = p * t + 1.421413741f;
    p = p * t - 0.284496736f;
    p = p * t + 0.254829592f;
    const float beyond = 0.5f * p * t * exponential(-z * z);  // of the normal distribution
    x[i] *= x[i] > 0.0f ? 1.0f - beyond : beyond;
  }
}

void turn(float* x, const float* cosines, const float* sines, int64_t size) {
  for (int64_t c = 0; c < size / 2; c++) {
    const float first = x[2 * c], second = x[2 * c + 1];
    x[2 * c] = first * cosines[c] - second * sines[c];
    x[2 * c + 1] = first * sines[c] + second * cosines[c];
  }
}

// Coordinates of `id` as a query; as a key they are written into the cache.
void read(const Model& model, const Cache& cache, int64_t row, int64_t id, int64_t* as_query) {
  for (int64_t n = 0; n < cache.further; n++) {
    const Reader& reader = model.readers[n];
    int64_t* keys = cache.coordinates + (row * cache.further + n) * cache.capacity;
    int64_t& key = keys[cache.newest % cache.capacity];
    if (reader.kind == TABLES) {
      as_query[n] = reader.as_query[id];
      key = reader.as_key[id];
    } else if (reader.kind == SUM) {
      const int64_t before = cache.held > 1 ? keys[(cache.newest - 1) % cache.capacity] : 0;
      key = as_query[n] = before + reader.as_query[id];
    } else {
      as_query[n] = cache.newest % reader.voices;
      key = cache.newest ? (cache.newest - 1) % reader.voices : NOT_MEASURED;
    }
  }
}

// The structs of the model's features, in the order of FEATURES.
using Kinds = std::tuple<FEATURES>;

// What the features have read for one row.
template <class>
struct SeenOf;
template <class... Each>
struct SeenOf<std::tuple<Each...>> {
  std::vector<int64_t> ids;
  History past;
  std::tuple<typename Each::Seen...> each;
};
using Seen = SeenOf<Kinds>;

// act(feature, number) for each feature of the model in turn; the number is a constant.
template <class Act>
void for_each(const Model& model, const Act& act) {
  for (int64_t part = 0; part < model.parts; part++)
    [&]<size_t... N>(std::index_sequence<N...>) {
      ((model.order[part] == N
            ? act(*static_cast<const std::tuple_element_t<N, Kinds>*>(model.features[N]),
                  std::integral_constant<size_t, N>())
            : void()),
       ...);
    }(std::make_index_sequence<std::tuple_size_v<Kinds>>());
}

void embed(const Model& model, const Cache& cache, int64_t row, Seen& seen, float* x) {
  if (!std::tuple_size_v<Kinds>) return;
  // From the oldest slot to the last, then from the first to the newest.
  const int64_t all = cache.capacity * cache.group, newest = cache.newest % cache.capacity;
  const int64_t* ids = cache.ids + row * all;
  const int64_t oldest = (cache.newest - cache.held + 1) % cache.capacity * cache.group;
  const int64_t last = newest * cache.group + cache.field + 1;
  if (oldest < last) {
    seen.ids.assign(ids + oldest, ids + last);
  } else {
    seen.ids.assign(ids + oldest, ids + all);
    seen.ids.insert(seen.ids.end(), ids, ids + last);
  }
  const int64_t count = static_cast<int64_t>(seen.ids.size());
  seen.past = {seen.ids.data(), count, cache.newest * cache.group + cache.field};
  for_each(model, [&](const auto& feature, auto n) {
    auto& state = std::get<n>(seen.each);
    feature.read(seen.past, state);
    feature.embed(seen.past, state, x, model.width);
  });
}

void score(const Model& model, const std::vector<Seen>& seen, const float* x, float* logits) {
  const int64_t rows = static_cast<int64_t>(seen.size()), words = model.vocabulary;
  std::vector<float> scored;
  for_each(model, [&](const auto& feature, auto n) {
    const int64_t count = feature.scores.outputs;
    scored.resize(rows * count);
    if (count) product(feature.scores, x, rows, scored.data(), 1);
    for (int64_t r = 0; r < rows; r++)
      feature.score(seen[r].past, std::get<n>(seen[r].each), scored.data() + r * count,
                    logits + r * words, words);
  });
}

// x (rows, width) of the newest tokens, through all layers; `here` are their coordinates. Keys and values are
// held in `Format`.
template <class Format>
void through(const Model& model, const Cache& cache, const std::vector<int64_t>& here,
             std::vector<float>& x, int threads) {
  const int64_t rows = cache.rows, width = model.width, heads = cache.heads, size = cache.size;
  const int64_t wide = 3 * width + (model.gates ? heads : 0);
  std::vector<float> y(rows * width), qkv(rows * wide), mixed(rows * width);
  std::vector<float> values(rows * width), hidden(rows * model.feedforward);
  std::vector<float> cosines(size / 2), sines(size / 2);
  if (model.frequencies)
    for (int64_t c = 0; c < size / 2; c++) {
      cosines[c] = static_cast<float>(std::cos(cache.newest * model.frequencies[c]));
      sines[c] = static_cast<float>(std::sin(cache.newest * model.frequencies[c]));
    }
  std::vector<Room<Format>> rooms(threads);

  for (int64_t number = 0; number < cache.layers; number++) {
    const Layer& layer = model.layers[number];
    normed(layer.attention_norm, x.data(), rows, width, y.data());
    product(layer.qkv, y.data(), rows, qkv.data(), threads);
    // Rows from r on, one head, in one of the threads.
    const auto look = [&](int64_t r, int64_t count, int64_t h, int thread) {
      for (int64_t n = r; n < r + count; n++) {
        float* q = qkv.data() + n * wide + h * size;
        float *k = q + width, *v = k + width, *first = values.data() + (n * heads + h) * size;
        if (number == 0)
          std::copy_n(v, size, first);
        else if (layer.first_values)
          for (int64_t d = 0; d < size; d++) v[d] += layer.first_values[h] * (first[d] - v[d]);
        if (model.frequencies) {
          turn(q, cosines.data(), sines.data(), size);
          turn(k, cosines.data(), sines.data(), size);
        }
        keep<Format>(cache, number, n, h, k, v);
      }
      float* out = mixed.data() + (r * heads + h) * size;
      attend(layer.terms, cache, number, r, count, h, qkv.data() + r * wide + h * size, wide,
             here.data() + r * cache.further, out, width, rooms[thread]);
      if (model.gates)
        for (int64_t n = 0; n < count; n++) {
          const float gate = 2.0f / (1.0f + std::exp(-qkv[(r + n) * wide + 3 * width + h]));
          for (int64_t d = 0; d < size; d++) out[n * width + d] *= gate;
        }
    };
    const bool shared = threads > 1 && rows * cache.held * width > SHARED;
    // One thread reads what rows share once for all; several divide the rows too.
    const int64_t each = shared ? ROWS : rows;
    const int64_t parts = (rows + each - 1) / each, tasks = heads * parts;
    const int count = shared ? threads : 1;
    parallel(count, [&](int thread) {
      for (int64_t n = tasks * thread / count; n < tasks * (thread + 1) / count; n++) {
        const int64_t r = n % parts * each;
        look(r, std::min(each, rows - r), n / parts, thread);
      }
    });
    product(layer.out, mixed.data(), rows, y.data(), threads);
    add(x.data(), y.data(), rows * width);
    normed(layer.feedforward_norm, x.data(), rows, width, y.data());
    product(layer.up, y.data(), rows, hidden.data(), threads);
    gelu(hidden.data(), rows * model.feedforward);
    product(layer.down, hidden.data(), rows, y.data(), threads);
    add(x.data(), y.data(), rows * width);
  }
}

// states (rows, width) of one id of a group -> those of the next, of which x (rows, width) is read.
void go_on(const Map& map, std::vector<float>& x, int64_t rows, float* states, int threads) {
  std::vector<float> y(x.size()), hidden(rows * map.up.outputs);
  add(x.data(), states, x.size());
  normed(map.norm, x.data(), rows, map.up.inputs, y.data());
  product(map.up, y.data(), rows, hidden.data(), threads);
  gelu(hidden.data(), hidden.size());
  product(map.down, hidden.data(), rows, y.data(), threads);
  add(states, y.data(), y.size());
}

void step(const Model& model, const Cache& cache, const int64_t* ids, const float* place,
          float* logits, int threads) {
  const int64_t rows = cache.rows, width = model.width;
  const bool begins = cache.field == 0;
  std::vector<float> x(rows * width);
  std::vector<int64_t> here(rows * cache.further + 1);
  std::vector<Seen> seen(rows);
  for (int64_t r = 0; r < rows; r++) {
    const int64_t slot = r * cache.capacity + cache.newest % cache.capacity;
    cache.ids[slot * cache.group + cache.field] = ids[r];
    if (begins) read(model, cache, r, ids[r], here.data() + r * cache.further);
    float *to = x.data() + r * width, *sum = cache.sums + r * width;
    std::copy_n(model.embedding + ids[r] * width, width, to);
    if (begins && place) add(to, place, width);
    embed(model, cache, r, seen[r], to);
    add(begins ? to : sum, begins ? sum : to, width);
    if (begins) std::fill_n(sum, width, 0.0f);
  }
  if (begins) {
    if (cache.key_scales)
      through<Bytes>(model, cache, here, x, threads);
    else
      through<Float32>(model, cache, here, x, threads);
    for_each(model, [&](const auto& feature, auto n) {
      for (int64_t r = 0; r < rows && cache.group == 1; r++)
        feature.finish(seen[r].past, std::get<n>(seen[r].each), x.data() + r * width, width);
    });
    normed(model.norm, x.data(), rows, width, cache.states);
  } else {
    go_on(model.maps[cache.field - 1], x, rows, cache.states, threads);
  }
  product(model.output, cache.states, rows, logits, threads);
  score(model, seen, cache.states, logits);
}

}  // namespace

#define MUSICTX_TEXT(...) #__VA_ARGS__
#define MUSICTX_NAMES(...) MUSICTX_TEXT(__VA_ARGS__)
// The names of the structs in `features`, in their order, with commas between.
MUSICTX_EXPORT const char* musictx_features() { return MUSICTX_NAMES(FEATURES); }

// ids (rows,): number `field` of the tokens at position `newest`, which `held` counts; place (width,) is
// added to what the layers read if it is there; logits (rows, vocabulary).
MUSICTX_EXPORT void musictx_step(const Model* model, const Cache* cache, const int64_t* ids,
                             const float* place, float* logits, int64_t threads) {
  step(*model, *cache, ids, place, logits, static_cast<int>(threads));
}
