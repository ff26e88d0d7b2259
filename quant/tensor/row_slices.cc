#include "quant/tensor/row_slices.h"

#include <algorithm>
#include <memory>
#include <utility>

namespace nibble::quant {

namespace {

bool ties_rows(const TensorSettings& settings) {
  return settings.solver != Solver::kNearest || settings.scaling != Scaling::kNone || settings.cluster_dim > 1 ||
         settings.window_bits != 0 || settings.keeps_outliers() || settings.weighting == Weighting::kHessian;
}

}  // namespace

bool one_palette(const TensorSettings& settings) {
  return settings.has_palette() && settings.granularity == Granularity::kTensor && !ties_rows(settings);
}

std::size_t rows_per_slice(const TensorSettings& settings, std::size_t rows, std::size_t cols, bool fisher,
                           std::size_t weights) {
  const bool palette = settings.has_palette(), rounded = !settings.coded();
  const bool tied =
      fisher || ties_rows(settings) || (one_palette(settings) && rows * cols <= kHeldSlices * weights) ||
      (settings.has_block_palette() && (settings.learns_block_palette() || settings.block_scale == ScaleType::kE4M3));
  if (tied && !rounded) return rows;
  const std::size_t group = palette ? std::max<std::size_t>(settings.effective_group_size(), 1) : 1;
  return std::min(rows, std::max<std::size_t>(weights / std::max<std::size_t>(cols, 1) / group, 1) * group);
}

void StackedParts::append(const std::vector<TensorPart>& parts) {
  const bool first = parts_.empty();
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const bool once = only_codes_ && parts[i].suffix != "codes";
    if (once && !first) continue;
    if (first) {
      parts_.push_back({parts[i].suffix, parts[i].dtype, parts[i].shape, {}, nullptr});
      bytes_.emplace_back().reserve((once ? 1 : slices_) * parts[i].bytes.size());
    } else {
      parts_[i].shape[0] += parts[i].shape[0];
    }
    bytes_[i].insert(bytes_[i].end(), parts[i].bytes.begin(), parts[i].bytes.end());
  }
}

std::vector<TensorPart> StackedParts::take() {
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const auto owner = std::make_shared<const LargeVector<std::byte>>(std::move(bytes_[i]));
    parts_[i].bytes = *owner;
    parts_[i].owner = owner;
  }
  return std::move(parts_);
}

}  // namespace nibble::quant
