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

// Magnitudes and signs apart, as kernels want them that can only multiply unsigned by signed bytes.
void take_apart(std::size_t block, QuantizedActivations& q) {
  const std::size_t count = q.values.size();
  q.magnitudes.resize(count);
  q.negative.resize(count);
  q.less.assign(q.sums.size(), 0);
  for (std::size_t j = 0; j < count; ++j) {
    const int value = q.values[j], negative = value < 0 ? -1 : 0;
    q.negative[j] = static_cast<std::int8_t>(negative);
    q.magnitudes[j] = static_cast<std::int8_t>((value ^ negative) - negative);
  }
  for (std::size_t b = 0; b < q.less.size(); ++b)
    for (std::size_t j = b * block; j < (b + 1) * block; ++j) q.less[b] += q.magnitudes[j] & q.negative[j];
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
                          bool with_lane_scales, std::size_t block, QuantizedActivations& q) {
  const std::size_t blocks = padded / block;
  q.padded.assign(padded, 0.0f);
  std::copy(x.begin(), x.end(), q.padded.begin());
  q.values.resize(padded);
  q.scales.resize(blocks);
  q.sums.resize(blocks);
  if (block == kBlockInputs) {
    quantize(q.padded.data(), padded, q.values.data(), q.scales.data(), q.sums.data());
  } else {
    quantize_halves(q.padded, quantize, q.values.data(), q.scales.data(), q.sums.data(), q.halves);
  }
  take_apart(block, q);
  const auto total_of = [&](const std::vector<std::int32_t>& sums) {
    double total = 0.0;
    for (std::size_t b = 0; b < blocks; ++b) total += static_cast<double>(q.scales[b]) * static_cast<double>(sums[b]);
    return static_cast<float>(total);
  };
  q.total = total_of(q.sums);
  q.less_total = total_of(q.less);
  q.lane_scales.resize(with_lane_scales ? padded / 4 : 0);
  for (std::size_t lane = 0; lane < q.lane_scales.size(); ++lane) q.lane_scales[lane] = q.scales[lane * 4 / block];
}

}  // namespace nibble::quant
