#include "quant/tensor/quantize_tensor.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/checked_math.h"
#include "core/error.h"
#include "core/error_sum.h"
#include "core/matrix_view.h"
#include "quant/algo/block_rounding.h"
#include "quant/algo/block_search.h"
#include "quant/store/quantization_config.h"
#include "quant/tensor/block_palette_tensor.h"
#include "quant/tensor/palette_tensor.h"
#include "quant/tensor/row_slices.h"
#include "quant/tensor/weight_errors.h"

namespace nibble::quant {
namespace {

Matrix<float> decoded(const std::string& name, const WeightSource& source, std::size_t begin, std::size_t end) {
  Matrix<float> w(end - begin, source.cols());
  source.decode_rows(begin, end, w.data());
  for (std::size_t i = 0; i < w.size(); ++i)
    NIBBLE_REQUIRE(std::isfinite(w.data()[i]), NumericalError,
                   "{}.weight: expected finite weights, got {} at row {}, column {} of (out, in)", name, w.data()[i],
                   begin + i / w.cols(), i % w.cols());
  return w;
}

BlockScale block_scale(const TensorSettings& settings) {
  if (!settings.stored_as().takes("int4_scale")) return settings.zero_point ? BlockScale::kMinmax : BlockScale::kAbsmax;
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
std::vector<TensorPart> round_to_float16(const std::string& name, const Matrix<float>& w, std::size_t first_row,
                                         ErrorSum& error) {
  const auto halves = std::make_shared<std::vector<std::uint16_t>>(w.size());
  convert_to_f16(w.values(), halves->data());
  for (std::size_t i = 0; i < w.size(); ++i) {
    const float rounded = f16_to_f32((*halves)[i]);
    NIBBLE_REQUIRE(std::isfinite(rounded), NumericalError,
                   "{}.weight: {} at row {}, column {} is too large for float16 (at most 65504)", name, w.data()[i],
                   first_row + i / w.cols(), i % w.cols());
    error.add(w.data()[i], rounded);
  }
  return {{"weight", DType::kF16, {w.rows(), w.cols()}, std::as_bytes(std::span(*halves)), halves}};
}

BlockRounding nearest_blocks(const Matrix<float>& w, const TensorSettings& settings, const BlockRoundingOptions& grid,
                             const WeightStatistics& statistics) {
  switch (settings.search) {
    case ScaleSearch::kError:
      return search_blocks(w, {}, grid);
    case ScaleSearch::kWeighted:
      return search_blocks(w, sensitivity_weights(w, settings.weighting, statistics), grid);
    case ScaleSearch::kHessian:
      return search_blocks_hessian(w, statistics.hessian, grid);
    case ScaleSearch::kNone:
      break;
  }
  return round_blocks(w, grid);
}

QuantizedTensor block_tensor(const std::string& name, const Matrix<float>& w, const TensorSettings& settings,
                             const WeightStatistics& statistics, WeightParts& made) {
  const BlockRoundingOptions grid{
      .bits = settings.bits, .block = settings.effective_group_size(), .scale = block_scale(settings)};
  BlockRounding rounded = nearest_blocks(w, settings, grid, statistics);
  if (settings.solver != Solver::kNearest)
    made.solver = solve_block_codes(w, statistics.hessian, settings, grid, rounded);
  return make_block_tensor(name, stored_tensor(settings, w.rows(), w.cols()).spec, rounded.codes.values(),
                           rounded.scales.values(), rounded.zeros.values());
}

QuantizedTensor coded_tensor(const std::string& name, const Matrix<float>& w, const TensorSettings& settings,
                             const WeightStatistics& statistics, WeightParts& made) {
  if (settings.has_palette()) return palette_tensor(name, w, settings, statistics, made);
  if (settings.has_block_palette()) return block_palette_tensor(name, w, settings, statistics, made);
  return block_tensor(name, w, settings, statistics, made);
}

// The parts of rows that start at `first_row`.
std::vector<TensorPart> quantize_rows(const std::string& name, const Matrix<float>& w, std::size_t first_row,
                                      const TensorSettings& settings, const WeightStatistics& statistics,
                                      WeightErrors& errors, WeightParts& made) {
  if (!settings.coded()) return round_to_float16(name, w, first_row, errors.weight);
  const double gap = made.optimality_gap;
  const QuantizedTensor tensor = coded_tensor(name, w, settings, statistics, made);
  made.optimality_gap = std::max(made.optimality_gap, gap);  // no slice is further from its optimum: nor are all
  add_errors(w, tensor, statistics, settings.shifting, errors, made.bias_correction);
  return tensor.parts();
}

}  // namespace

WeightParts quantize_tensor(const std::string& name, const WeightSource& source, const TensorSettings& settings,
                            const WeightStatistics& statistics, std::size_t slice_weights) {
  const std::size_t rows = source.rows();
  const std::size_t slice = rows_per_slice(settings, rows, source.cols(), statistics.fisher.size() != 0, slice_weights);
  WeightParts made;
  WeightErrors errors;
  StackedParts parts(divide_up(rows, slice));
  for (std::size_t begin = 0; begin < rows; begin += slice) {
    const Matrix<float> w = decoded(name, source, begin, std::min(begin + slice, rows));
    try {
      auto made_parts = quantize_rows(name, w, begin, settings, statistics, errors, made);
      if (slice >= rows) {
        made.parts = std::move(made_parts);
      } else {
        parts.append(made_parts);
      }
    } catch (const NumericalError& error) {
      if (begin == 0 || !settings.coded()) throw;
      throw NumericalError(fmt::format("{} (rows and palettes counted from row {})", error.what(), begin));
    }
  }
  if (slice < rows) made.parts = parts.take();
  errors.report(statistics, made);
  return made;
}

}  // namespace nibble::quant
