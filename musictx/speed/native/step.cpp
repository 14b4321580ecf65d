// One step of decoding in one call: ids in, logits of the next ids out, for a few rows at once.
//
// It computes what musictx/model/transformer.py computes for one new id over a cache or, if the layers read
// a group of ids as one token, musictx/songs/grouped.py; the tests compare them. In Python a step consists
// of about a hundred small operations, which take longer to start than to compute.
//
// lanes.h and matrix.h have the products, cached_attention.h has attention over the cache. Each feature is a
// struct in a header next to its Python file. The compiler includes these headers before this file, and the
// macro FEATURES lists the names of the structs, separated by commas.
#include <cmath>
#include <tuple>
#include <utility>
#include <vector>

#include "cached_attention.h"
#include "feature.h"

namespace {

struct Norm {
  const float *weight, *bias;
  double epsilon;
};

struct Layer {
  const float* first_values;  // (heads,) the share of the first layer's values; may be null
  Norm attention_norm, feedforward_norm;
  Matrix qkv;  // queries, keys, values and, with gates, one gate for each head
  Matrix out, up, down;
  Terms terms;
};

// How a coordinate is computed from an id (attention/positions/coordinates.py): TABLES looks it up in both
// tables, SUM is the running sum over the first one, VOICE is the voice at the token's position.
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
  const float* embedding;  // (vocabulary, width): what depends on the id alone
  const Layer* layers;
  const double* frequencies;  // (size / 2,) radians a position, for rotary; may be null
  const Reader* readers;
  const void* const* features;  // in the order of FEATURES; null for those that the model lacks
  const int64_t* feature_order;  // (feature_count,) indices of `features`, in the model's order
  const Map* maps;  // (group - 1,)
  Norm norm;
  Matrix output;
  int64_t width, feedforward, vocabulary, gates, feature_count;
};

void normalise(const Norm& norm, const float* x, int64_t rows, int64_t width, float* y) {
  for (int64_t r = 0; r < rows; r++, x += width, y += width) {
    float sum = 0.0f, squares = 0.0f;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < width; i++) sum += x[i];
    const float mean = sum / width;
#pragma omp simd reduction(+ : squares)
    for (int64_t i = 0; i < width; i++) squares += (x[i] - mean) * (x[i] - mean);
    const float factor = 1.0f / std::sqrt(squares / width + static_cast<float>(norm.epsilon));
    for (int64_t i = 0; i < width; i++) y[i] = (x[i] - mean) * factor * norm.weight[i] + norm.bias[i];
  }
}

// x Phi(x), with erf by Abramowitz and Stegun 7.1.26, whose error is below 1.5e-7.
void gelu(float* x, int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    const float z = std::fabs(x[i]) * 0.70710678f;
    const float t = 1.0f / (1.0f + 0.3275911f * z);
    float p = 1.061405429f;
    p = p * t - 1.453152027f;
    p = p * t + 1.421413741f;
    p = p * t - 0.284496736f;
    p = p * t + 0.254829592f;
    const float tail = 0.5f * p * t * exponential(-z * z);  // Phi(-|x|)
    x[i] *= x[i] > 0.0f ? 1.0f - tail : tail;
  }
}

// Rotary positions: rotates neighbouring pairs of numbers.
void rotate(float* x, const float* cosines, const float* sines, int64_t size) {
  for (int64_t c = 0; c < size / 2; c++) {
    const float first = x[2 * c], second = x[2 * c + 1];
    x[2 * c] = first * cosines[c] - second * sines[c];
    x[2 * c + 1] = first * sines[c] + second * cosines[c];
  }
}

// Reads the coordinates of `id`: as a query into as_query, as a key into the cache.
void read_coordinates(const Model& model, const Cache& cache, int64_t row, int64_t id, int64_t* as_query) {
  for (int64_t n = 0; n < cache.coordinate_count; n++) {
    const Reader& reader = model.readers[n];
    int64_t* keys = cache.coordinates + (row * cache.coordinate_count + n) * cache.capacity;
    int64_t& key = keys[cache.newest % cache.capacity];
    if (reader.kind == TABLES) {
      as_query[n] = reader.as_query[id];
      key = reader.as_key[id];
    } else if (reader.kind == SUM) {
      const int64_t previous = cache.length > 1 ? keys[(cache.newest - 1) % cache.capacity] : 0;
      key = as_query[n] = previous + reader.as_query[id];
    } else {
      as_query[n] = cache.newest % reader.voices;
      key = cache.newest ? (cache.newest - 1) % reader.voices : NOT_MEASURED;
    }
  }
}

// All structs that this library was compiled with.
using Features = std::tuple<FEATURES>;

// The ids of one row and the state of each feature.
template <class>
struct RowState;
template <class... Each>
struct RowState<std::tuple<Each...>> {
  std::vector<int64_t> ids;
  History history;
  std::tuple<typename Each::State...> states;
};
using Row = RowState<Features>;

