#include "quant/tensor/quantize_tensor.h"

#include <algorithm>
#include <span>
#include <string_view>
#include <vector>

#include "core/checked_math.h"
#include "core/error.h"
#include "core/machine/thread_pool.h"
#include "core/matrix/matrix_view.h"
#include "quant/algo/blocks/block_rounding.h"
#include "quant/algo/blocks/block_search.h"
#include "quant/algo/blocks/super_blocks.h"
#include "quant/algo/rounding/finite.h"
#include "quant/store/quantization_config.h"
#include "quant/tensor/block_palette_tensor.h"
#include "quant/tensor/palette_tensor.h"
#include "quant/tensor/row_slices.h"
#include "quant/tensor/source_values.h"
#include "quant/tensor/weight_errors.h"

namespace nibble::quant {
namespace {

BlockScale block_scale(const TensorSettings& settings) {
  if (!settings.stored_as().takes("int4_scale")) {
    if (settings.zero_point) return BlockScale::kMinmax;
    const bool either_sign = settings.super_block != 0 || settings.uniform_scale == UniformScale::kExtreme;
    return either_sign ? BlockScale::kExtreme : BlockScale::kAbsmax;
  }
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
                                         WeightErrors& errors) {
  const auto halves = std::make_shared<std::vector<std::uint16_t>>(w.size());
  convert_to_f16(w.values(), halves->data());
  std::vector<float> rounded(w.cols());
  for (std::size_t i = 0; i < w.rows(); ++i) {
    convert_to_f32(DType::kF16, reinterpret_cast<const std::byte*>(halves->data() + i * w.cols()), w.cols(),
                   rounded.data());
    if (const auto bad = first_not_finite(rounded))
      throw NumericalError(fmt::format("{}.weight: {} at row {}, column {} is too large for float16 (at most 65504)",
                                       name, w(i, *bad), first_row + i, *bad));
    errors.rows.push_back(error_kernels::squares(w.row(i).data(), rounded.data(), w.cols()));
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
  if (settings.super_block != 0) share_steps(w, grid, settings.super_block, rounded);
  if (settings.solver != Solver::kNearest)
    made.solver = solve_block_codes(w, statistics.hessian, statistics.output_hessian, settings, grid, rounded);
  return make_block_tensor(name, stored_tensor(settings, w.rows(), w.cols()).spec, rounded.codes.values(),
                           rounded.scales.values(), rounded.zeros.values());
}

QuantizedTensor coded_tensor(const std::string& name, const Matrix<float>& w, const TensorSettings& settings,
                             const WeightStatistics& statistics, WeightParts& made) {
  if (settings.has_palette()) return palette_tensor(name, w, settings, statistics, made);
  if (settings.has_block_palette()) return block_palette_tensor(name, w, settings, statistics, made);
  return block_tensor(name, w, settings, statistics, made);
}

// The parts of rows that start at `first_row`; `palette` is empty, or the one that all rows of the weight share.
std::vector<TensorPart> quantize_rows(const std::string& name, const Matrix<float>& w, std::size_t first_row,
                                      const TensorSettings& settings, const WeightStatistics& statistics,
                                      std::span<const float> palette, WeightErrors& errors, WeightParts& made) {
  if (!settings.coded()) return round_to_float16(name, w, first_row, errors);
  const QuantizedTensor tensor = palette.empty() ? coded_tensor(name, w, settings, statistics, made)
                                                 : tensor_of_palette(name, w, settings, palette);
  add_errors(w, tensor, statistics, settings.shifting, errors, made.bias_correction);
  return tensor.parts();
}

struct Slice {
  WeightParts made;
  WeightErrors errors;
};

Slice quantize_slice(const std::string& name, const WeightSource& source, std::size_t begin, std::size_t end,
                     const TensorSettings& settings, const WeightStatistics& statistics,
                     std::span<const float> palette) {
  thread_local Matrix<float> w;
  decode_finite(name, source, begin, end, w);
  Slice slice;
  try {
    slice.made.parts = quantize_rows(name, w, begin, settings, statistics, palette, slice.errors, slice.made);
  } catch (const NumericalError& error) {
    if (begin == 0 || !settings.coded()) throw;
    throw NumericalError(fmt::format("{} (rows and palettes counted from row {})", error.what(), begin));
  }
  if (w.size() * sizeof(float) >= kLargeBuffer) w = {};  // not kept by the thread
  return slice;
}

// Slices of `rows` rows on all threads, a few at a time; what they make is joined in their order.
WeightErrors quantize_slices(const std::string& name, const WeightSource& source, std::size_t rows,
                             const TensorSettings& settings, const WeightStatistics& statistics, WeightParts& made) {
  SharedPalette shared;
  if (one_palette(settings))
    shared = shared_palette(SourceValues(name, source, rows, settings.weighting, statistics), settings);
  constexpr std::size_t kSlicesPerThread = 4;
  const std::size_t slices = divide_up(source.rows(), rows), together = kSlicesPerThread * thread_count();
  StackedParts parts(slices, !shared.entries.empty());
  WeightErrors errors;
  made.fitted_cost = shared.fitted_cost;
  double gap = shared.optimality_gap * shared.fitted_cost;
  for (std::size_t first = 0; first < slices; first += together) {
    std::vector<Slice> some(std::min(together, slices - first));
    parallel_for(some.size(), [&](std::size_t i) {
      const std::size_t begin = (first + i) * rows, end = std::min(begin + rows, source.rows());
      some[i] = quantize_slice(name, source, begin, end, settings, statistics, shared.entries);
    });
    for (const Slice& slice : some) {
      parts.append(slice.made.parts);
      errors.add(slice.errors);
      const auto& correction = slice.made.bias_correction;
      made.bias_correction.insert(made.bias_correction.end(), correction.begin(), correction.end());
      made.fitted_cost += slice.made.fitted_cost;
      gap += slice.made.optimality_gap * slice.made.fitted_cost;
    }
    source.release();  // or a mapped embedding of half a gigabyte stays in memory until its last row
  }
  made.parts = parts.take();
  if (made.fitted_cost > 0.0) made.optimality_gap = gap / made.fitted_cost;
  return errors;
}

}  // namespace

WeightParts quantize_tensor(const std::string& name, const WeightSource& source, const TensorSettings& settings,
                            const WeightStatistics& statistics, std::size_t slice_weights) {
  const std::size_t rows = source.rows();
  const std::size_t slice = rows_per_slice(settings, rows, source.cols(), statistics.fisher.size() != 0, slice_weights);
  WeightParts made;
  WeightErrors errors;
  try {
    if (slice >= rows) {
      Matrix<float> w;
      decode_finite(name, source, 0, rows, w);
      made.parts = quantize_rows(name, w, 0, settings, statistics, {}, errors, made);
    } else {
      errors = quantize_slices(name, source, slice, settings, statistics, made);
    }
  } catch (const NumericalError& error) {  // what rounds and solves does not know whose numbers these are
    const std::string_view text = error.what();
    if (text.starts_with(name + ".") || text.starts_with(name + ":")) throw;
    throw NumericalError(fmt::format("{}: {}", name, text));
  }
  errors.report(statistics, made);
  return made;
}

}  // namespace nibble::quant
