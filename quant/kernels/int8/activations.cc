#include "quant/kernels/int8/activations.h"

#include <algorithm>

#include "quant/kernels/packing/code_layout.h"

namespace nibble::quant {
namespace {

constexpr std::size_t kLanes = 16, kField = 4 * kLanes;

void reorder_by_lanes(float* row, std::size_t count) {
  float copy[kField];
  for (std::size_t first = 0; first < count; first += kField) {
    std::copy_n(row + first, kField, copy);
    for (std::size_t b = 0; b < 4; ++b)
      for (std::size_t lane = 0; lane < kLanes; ++lane) row[first + b * kLanes + lane] = copy[4 * lane + b];
  }
}

// In bytes, for compilers to see vectors in it.
template <std::size_t kBlock>
void take_apart(QuantizedActivations& q) {
  const std::int8_t* x = q.values.data();
  std::int8_t *magnitudes = q.magnitudes.data(), *negative = q.negative.data();
  for (std::size_t b = 0; b < q.less.size(); ++b, x += kBlock, magnitudes += kBlock, negative += kBlock) {
    for (std::size_t j = 0; j < kBlock; ++j) {
      negative[j] = x[j] < 0 ? std::int8_t{-1} : std::int8_t{0};
      magnitudes[j] = static_cast<std::int8_t>((x[j] ^ negative[j]) - negative[j]);
    }
    std::int32_t less = 0;
    for (std::size_t j = 0; j < kBlock; ++j) less += magnitudes[j] & negative[j];
    q.less[b] = less;
  }
}

void take_apart(std::size_t block, QuantizedActivations& q) {
  q.magnitudes.resize(q.values.size());
  q.negative.resize(q.values.size());
  q.less.resize(q.sums.size());
  block == kBlockInputs ? take_apart<kBlockInputs>(q) : take_apart<kBlockInputs / 2>(q);
}

}  // namespace

void arrange_activations(MatrixView<const float> x, std::size_t padded, bool by_lanes, bool with_sums,
                         Activations& arranged) {
  arranged.stride = padded;
  arranged.values.resize(x.rows() * padded);
  const std::size_t blocks = padded / kBlockInputs;
  arranged.block_sums.resize(with_sums ? x.rows() * blocks : 0);
  for (std::size_t t = 0; t < x.rows(); ++t) {
    float* row = arranged.values.data() + t * padded;
    std::fill(std::copy(x.row(t).begin(), x.row(t).end(), row), row + padded, 0.0f);
    for (std::size_t block = 0; with_sums && block < blocks; ++block) {
      double sum = 0.0;
      for (std::size_t j = 0; j < kBlockInputs; ++j) sum += static_cast<double>(row[block * kBlockInputs + j]);
      arranged.block_sums[t * blocks + block] = static_cast<float>(sum);
    }
    if (by_lanes) reorder_by_lanes(row, padded);
  }
}

void quantize_halves(std::span<const float> x, QuantizeActivations quantize, std::int8_t* x8, float* scales,
                     std::int32_t* sums, QuantizedHalves& room) {
  constexpr std::size_t kHalf = kBlockInputs / 2;
  room.x.assign(2 * x.size(), 0.0f);
  room.values.resize(2 * x.size());
  for (std::size_t j = 0; j < x.size(); j += kHalf) std::copy_n(x.data() + j, kHalf, room.x.data() + 2 * j);
  quantize(room.x.data(), room.x.size(), room.values.data(), scales, sums);
  for (std::size_t j = 0; j < x.size(); j += kHalf) std::copy_n(room.values.data() + 2 * j, kHalf, x8 + j);
}

void quantize_activations(std::span<const float> x, std::size_t padded, QuantizeActivations quantize,
                          const ActivationsWish& wish, QuantizedActivations& q) {
  const std::size_t blocks = padded / wish.block;
  q.padded.assign(padded, 0.0f);
  std::copy(x.begin(), x.end(), q.padded.begin());
  q.values.resize(padded);
  q.scales.resize(blocks);
  q.sums.resize(blocks);
  if (wish.block == kBlockInputs) {
    quantize(q.padded.data(), padded, q.values.data(), q.scales.data(), q.sums.data());
  } else {
    quantize_halves(q.padded, quantize, q.values.data(), q.scales.data(), q.sums.data(), q.halves);
  }
  const auto total_of = [&](const std::vector<std::int32_t>& sums) {
    double total = 0.0;
    for (std::size_t b = 0; b < blocks; ++b) total += static_cast<double>(q.scales[b]) * static_cast<double>(sums[b]);
    return static_cast<float>(total);
  };
  q.total = total_of(q.sums);
  if (wish.apart) {
    take_apart(wish.block, q);
    q.less_total = total_of(q.less);
  }
  q.lane_scales.resize(wish.lane_scales ? padded / 4 : 0);
  for (std::size_t lane = 0; lane < q.lane_scales.size(); ++lane) q.lane_scales[lane] = q.scales[lane * 4 / wish.block];
}

}  // namespace nibble::quant
