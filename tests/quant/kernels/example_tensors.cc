#include "tests/quant/kernels/example_tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "quant/format/codes.h"

namespace nibble::test {
namespace {

using quant::Coding;

template <class T>
quant::TensorPart part(std::string suffix, DType dtype, std::vector<std::uint64_t> shape,
                       const std::vector<T>& values) {
  auto owner = std::make_shared<std::vector<std::byte>>(values.size() * sizeof(T));
  if (!values.empty()) std::memcpy(owner->data(), values.data(), owner->size());
  return {std::move(suffix), dtype, std::move(shape), *owner, owner};
}

std::vector<std::uint16_t> halves(const std::vector<float>& values) {
  std::vector<std::uint16_t> bits;
  for (const float value : values) bits.push_back(f32_to_f16(value));
  return bits;
}

std::vector<float> random_scales(std::size_t count, bool integers, Random& random) {
  std::vector<float> scales(count);
  for (float& scale : scales)
    scale = integers ? (random.below(2) == 0 ? 1.0f : 2.0f) : static_cast<float>(0.01 + 0.05 * random.uniform());
  return scales;
}

void add_palette_parts(const TensorWish& wish, Random& random, std::vector<quant::TensorPart>& parts) {
  const quant::TensorSpec& spec = wish.spec;
  std::vector<float> palette(spec.palettes() * spec.entries() * spec.cluster_dim);
  for (float& entry : palette)
    entry = wish.integers ? static_cast<float>(random.below(33)) - 16.0f
                          : round_to_f16(static_cast<float>(random.normal()));
  for (std::size_t i = 0; wish.byte_palette && i < palette.size(); ++i) {
    const std::size_t place = i % spec.entries();
    palette[i] = place == 0                    ? -100.0f
                 : place + 1 == spec.entries() ? 155.0f
                                               : static_cast<float>(random.below(256)) - 100.0f;
  }
  const auto entries = static_cast<std::ptrdiff_t>(spec.entries());
  if (spec.cluster_dim == 1)
    for (auto at = palette.begin(); at != palette.end(); at += entries) std::sort(at, at + entries);
  std::vector<std::uint64_t> shape{spec.palettes(), spec.entries()};
  if (spec.cluster_dim > 1) shape.push_back(spec.cluster_dim);
  parts.push_back(part("palette", DType::kF16, shape, halves(palette)));
  if (wish.row_scale) {
    auto scales = random_scales(spec.rows, wish.integers, random);
    for (std::size_t i = 0; i < scales.size(); i += 3) scales[i] = -scales[i];
    parts.push_back(part("scale", DType::kF16, {spec.rows}, halves(scales)));
  }
  if (wish.outliers == 0.0) return;
  std::vector<std::int32_t> rows{0}, columns;
  std::vector<float> values;
  for (std::size_t row = 0; row < spec.rows; ++row) {
    for (std::size_t col = 0; col < spec.cols; ++col) {
      if (random.uniform() >= wish.outliers) continue;
      columns.push_back(static_cast<std::int32_t>(col));
      values.push_back(static_cast<float>(random.below(9)) - 4.0f);
    }
    rows.push_back(static_cast<std::int32_t>(columns.size()));
  }
  parts.push_back(part("outlier_rows", DType::kI32, {spec.rows + 1}, rows));
  parts.push_back(part("outlier_columns", DType::kI32, {columns.size()}, columns));
  parts.push_back(part("outlier_values", DType::kF16, {values.size()}, halves(values)));
}

void add_block_parts(const TensorWish& wish, Random& random, std::vector<quant::TensorPart>& parts) {
  const quant::TensorSpec& spec = wish.spec;
  const std::vector<std::uint64_t> shape{spec.rows, spec.blocks()};
  parts.push_back(
      part("block_scale", DType::kF16, shape, halves(random_scales(spec.rows * spec.blocks(), wish.integers, random))));
  if (!wish.zero_points) return;
  std::vector<std::uint8_t> zeros(spec.rows * spec.blocks());
  for (auto& zero : zeros) zero = static_cast<std::uint8_t>(random.below(spec.entries()));
  parts.push_back(part("block_zero", DType::kU8, shape, zeros));
}

void add_block_palette_parts(const TensorWish& wish, Random& random, std::vector<quant::TensorPart>& parts) {
  const quant::TensorSpec& spec = wish.spec;
  if (spec.block_palette == quant::BlockPalette::kLearned) {
    std::vector<float> palette(spec.entries());
    for (float& entry : palette)
      entry = wish.integers ? static_cast<float>(random.below(33)) - 16.0f
                            : round_to_f16(static_cast<float>(random.normal()));
    std::sort(palette.begin(), palette.end());
    parts.push_back(part("palette", DType::kF16, {1, spec.entries()}, halves(palette)));
  }
  const std::vector<std::uint64_t> shape{spec.rows, spec.blocks()};
  const std::vector<float> scales = random_scales(spec.rows * spec.blocks(), wish.integers, random);
  if (spec.scale_type == quant::ScaleType::kFloat16) {
    parts.push_back(part("block_scale", DType::kF16, shape, halves(scales)));
    return;
  }
  std::vector<std::uint8_t> bytes;
  for (const float scale : scales)
    bytes.push_back(
        static_cast<std::uint8_t>(quant::scale_bits(quant::round_scale(scale, spec.scale_type), spec.scale_type)));
  parts.push_back(part("block_scale", quant::scale_dtype(spec.scale_type), shape, bytes));
  if (spec.scale_type == quant::ScaleType::kE4M3)
    parts.push_back(part<float>("tensor_scale", DType::kF32, {1}, {wish.integers ? 0.25f : 0.013f}));
}

}  // namespace

std::vector<TensorWish> block_palette_wishes(std::size_t rows, std::size_t cols, bool integers) {
  using quant::BlockPalette;
  std::vector<TensorWish> all;
  for (const BlockPalette palette : quant::kBlockPalettes)
    for (const quant::ScaleType scale : quant::kScaleTypes)
      for (const unsigned bits : {2u, 3u, 4u})
        for (const std::size_t group : {std::size_t{16}, std::size_t{32}, std::size_t{64}}) {
          if (palette != BlockPalette::kLearned && (bits != 4 || group == 64)) continue;
          if (integers && palette == BlockPalette::kNf4) continue;
          all.push_back({.spec = {.coding = Coding::kBlockPalette,
                                  .rows = rows,
                                  .cols = cols,
                                  .bits = bits,
                                  .group_size = group,
                                  .block_palette = palette,
                                  .scale_type = scale},
                         .integers = integers});
        }
  return all;
}

quant::QuantizedTensor random_tensor(const TensorWish& wish, Random& random) {
  const quant::TensorSpec& spec = wish.spec;
  std::vector<std::uint8_t> packed(spec.rows * spec.row_bytes()), codes(spec.codes_per_row());
  for (std::size_t row = 0; row < spec.rows; ++row) {
    for (auto& code : codes) code = static_cast<std::uint8_t>(random.below(spec.entries()));
    quant::pack_codes(codes, spec.bits,
                      std::as_writable_bytes(std::span(packed)).subspan(row * spec.row_bytes(), spec.row_bytes()));
  }
  std::vector<quant::TensorPart> parts{part("codes", DType::kU8, {spec.rows, spec.row_bytes()}, packed)};
  if (spec.coding == Coding::kPalette) add_palette_parts(wish, random, parts);
  if (spec.coding == Coding::kBlocks) add_block_parts(wish, random, parts);
  if (spec.coding == Coding::kBlockPalette) add_block_palette_parts(wish, random, parts);
  return {"weight", spec, std::move(parts)};
}

Matrix<float> random_matrix(std::size_t rows, std::size_t cols, bool integers, Random& random) {
  Matrix<float> m(rows, cols);
  for (float& value : m.values())
    value = integers ? static_cast<float>(random.below(7)) - 3.0f : static_cast<float>(random.normal());
  return m;
}

Matrix<float> byte_activations(std::size_t tokens, std::size_t cols, Random& random) {
  Matrix<float> x(tokens, cols);
  for (std::size_t t = 0; t < tokens; ++t)
    for (std::size_t j = 0; j < cols; ++j)
      x(t, j) = j % 16 == 0 ? (random.below(2) == 0 ? 127.0f : -127.0f) : static_cast<float>(random.below(15)) - 7.0f;
  return x;
}

std::string describe(const TensorWish& wish) {
  if (wish.spec.coding == Coding::kBlockPalette)
    return fmt::format("block palette {} {} {} bits ({}, {}) group {}",
                       quant::block_palette_name(wish.spec.block_palette), quant::scale_type_name(wish.spec.scale_type),
                       wish.spec.bits, wish.spec.rows, wish.spec.cols, wish.spec.group_size);
  return fmt::format("{} {} bits ({}, {}) group {}{}{}{}", wish.spec.coding == Coding::kPalette ? "palette" : "blocks",
                     wish.spec.bits, wish.spec.rows, wish.spec.cols, wish.spec.group_size,
                     wish.row_scale ? " scaled" : "", wish.zero_points ? " with zeros" : "",
                     wish.outliers > 0 ? " with outliers" : "");
}

}  // namespace nibble::test
