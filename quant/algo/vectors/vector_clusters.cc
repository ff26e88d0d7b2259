#include "quant/algo/vectors/vector_clusters.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/checked_math.h"
#include "core/machine/thread_pool.h"
#include "quant/algo/vectors/vector_kernels.h"

namespace nibble::quant {
namespace {

constexpr std::size_t kTile = 8192, kMostTiles = 64;

/// What each vector loses with one entry.
void losses(const WeightedVectors& vectors, std::span<const float> entry, std::vector<std::uint8_t>& codes,
            std::vector<float>& loss) {
  codes.resize(vectors.count);
  loss.resize(vectors.count);
  vector_kernels::nearest()(vectors.scaled.data(), vectors.root.data(), vectors.count, vectors.count, entry.data(), 1,
                            vectors.dim, codes.data(), loss.data());
}

}  // namespace

void WeightedVectors::resize(std::size_t dimensions, std::size_t vectors) {
  dim = dimensions;
  count = vectors;
  scaled.resize(dim * count);
  root.resize(dim * count);
}

void WeightedVectors::set(std::size_t v, std::size_t d, float x, float weight) {
  const float r = std::sqrt(weight);
  root[d * count + v] = r;
  scaled[d * count + v] = r * x;
}

float WeightedVectors::value(std::size_t v, std::size_t d) const {
  const float r = root[d * count + v];
  return r == 0.0f ? 0.0f : scaled[d * count + v] / r;
}

Round assign_vectors(const WeightedVectors& vectors, std::span<const float> palette, std::span<std::uint8_t> codes) {
  const std::size_t dim = vectors.dim, entries = palette.size() / dim;
  const std::size_t tile = std::max(kTile, static_cast<std::size_t>(divide_up(vectors.count, kMostTiles)));
  struct Partial {
    Round round;
    float worst = 0.0f;
    std::size_t worst_vector = 0;
  };
  std::vector<Partial> partials(divide_up(vectors.count, tile));
  const auto nearest = vector_kernels::nearest();
  parallel_for_tiles(vectors.count, tile, [&](std::size_t begin, std::size_t end) {
    Partial& partial = partials[begin / tile];
    Round& round = partial.round;
    round.moments.assign(palette.size(), 0.0);
    round.weights.assign(palette.size(), 0.0);
    round.members.assign(entries, 0);
    std::vector<float> loss(end - begin);
    nearest(vectors.scaled.data() + begin, vectors.root.data() + begin, vectors.count, end - begin, palette.data(),
            entries, dim, codes.data() + begin, loss.data());
    for (std::size_t v = begin; v < end; ++v) {
      const float lost = loss[v - begin];
      round.cost += static_cast<double>(lost);
      if (lost > partial.worst) partial.worst = lost, partial.worst_vector = v;
      ++round.members[codes[v]];
    }
    for (std::size_t d = 0; d < dim; ++d) {
      const float *scaled = vectors.scaled.data() + d * vectors.count, *root = vectors.root.data() + d * vectors.count;
      for (std::size_t v = begin; v < end; ++v) {
        const std::size_t at = codes[v] * dim + d;
        const double r = root[v];
        round.moments[at] += r * static_cast<double>(scaled[v]);
        round.weights[at] += r * r;
      }
    }
  });
  Round total = std::move(partials.front().round);
  for (std::size_t t = 1; t < partials.size(); ++t) {
    const Round& round = partials[t].round;
    total.cost += round.cost;
    for (std::size_t i = 0; i < palette.size(); ++i) {
      total.moments[i] += round.moments[i];
      total.weights[i] += round.weights[i];
    }
    for (std::size_t k = 0; k < entries; ++k) total.members[k] += round.members[k];
  }
  std::stable_sort(partials.begin(), partials.end(),
                   [](const Partial& a, const Partial& b) { return a.worst > b.worst; });
  for (const Partial& partial : partials)
    if (partial.worst > 0.0f) total.worst_vectors.push_back(partial.worst_vector);
  return total;
}

void update_palette(const WeightedVectors& vectors, const Round& round, std::span<float> palette) {
  const std::size_t dim = vectors.dim;
  std::size_t next_worst = 0;
  for (std::size_t k = 0; k < round.members.size(); ++k) {
    if (round.members[k] == 0 && next_worst < round.worst_vectors.size()) {
      const std::size_t v = round.worst_vectors[next_worst++];
      for (std::size_t d = 0; d < dim; ++d) palette[k * dim + d] = vectors.value(v, d);
      continue;
    }
    for (std::size_t at = k * dim; at < (k + 1) * dim; ++at)
      if (round.weights[at] > 0.0) palette[at] = static_cast<float>(round.moments[at] / round.weights[at]);
  }
}

void seed_palette(const WeightedVectors& vectors, Random& random, std::span<float> palette) {
  const std::size_t dim = vectors.dim;
  std::vector<std::uint8_t> codes(vectors.count);
  std::vector<float> entry(dim, 0.0f), loss, least;
  update_palette(vectors, assign_vectors(vectors, entry, codes), entry);  // the mean
  losses(vectors, entry, codes, least);
  for (std::size_t begin = 0; begin < palette.size(); begin += dim) {
    double total = 0.0;
    for (const float lost : least) total += static_cast<double>(lost);
    if (total == 0.0) {
      if (begin == 0) std::copy(entry.begin(), entry.end(), palette.begin());
      for (; begin < palette.size(); ++begin) palette[begin] = palette[begin % dim];
      return;
    }
    double left = random.uniform() * total;
    std::size_t drawn = 0;
    for (std::size_t v = 0; v < vectors.count; ++v) {
      if (least[v] == 0.0f) continue;
      drawn = v;  // the last one that loses anything, should rounding leave something
      left -= static_cast<double>(least[v]);
      if (left < 0.0) break;
    }
    const auto chosen = palette.subspan(begin, dim);
    for (std::size_t d = 0; d < dim; ++d) chosen[d] = vectors.value(drawn, d);
    losses(vectors, chosen, codes, loss);
    loss[drawn] = 0.0f;  // also where its value comes back from its weighted form with a rounding
    for (std::size_t v = 0; v < vectors.count; ++v) least[v] = begin == 0 ? loss[v] : std::min(least[v], loss[v]);
  }
}

}  // namespace nibble::quant
