#include <fmt/format.h>

#include "quant/format/storage_format.h"

namespace nibble::quant {
namespace {

constexpr unsigned kBits[] = {1, 2, 3, 4, 5, 6, 7, 8};
constexpr std::string_view kKeys[] = {"bits",
                                      "granularity",
                                      "group_size",
                                      "palette_dtype",
                                      "scaling",
                                      "cluster_dim",
                                      "window_bits",
                                      "weighting",
                                      "weighting_scale",
                                      "sign",
                                      "joint_iterations",
                                      "shifting",
                                      "solver",
                                      "hessian",
                                      "output_hessian",
                                      "act_order",
                                      "damping",
                                      "damping_by",
                                      "codebook_iterations",
                                      "sequential",
                                      "drift_correction",
                                      "guided_inputs",
                                      "input_scaling",
                                      "outliers_sensitive",
                                      "outliers_large",
                                      "outliers_saving",
                                      "seed"};

std::string describe(const TensorSpec& spec) {
  if (spec.windowed()) return fmt::format("palette {}-bit window-{} tensor", spec.bits, spec.window_bits);
  const std::string vectors = spec.cluster_dim == 1 ? "" : fmt::format(" vectors of {}", spec.cluster_dim);
  const std::string rows = spec.group_size == 0   ? "tensor"
                           : spec.group_size == 1 ? "channel"
                                                  : fmt::format("channel-group {}", spec.group_size);
  return fmt::format("palette {}-bit{} {}", spec.bits, vectors, rows);
}

}  // namespace

constinit const StorageFormat kPaletteFormat{.format = Format::kPalette,
                                             .name = "palette",
                                             .coding = Coding::kPalette,
                                             .bits = kBits,
                                             .group_size = 8,
                                             .group_sizes = {},
                                             .keys = kKeys,
                                             .describe = describe};

}  // namespace nibble::quant