// Calls act(feature, index) for each feature of the model, in the model's order. The index in FEATURES is a
// compile-time constant.
template <class Act>
void for_each(const Model& model, const Act& act) {
  for (int64_t part = 0; part < model.feature_count; part++)
    [&]<size_t... N>(std::index_sequence<N...>) {
      ((model.feature_order[part] == N
            ? act(*static_cast<const std::tuple_element_t<N, Features>*>(model.features[N]),
                  std::integral_constant<size_t, N>())
            : void()),
       ...);
    }(std::make_index_sequence<std::tuple_size_v<Features>>());
}

// Reads row `number` of the cache into `row`: its ids and the states of features. Adds the embeddings of the
// features to x (width,).
void embed(const Model& model, const Cache& cache, int64_t number, Row& row, float* x) {
  if (!std::tuple_size_v<Features>) return;
  // Copies the ring of ids, oldest first.
  const int64_t ring = cache.capacity * cache.group, newest = cache.newest % cache.capacity;
  const int64_t* ids = cache.ids + number * ring;
  const int64_t oldest = (cache.newest - cache.length + 1) % cache.capacity * cache.group;
  const int64_t last = newest * cache.group + cache.field + 1;
  if (oldest < last) {
    row.ids.assign(ids + oldest, ids + last);
  } else {
    row.ids.assign(ids + oldest, ids + ring);
    row.ids.insert(row.ids.end(), ids, ids + last);
  }
  const int64_t count = static_cast<int64_t>(row.ids.size());
  row.history = {row.ids.data(), count, cache.newest * cache.group + cache.field};
  for_each(model, [&](const auto& feature, auto n) {
    auto& state = std::get<n>(row.states);
    feature.read(row.history, state);
    feature.embed(row.history, state, x, model.width);
  });
}

// Adds the scores of all features to logits (rows, vocabulary), given the network's output x (rows, width).
void score(const Model& model, const std::vector<Row>& batch, const float* x, float* logits) {
  const int64_t rows = static_cast<int64_t>(batch.size()), vocabulary = model.vocabulary;
  std::vector<float> products;
  for_each(model, [&](const auto& feature, auto n) {
    const int64_t count = feature.scores.outputs;
    products.resize(rows * count);
    if (count) product(feature.scores, x, rows, products.data(), 1);
    for (int64_t r = 0; r < rows; r++)
      feature.score(batch[r].history, std::get<n>(batch[r].states), products.data() + r * count,
                    logits + r * vocabulary, vocabulary);
  });
}

// Runs all layers in place on x (rows, width), the newest tokens; query_coordinates (rows, coordinate_count).
// `Format` is that of the cached keys and values.
template <class Format>
void run_layers(const Model& model, const Cache& cache, const std::vector<int64_t>& query_coordinates,
             std::vector<float>& x, int threads) {
  const int64_t rows = cache.rows, width = model.width, heads = cache.heads, size = cache.size;
  const int64_t stride = 3 * width + (model.gates ? heads : 0);
  std::vector<float> y(rows * width), qkv(rows * stride), mixed(rows * width);
  std::vector<float> values(rows * width), hidden(rows * model.feedforward);
  std::vector<float> cosines(size / 2), sines(size / 2);
  if (model.frequencies)
    for (int64_t c = 0; c < size / 2; c++) {
      cosines[c] = static_cast<float>(std::cos(cache.newest * model.frequencies[c]));
      sines[c] = static_cast<float>(std::sin(cache.newest * model.frequencies[c]));
    }
  std::vector<Scratch<Format>> scratch(threads);

  for (int64_t number = 0; number < cache.layers; number++) {
    const Layer& layer = model.layers[number];
    normalise(layer.attention_norm, x.data(), rows, width, y.data());
    product(layer.qkv, y.data(), rows, qkv.data(), threads);
    // Computes one head for `count` rows from r on.
    const auto attend = [&](int64_t r, int64_t count, int64_t h, int thread) {
      for (int64_t n = r; n < r + count; n++) {
        float* q = qkv.data() + n * stride + h * size;
        float *k = q + width, *v = k + width, *first = values.data() + (n * heads + h) * size;
        if (number == 0)
          std::copy_n(v, size, first);
        else if (layer.first_values)
          for (int64_t d = 0; d < size; d++) v[d] += layer.first_values[h] * (first[d] - v[d]);
        if (model.frequencies) {
          rotate(q, cosines.data(), sines.data(), size);
          rotate(k, cosines.data(), sines.data(), size);
        }
        store_newest<Format>(cache, number, n, h, k, v);
      }
      float* out = mixed.data() + (r * heads + h) * size;
      HeadAttention<Format>{layer.terms, cache, number, h, r, count, scratch[thread]}.run(
          qkv.data() + r * stride + h * size, stride,
          query_coordinates.data() + r * cache.coordinate_count, out, width);
      if (model.gates)
        for (int64_t n = 0; n < count; n++) {
          const float gate = 2.0f / (1.0f + std::exp(-qkv[(r + n) * stride + 3 * width + h]));
          for (int64_t d = 0; d < size; d++) out[n * width + d] *= gate;
        }
    };
    // A single thread computes all rows of a head together, so that it reads shared tokens once. Several
    // threads share out heads and blocks of rows.
    const int used = rows * cache.length * width > PARALLEL ? threads : 1;
    const int64_t block = used > 1 ? ROWS : rows;
    const int64_t blocks = (rows + block - 1) / block, tasks = heads * blocks;
    parallel(used, [&](int thread) {
      for (int64_t n = tasks * thread / used; n < tasks * (thread + 1) / used; n++) {
        const int64_t r = n % blocks * block;
        attend(r, std::min(block, rows - r), n / blocks, thread);
      }
    });
    product(layer.out, mixed.data(), rows, y.data(), threads);
    add(x.data(), y.data(), rows * width);
    normalise(layer.feedforward_norm, x.data(), rows, width, y.data());
    product(layer.up, y.data(), rows, hidden.data(), threads);
    gelu(hidden.data(), rows * model.feedforward);
    product(layer.down, hidden.data(), rows, y.data(), threads);
    add(x.data(), y.data(), rows * width);
  }
}

