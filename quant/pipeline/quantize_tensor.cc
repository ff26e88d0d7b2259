#include "quant/pipeline/quantize_tensor.h"

#include <cmath>
#include <vector>

#include "core/error.h"
#include "core/matrix_view.h"
#include "quant/algo/block_rounding.h"
#include "quant/algo/palettize.h"
#include "quant/pipeline/error_sum.h"
#include "quant/pipeline/quantization_config.h"

namespace nibble::quant {
namespace {

Matrix<float> decoded(const std::string& name, const WeightSource& source) {
  Matrix<float> w(source.rows(), source.cols());
  source.decode_rows(0, w.rows(), w.data());
  for (std::size_t i = 0; i < w.size(); ++i)
    NIBBLE_REQUIRE(std::isfinite(w.data()[i]), NumericalError,
                   "{}.weight: expected finite weights, got {} at row {}, column {} of (out, in)", name, w.data()[i],
                   i / w.cols(), i % w.cols());
  return w;
}

double relative_error(const Matrix<float>& w, const QuantizedTensor& tensor) {
  std::vector<float> row(w.cols());
  ErrorSum error;
  for (std::size_t r = 0; r < w.rows(); ++r) {
    tensor.decode_rows(r, r + 1, row.data());
    for (std::size_t c = 0; c < w.cols(); ++c) error.add(w(r, c), row[c]);
  }
  return error.relative();
}

BlockScale block_scale(const TensorSettings& settings) {
  if (settings.format == Format::kUniform) return settings.zero_point ? BlockScale::kMinmax : BlockScale::kAbsmax;
  switch (settings.int4_scale) {
    case Int4Scale::kExtreme8:
      return BlockScale::kExtreme;
    case Int4Scale::kAbsmax7:
      return BlockScale::kAbsmax;
    case Int4Scale::kAbsmax7_5:
      return BlockScale::kAbsmaxHalf;
    case Int4Scale::kMinmax:
      break;
  }
  return BlockScale::kMinmax;
}

// GPT-2's q, k or v that stays float16 while others are quantized.
WeightParts round_to_float16(const std::string& name, const WeightSource& source) {
  const Matrix<float> w = decoded(name, source);
  const auto halves = std::make_shared<std::vector<std::uint16_t>>(w.size());
  convert_to_f16(w.values(), halves->data());
  ErrorSum error;
  for (std::size_t i = 0; i < w.size(); ++i) {
    const float rounded = f16_to_f32((*halves)[i]);
    NIBBLE_REQUIRE(std::isfinite(rounded), NumericalError,
                   "{}.weight: {} at row {}, column {} is too large for float16 (at most 65504)", name, w.data()[i],
                   i / w.cols(), i % w.cols());
    error.add(w.data()[i], rounded);
  }
  return {{{"weight", DType::kF16, {w.rows(), w.cols()}, std::as_bytes(std::span(*halves)), halves}},
          error.relative(),
          0.0};
}

}  // namespace

WeightParts quantize_tensor(const std::string& name, const WeightSource& source, const TensorSettings& settings) {
  if (settings.format == Format::kFloat16) return round_to_float16(name, source);
  const Matrix<float> w = decoded(name, source);
  const TensorSpec spec = stored_tensor(settings, w.rows(), w.cols()).spec;
  const auto finished = [&](const QuantizedTensor& tensor, double gap) {
    return WeightParts{tensor.parts(), relative_error(w, tensor), gap};
  };
  if (settings.format == Format::kPalette) {
    const DType dtype = settings.palette_dtype == PaletteDtype::kFloat32 ? DType::kF32 : DType::kF16;
    const Palettization result = palettize(
        w, {}, {.bits = settings.bits, .group_rows = settings.effective_group_size(), .palette_dtype = dtype});
    return finished(
        make_palette_tensor(name, spec, result.codes.values(), result.palettes.values(), dtype, /*scale=*/{}),
        result.optimality_gap);
  }
  const BlockRounding result = round_blocks(
      w, {.bits = settings.bits, .block = settings.effective_group_size(), .scale = block_scale(settings)});
  return finished(make_block_tensor(name, spec, result.codes.values(), result.scales.values(), result.zeros.values()),
                  0.0);
}

}  // namespace nibble::quant
