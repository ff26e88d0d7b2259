#include "quant/tensor/block_palette_tensor.h"

#include "quant/algo/blocks/block_palette.h"
#include "quant/algo/blocks/super_blocks.h"
#include "quant/store/quantization_config.h"
#include "quant/tensor/palette_tensor.h"

namespace nibble::quant {

QuantizedTensor block_palette_tensor(const std::string& name, const Matrix<float>& w, const TensorSettings& settings,
                                     const WeightStatistics& statistics, WeightParts& made) {
  const BlockPaletteOptions options{.bits = settings.code_bits(),
                                    .block = settings.effective_group_size(),
                                    .palette = settings.palette,
                                    .scale = settings.block_scale,
                                    .search = settings.search != ScaleSearch::kNone,
                                    .joint_iterations = settings.joint_iterations};
  const Matrix<float> weights = sensitivity_weights(w, settings.weighting, statistics);
  const MatrixView<const float> given = weights.size() == 0 ? MatrixView<const float>() : weights.view();
  BlockPaletteRounding rounded = settings.search == ScaleSearch::kHessian
                                     ? round_block_palette_hessian(w, given, statistics.hessian, options)
                                     : round_block_palette(w, given, options);
  if (settings.super_block != 0) share_steps(w, options, settings.super_block, rounded);
  made.optimality_gap = rounded.optimality_gap;
  if (settings.solver != Solver::kNearest)
    made.solver =
        solve_block_palette_codes(w, statistics.hessian, statistics.output_hessian, settings, options, rounded);
  const bool learned = settings.learns_block_palette();
  return make_block_palette_tensor(name, stored_tensor(settings, w.rows(), w.cols()).spec, rounded.codes.values(),
                                   learned ? std::span<const float>(rounded.palette) : std::span<const float>(),
                                   rounded.scales.values(), rounded.tensor_scale);
}

}  // namespace nibble::quant
