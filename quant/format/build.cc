#include <bit>
#include <cmath>
#include <cstring>

#include "core/error.h"
#include "quant/format/codes.h"
#include "quant/format/quantized_tensor.h"

namespace nibble::quant {
namespace {

TensorPart owned_part(std::string suffix, DType dtype, std::vector<std::uint64_t> shape, std::vector<std::byte> bytes) {
  const auto owner = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  return {std::move(suffix), dtype, std::move(shape), *owner, owner};
}

void check_count(const std::string& name, std::string_view what, std::size_t got, std::size_t expected) {
  NIBBLE_REQUIRE(got == expected, InvalidArgument, "{}: expected {} {}, got {}", name, expected, what, got);
}

TensorPart codes_part(const std::string& name, const TensorSpec& spec, std::span<const std::uint8_t> codes) {
  check_count(name, "codes", codes.size(), spec.rows * spec.codes_per_row());
  std::vector<std::byte> bytes(spec.rows * spec.row_bytes());
  for (std::size_t row = 0; row < spec.rows; ++row)
    pack_codes(codes.subspan(row * spec.codes_per_row(), spec.codes_per_row()), spec.bits,
               std::span(bytes).subspan(row * spec.row_bytes(), spec.row_bytes()));
  return owned_part("codes", DType::kU8, {spec.rows, spec.row_bytes()}, std::move(bytes));
}

TensorPart float_part(const std::string& name, std::string suffix, DType dtype, std::vector<std::uint64_t> shape,
                      std::span<const float> values) {
  NIBBLE_REQUIRE(dtype == DType::kF16 || dtype == DType::kF32, InvalidArgument, "{}.{}: expected F16 or F32, got {}",
                 name, suffix, dtype_name(dtype));
  for (std::size_t i = 0; i < values.size(); ++i) {
    NIBBLE_REQUIRE(std::isfinite(values[i]), NumericalError, "{}.{}: {} at index {}: too large for {}?", name, suffix,
                   values[i], i, dtype_name(dtype));
    NIBBLE_REQUIRE(dtype == DType::kF32 || round_to_f16(values[i]) == values[i], InvalidArgument,
                   "{}.{}: {} at index {} is not a float16 value", name, suffix, values[i], i);
  }
  std::vector<std::byte> bytes(values.size() * dtype_size(dtype));
  if (dtype == DType::kF32) {
    std::memcpy(bytes.data(), values.data(), bytes.size());
  } else {
    std::vector<std::uint16_t> halves(values.size());
    convert_to_f16(values, halves.data());
    std::memcpy(bytes.data(), halves.data(), bytes.size());
  }
  return owned_part(std::move(suffix), dtype, std::move(shape), std::move(bytes));
}

static_assert(std::endian::native == std::endian::little, "safetensors are little-endian, and written as they lie");

}  // namespace

QuantizedTensor make_palette_tensor(std::string name, const TensorSpec& spec, std::span<const std::uint8_t> codes,
                                    std::span<const float> palette, DType palette_dtype, std::span<const float> scale) {
  check_count(name, "palette values", palette.size(), spec.palettes() * spec.entries() * spec.cluster_dim);
  if (!scale.empty()) check_count(name, "scales", scale.size(), spec.rows);
  std::vector<std::uint64_t> shape{spec.palettes(), spec.entries()};
  if (spec.cluster_dim > 1) shape.push_back(spec.cluster_dim);
  std::vector<TensorPart> parts;
  parts.push_back(codes_part(name, spec, codes));
  parts.push_back(float_part(name, "palette", palette_dtype, std::move(shape), palette));
  if (!scale.empty()) parts.push_back(float_part(name, "scale", DType::kF16, {spec.rows}, scale));
  return {std::move(name), spec, std::move(parts)};
}

QuantizedTensor make_block_tensor(std::string name, const TensorSpec& spec, std::span<const std::uint8_t> codes,
                                  std::span<const float> scales, std::span<const std::uint8_t> zeros) {
  const std::size_t blocks = spec.rows * spec.blocks();
  check_count(name, "block scales", scales.size(), blocks);
  if (!zeros.empty()) check_count(name, "block zeros", zeros.size(), blocks);
  std::vector<TensorPart> parts;
  parts.push_back(codes_part(name, spec, codes));
  parts.push_back(float_part(name, "block_scale", DType::kF16, {spec.rows, spec.blocks()}, scales));
  if (!zeros.empty()) {
    const auto bytes = std::as_bytes(zeros);
    parts.push_back(owned_part("block_zero", DType::kU8, {spec.rows, spec.blocks()}, {bytes.begin(), bytes.end()}));
  }
  return {std::move(name), spec, std::move(parts)};
}

}  // namespace nibble::quant
