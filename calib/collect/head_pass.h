#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "calib/collect/block_sums.h"
#include "calib/stats/run_settings.h"
#include "core/matrix/matrix_view.h"
#include "model/transformer/transformer.h"

namespace nibble::calib {

/// Loss and its gradient at the last boundary, and the sums of the head where it is collected.
class HeadPass {
 public:
  /// `sums` holds the head, or nothing; all must outlive this.
  HeadPass(const model::Model& model, const RunSettings& settings, BlockSums& sums);

  /// One batch: `x` (tokens, hidden) as it leaves the last block; `dx` becomes the gradient of the windows' losses,
  /// each the mean (flavour `sequence`) or the sum (`position`) over its length - 1 next tokens. `first_window` counts
  /// windows of the whole run, on which sampled labels depend. Throws NumericalError for NaN or infinity.
  void run(std::size_t first_window, const model::Batch& batch, MatrixView<const float> x, MatrixView<float> dx);

 private:
  std::vector<std::int64_t> targets_of(std::size_t first_window, const model::Batch& batch) const;
  std::vector<std::int64_t> sampled(std::size_t first_window, const model::Batch& batch) const;
  void run_with_sums(std::size_t window, MatrixView<const float> x, std::span<std::int64_t> targets,
                     std::span<const float> weights, std::span<float> losses, MatrixView<float> dx);

  const model::Model& model_;
  const RunSettings& settings_;
  BlockSums& sums_;
  Matrix<float> inputs_, gradients_;  // of one window, gathered from the head's chunks
};

}  // namespace nibble::calib