// Advances states (rows, width) from one id of a group to the next id, whose embedding is x (rows, width).
void advance_in_group(const Map& map, std::vector<float>& x, int64_t rows, float* states, int threads) {
  std::vector<float> y(x.size()), hidden(rows * map.up.outputs);
  add(x.data(), states, x.size());
  normalise(map.norm, x.data(), rows, map.up.inputs, y.data());
  product(map.up, y.data(), rows, hidden.data(), threads);
  gelu(hidden.data(), hidden.size());
  product(map.down, hidden.data(), rows, y.data(), threads);
  add(states, y.data(), y.size());
}

void step(const Model& model, const Cache& cache, const int64_t* ids, const float* position_embedding,
          float* logits, int threads) {
  const int64_t rows = cache.rows, width = model.width;
  const bool first_id = cache.field == 0;  // whether `ids` begin new tokens, which the layers then read
  std::vector<float> x(rows * width);
  std::vector<int64_t> query_coordinates(rows * cache.coordinate_count + 1);
  std::vector<Row> batch(rows);
  for (int64_t r = 0; r < rows; r++) {
    const int64_t slot = r * cache.capacity + cache.newest % cache.capacity;
    cache.ids[slot * cache.group + cache.field] = ids[r];
    if (first_id) read_coordinates(model, cache, r, ids[r], query_coordinates.data() + r * cache.coordinate_count);
    float *embedded = x.data() + r * width, *sum = cache.sums + r * width;
    std::copy_n(model.embedding + ids[r] * width, width, embedded);
    if (first_id && position_embedding) add(embedded, position_embedding, width);
    embed(model, cache, r, batch[r], embedded);
    // The first id of a token also embeds the other ids of the previous token: their sum.
    add(first_id ? embedded : sum, first_id ? sum : embedded, width);
    if (first_id) std::fill_n(sum, width, 0.0f);
  }
  if (first_id) {
    if (cache.key_scales)
      run_layers<Bytes>(model, cache, query_coordinates, x, threads);
    else
      run_layers<Float32>(model, cache, query_coordinates, x, threads);
    for_each(model, [&](const auto& feature, auto n) {
      for (int64_t r = 0; r < rows && cache.group == 1; r++)
        feature.add_to_output(batch[r].history, std::get<n>(batch[r].states), x.data() + r * width, width);
    });
    normalise(model.norm, x.data(), rows, width, cache.states);
  } else {
    advance_in_group(model.maps[cache.field - 1], x, rows, cache.states, threads);
  }
  product(model.output, cache.states, rows, logits, threads);
  score(model, batch, cache.states, logits);
}

}  // namespace

#define MUSICTX_TEXT(...) #__VA_ARGS__
#define MUSICTX_NAMES(...) MUSICTX_TEXT(__VA_ARGS__)
// The names of the feature structs, in the order of FEATURES, separated by commas.
MUSICTX_EXPORT const char* musictx_features() { return MUSICTX_NAMES(FEATURES); }

// Reads ids (rows,), id number `field` of the tokens at position `newest`; `length` counts these tokens, too.
// Adds position_embedding (width,), which may be null, to the embeddings. Writes logits (rows, vocabulary).
MUSICTX_EXPORT void musictx_step(const Model* model, const Cache* cache, const int64_t* ids,
                                 const float* position_embedding, float* logits, int64_t threads) {
  step(*model, *cache, ids, position_embedding, logits, static_cast<int>(threads));
}
