#include "quant/job/shifted_bias.h"

#include <cmath>

#include "core/error.h"

namespace nibble::quant {

std::vector<float> shifted_bias(const BiasItem& bias, const Plan& plan, std::span<const Shard> shards,
                                const model::Checkpoint& checkpoint) {
  std::vector<float> values(bias.size);
  if (bias.original) {
    convert_to_f32(bias.original->dtype, bias.original->data.data(), bias.size, values.data());
    checkpoint.check_intact(*bias.original);
  }
  for (const std::size_t weight : bias.weights) {
    const std::vector<float>& correction = shards[weight].bias_correction;
    const std::size_t first_row = plan.items[weight].layer.first_row;
    for (std::size_t i = 0; i < correction.size(); ++i) values[first_row + i] += correction[i];
  }
  for (std::size_t i = 0; i < bias.size; ++i) {
    if (bias.dtype == DType::kF16) values[i] = round_to_f16(values[i]);
    NIBBLE_REQUIRE(std::isfinite(values[i]), NumericalError, "{}: the shifted bias at index {} is too large for {}",
                   bias.name, i, dtype_name(bias.dtype));
  }
  return values;
}

}  // namespace nibble::quant
