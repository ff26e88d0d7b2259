#include "quant/job/network/shifted_bias.h"

#include <cmath>

#include "core/error.h"

namespace nibble::quant {

std::vector<float> rows_of(const model::Stored& place, std::span<const float> all) {
  std::vector<float> rows(place.part.count);
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = all[place.slice * place.rows + place.part.row(i)];
  return rows;
}

std::vector<float> shifted_bias(const BiasItem& bias, const Plan& plan, std::span<const Shard> shards,
                                const model::Checkpoint& checkpoint) {
  std::vector<float> values(bias.size);
  if (bias.original) {
    convert_to_f32(bias.original->dtype, bias.original->data.data(), bias.size, values.data());
    checkpoint.check_intact(*bias.original);
  }
  for (const std::size_t weight : bias.weights) {
    const std::vector<float>& correction = shards[weight].bias_correction;
    const model::Stored& place = plan.items[weight].layer.bias;
    const std::size_t first = place.slice * place.rows;
    for (std::size_t i = 0; i < correction.size(); ++i) values[first + place.part.row(i)] += correction[i];
  }
  for (std::size_t i = 0; i < bias.size; ++i) {
    if (bias.dtype == DType::kF16) values[i] = round_to_f16(values[i]);
    NIBBLE_REQUIRE(std::isfinite(values[i]), NumericalError, "{}: the shifted bias at index {} is too large for {}",
                   bias.name, i, dtype_name(bias.dtype));
  }
  return values;
}

std::vector<float> bias_beside(const model::Parameter& layer, const Plan& plan, std::span<const Shard> shards,
                               const model::Checkpoint& checkpoint, const model::WeightProvider& weights) {
  for (const BiasItem& bias : plan.biases)
    if (bias.name == layer.bias.tensor) return rows_of(layer.bias, shifted_bias(bias, plan, shards, checkpoint));
  return model::bias_of(layer, weights);
}

}  // namespace nibble::quant
