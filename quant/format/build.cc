#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/error.h"
#include "core/machine/large_buffer.h"
#include "quant/format/codes.h"
#include "quant/format/quantized_tensor.h"

namespace nibble::quant {
namespace {

TensorPart owned_part(std::string suffix, DType dtype, std::vector<std::uint64_t> shape, LargeVector<std::byte> bytes) {
  const auto owner = std::make_shared<const LargeVector<std::byte>>(std::move(bytes));
  return {std::move(suffix), dtype, std::move(shape), *owner, owner};
}

void check_count(const std::string& name, std::string_view what, std::size_t got, std::size_t expected) {
  NIBBLE_REQUIRE(got == expected, InvalidArgument, "{}: expected {} {}, got {}", name, expected, what, got);
}

TensorPart codes_part(const std::string& name, const TensorSpec& spec, std::span<const std::uint8_t> codes) {
  check_count(name, "codes", codes.size(), spec.rows * spec.codes_per_row());
  LargeVector<std::byte> bytes(spec.rows * spec.row_bytes());
  for (std::size_t row = 0; row < spec.rows; ++row)
    pack_codes(codes.subspan(row * spec.codes_per_row(), spec.codes_per_row()), spec.bits,
               std::span(bytes).subspan(row * spec.row_bytes(), spec.row_bytes()));
  return owned_part("codes", DType::kU8, {spec.rows, spec.row_bytes()}, std::move(bytes));
}

TensorPart float_part(const std::string& name, std::string suffix, DType dtype, std::vector<std::uint64_t> shape,
                      std::span<const float> values) {
  NIBBLE_REQUIRE(dtype == DType::kF16 || dtype == DType::kF32, InvalidArgument, "{}.{}: expected F16 or F32, got {}",
                 name, suffix, dtype_name(dtype));
  if (values.empty()) return owned_part(std::move(suffix), dtype, std::move(shape), {});  // memcpy wants no null
  LargeVector<std::byte> bytes(values.size() * dtype_size(dtype));
  bool kept = true;  // finite, and what is stored stands for the same values: all at once, then which one does not
  if (dtype == DType::kF32) {
    std::memcpy(bytes.data(), values.data(), bytes.size());
    for (const float value : values) kept &= std::abs(value) <= std::numeric_limits<float>::max();
  } else {
    std::vector<std::uint16_t> halves(values.size());
    std::vector<float> back(values.size());
    convert_to_f16(values, halves.data());
    std::memcpy(bytes.data(), halves.data(), bytes.size());
    convert_to_f32(dtype, bytes.data(), back.size(), back.data());
    for (std::size_t i = 0; i < back.size(); ++i)
      kept &= back[i] == values[i] && std::abs(back[i]) <= std::numeric_limits<float>::max();
  }
  for (std::size_t i = 0; i < values.size() && !kept; ++i) {
    NIBBLE_REQUIRE(std::isfinite(values[i]), NumericalError, "{}.{}: {} at index {}: too large for {}?", name, suffix,
                   values[i], i, dtype_name(dtype));
    NIBBLE_REQUIRE(dtype == DType::kF32 || round_to_f16(values[i]) == values[i], InvalidArgument,
                   "{}.{}: {} at index {} is not a float16 value", name, suffix, values[i], i);
  }
  return owned_part(std::move(suffix), dtype, std::move(shape), std::move(bytes));
}

// The float16 unit of a palette whose entries are integers from -127 to 127 times it; 0 for zeros.
float int8_unit(const std::string& name, std::span<const float> entries, std::size_t palette) {
  float largest = 0.0f;
  for (const float entry : entries) {
    NIBBLE_REQUIRE(std::isfinite(entry), NumericalError, "{}.palette: {} in palette {}", name, entry, palette);
    largest = std::max(largest, std::abs(entry));
  }
  if (largest == 0.0f) return 0.0f;
  for (float steps = 127.0f; steps >= 1.0f; --steps) {
    const float unit = largest / steps;
    const bool fits = round_to_f16(unit) == unit && std::all_of(entries.begin(), entries.end(), [&](float entry) {
                        return unit * std::nearbyint(entry / unit) == entry;
                      });
    if (fits) return unit;
  }
  throw InvalidArgument(
      fmt::format("{}.palette: the entries of palette {} are not integers times one float16", name, palette));
}

// An I8 palette (palettes, entries) and its units.
void add_int8_palette(const std::string& name, std::vector<std::uint64_t> shape, std::span<const float> palette,
                      std::vector<TensorPart>& parts) {
  const std::size_t palettes = shape[0], size = palette.size() / palettes;
  LargeVector<std::byte> bytes(palette.size());
  std::vector<float> units(palettes);
  for (std::size_t p = 0; p < palettes; ++p) {
    const auto entries = palette.subspan(p * size, size);
    units[p] = int8_unit(name, entries, p);
    for (std::size_t k = 0; k < size && units[p] != 0.0f; ++k)
      bytes[p * size + k] = static_cast<std::byte>(static_cast<std::int8_t>(std::nearbyint(entries[k] / units[p])));
  }
  parts.push_back(owned_part("palette", DType::kI8, std::move(shape), std::move(bytes)));
  parts.push_back(float_part(name, "palette_scale", DType::kF16, {palettes}, units));
}

static_assert(std::endian::native == std::endian::little, "safetensors are little-endian, and written as they lie");

}  // namespace

namespace {

// A palette of 2^window_bits or 2^bits entries beside `codes`.
QuantizedTensor with_palette(std::string name, const TensorSpec& spec, TensorPart codes, std::span<const float> palette,
                             DType palette_dtype, std::span<const float> scale) {
  check_count(name, "palette values", palette.size(), spec.palettes() * spec.entries() * spec.cluster_dim);
  if (!scale.empty()) check_count(name, "scales", scale.size(), spec.rows);
  std::vector<std::uint64_t> shape{spec.palettes(), spec.entries()};
  if (spec.cluster_dim > 1) shape.push_back(spec.cluster_dim);
  std::vector<TensorPart> parts;
  parts.push_back(std::move(codes));
  if (palette_dtype == DType::kI8) {
    add_int8_palette(name, std::move(shape), palette, parts);
  } else {
    parts.push_back(float_part(name, "palette", palette_dtype, std::move(shape), palette));
  }
  if (!scale.empty()) parts.push_back(float_part(name, "scale", DType::kF16, {spec.rows}, scale));
  return {std::move(name), spec, std::move(parts)};
}

}  // namespace

QuantizedTensor make_palette_tensor(std::string name, const TensorSpec& spec, std::span<const std::uint8_t> codes,
                                    std::span<const float> palette, DType palette_dtype, std::span<const float> scale) {
  NIBBLE_REQUIRE(!spec.windowed(), InvalidArgument, "{}: expected windows, got codes of bytes", name);
  TensorPart part = codes_part(name, spec, codes);
  return with_palette(std::move(name), spec, std::move(part), palette, palette_dtype, scale);
}

QuantizedTensor make_windowed_tensor(std::string name, const TensorSpec& spec, MatrixView<const std::uint16_t> codes,
                                     std::span<const float> palette, DType palette_dtype,
                                     std::span<const float> scale) {
  NIBBLE_REQUIRE(spec.windowed() && codes.rows() == spec.rows && codes.cols() == spec.cols, InvalidArgument,
                 "{}: expected ({}, {}) windows of {} bits, got ({}, {})", name, spec.rows, spec.cols, spec.window_bits,
                 codes.rows(), codes.cols());
  const WindowedLayout layout = spec.windows();
  layout.check(name);
  LargeVector<std::byte> bytes(layout.bytes());
  std::vector<std::uint16_t> column(spec.rows);
  for (std::size_t j = 0; j < spec.cols; ++j) {
    for (std::size_t i = 0; i < spec.rows; ++i) column[i] = codes(i, j);
    pack_windows(layout, column, std::span(bytes).subspan(j * layout.column_bytes(), layout.column_bytes()));
  }
  return with_palette(std::move(name), spec,
                      owned_part("codes", DType::kU8, {spec.cols, layout.column_bytes()}, std::move(bytes)), palette,
                      palette_dtype, scale);
}

QuantizedTensor with_outliers(const QuantizedTensor& dense, MatrixView<const float> w,
                              std::span<const std::int32_t> rows, std::span<const std::int32_t> columns) {
  const TensorSpec& spec = dense.spec();
  check_count(dense.name(), "row bounds", rows.size(), spec.rows + 1);
  check_count(dense.name(), "outliers", columns.size(), static_cast<std::size_t>(rows.back()));
  LargeVector<float> values;
  std::vector<float> decoded(spec.cols);
  for (std::size_t i = 0; i < spec.rows; ++i) {
    dense.decode_rows(i, i + 1, decoded.data());
    for (auto at = static_cast<std::size_t>(rows[i]); at < static_cast<std::size_t>(rows[i + 1]); ++at) {
      const auto column = static_cast<std::size_t>(columns[at]);
      values.push_back(round_to_f16(w(i, column) - decoded[column]));
      NIBBLE_REQUIRE(std::isfinite(values.back()), NumericalError,
                     "{}.outlier_values: {} at row {}, column {} is too far from {} for float16 (65504)", dense.name(),
                     w(i, column), i, column, decoded[column]);
    }
  }
  std::vector<TensorPart> parts = dense.parts();
  const auto bytes_of = [](std::span<const std::int32_t> integers) {
    const auto bytes = std::as_bytes(integers);
    return LargeVector<std::byte>(bytes.begin(), bytes.end());
  };
  parts.push_back(owned_part("outlier_rows", DType::kI32, {rows.size()}, bytes_of(rows)));
  parts.push_back(owned_part("outlier_columns", DType::kI32, {columns.size()}, bytes_of(columns)));
  parts.push_back(float_part(dense.name(), "outlier_values", DType::kF16, {columns.size()}, values));
  return {dense.name(), spec, std::move(parts)};
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

QuantizedTensor make_block_palette_tensor(std::string name, const TensorSpec& spec, std::span<const std::uint8_t> codes,
                                          std::span<const float> palette, std::span<const float> scales,
                                          float tensor_scale) {
  const bool learned = spec.block_palette == BlockPalette::kLearned;
  check_count(name, "palette values", palette.size(), learned ? spec.entries() : 0);
  check_count(name, "block scales", scales.size(), spec.rows * spec.blocks());
  std::vector<TensorPart> parts;
  parts.push_back(codes_part(name, spec, codes));
  if (learned) parts.push_back(float_part(name, "palette", DType::kF16, {1, spec.entries()}, palette));
  const std::vector<std::uint64_t> shape{spec.rows, spec.blocks()};
  if (spec.scale_type == ScaleType::kFloat16) {
    parts.push_back(float_part(name, "block_scale", DType::kF16, shape, scales));
  } else {
    LargeVector<std::byte> bytes(scales.size());
    for (std::size_t i = 0; i < scales.size(); ++i) {
      const std::uint16_t bits = scale_bits(scales[i], spec.scale_type);
      NIBBLE_REQUIRE(scale_of_bits(bits, spec.scale_type) == scales[i], InvalidArgument,
                     "{}.block_scale: {} at index {} is no {} value", name, scales[i], i,
                     scale_type_name(spec.scale_type));
      bytes[i] = static_cast<std::byte>(bits);
    }
    parts.push_back(owned_part("block_scale", scale_dtype(spec.scale_type), shape, std::move(bytes)));
  }
  if (spec.scale_type == ScaleType::kE4M3)
    parts.push_back(float_part(name, "tensor_scale", DType::kF32, {1}, std::span(&tensor_scale, 1)));
  return {std::move(name), spec, std::move(parts)};
}

CodeValues code_values(const QuantizedTensor& tensor) {
  CodeValues values;
  std::vector<float> table;
  for (std::size_t group = 0; tensor.find("palette") != nullptr && group < tensor.spec().palettes(); ++group) {
    tensor.load_palette(group, table);
    values.palette.insert(values.palette.end(), table.begin(), table.end());
  }
  const TensorPart* scale = tensor.find(tensor.spec().coding == Coding::kPalette ? "scale" : "block_scale");
  if (scale == nullptr || scale->dtype == DType::kF8E8M0 || scale->dtype == DType::kF8E4M3) return values;
  values.scale.resize(scale->bytes.size() / dtype_size(scale->dtype));
  convert_to_f32(scale->dtype, scale->bytes.data(), values.scale.size(), values.scale.data());
  return values;
}

QuantizedTensor with_code_values(const QuantizedTensor& tensor, const CodeValues& values) {
  const std::string& name = tensor.name();
  std::vector<TensorPart> parts;
  for (const TensorPart& part : tensor.parts()) {
    if (part.suffix == "palette") {
      const std::size_t expected = tensor.spec().palettes() * tensor.spec().entries() * tensor.spec().cluster_dim;
      check_count(name, "palette values", values.palette.size(), expected);
      if (part.dtype == DType::kI8) {
        add_int8_palette(name, part.shape, values.palette, parts);
      } else {
        parts.push_back(float_part(name, part.suffix, part.dtype, part.shape, values.palette));
      }
    } else if ((part.suffix == "scale" || part.suffix == "block_scale") && part.dtype != DType::kF8E8M0 &&
               part.dtype != DType::kF8E4M3) {
      check_count(name, "scales", values.scale.size(), part.bytes.size() / dtype_size(part.dtype));
      parts.push_back(float_part(name, part.suffix, part.dtype, part.shape, values.scale));
    } else if (part.suffix != "palette_scale") {
      parts.push_back(part);
    }
  }
  return {name, tensor.spec(), std::move(parts)};
}

QuantizedTensor with_codes(const QuantizedTensor& tensor, std::span<const std::uint8_t> codes) {
  NIBBLE_REQUIRE(!tensor.spec().windowed(), InvalidArgument, "{}: windowed codes overlap", tensor.name());
  std::vector<TensorPart> parts = tensor.parts();
  for (TensorPart& part : parts)
    if (part.suffix == "codes") part = codes_part(tensor.name(), tensor.spec(), codes);
  return {tensor.name(), tensor.spec(), std::move(parts)};
}

}  // namespace nibble::quant
