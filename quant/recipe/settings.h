#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "calib/stats/hessian_kind.h"
#include "quant/format/storage_format.h"

namespace nibble::quant {

// The values of the recipe's keys, in the order of docs/recipe.md: the first one is the default.
enum class Granularity : std::uint8_t { kTensor, kChannelGroup, kChannel };
enum class PaletteDtype : std::uint8_t { kFloat16, kInt8, kFloat32 };
enum class Weighting : std::uint8_t { kNone, kFisher, kSecondMoment, kMagnitude, kHessian };
enum class WeightingScale : std::uint8_t { kObjective, kPlain };
enum class Scaling : std::uint8_t { kNone, kStd, kAbsmax, kLeastSquares };
enum class Sign : std::uint8_t { kPlain, kFlip, kSearch };
enum class Solver : std::uint8_t { kNearest, kGptq, kCoordinateDescent };
using calib::HessianKind;
enum class Int4Scale : std::uint8_t { kExtreme8, kAbsmax7, kAbsmax7_5, kMinmax };
enum class UniformScale : std::uint8_t { kAbsmax, kExtreme };
enum class ScaleSearch : std::uint8_t { kNone, kError, kWeighted, kHessian };
enum class DampingBy : std::uint8_t { kOwn, kMean };
enum class GuidedInputs : std::uint8_t { kFloat, kDrifted };
enum class InputScaling : std::uint8_t { kNone, kAwq };

/// How a budget predicts losses (predicted_loss.h): kAuto by what calibration there is and how errors arise.
enum class LossEstimate : std::uint8_t { kAuto, kFisher, kGuidedHessian, kFisherHessian, kKronecker };

/// Everything that decides how one tensor is quantized: a recipe resolved for it, defaults filled in.
struct TensorSettings {
  Format format = Format::kPalette;
  unsigned bits = 4;
  Granularity granularity = Granularity::kTensor;
  std::optional<std::size_t> group_size;  ///< as given; effective_group_size() fills in the default
  std::size_t cluster_dim = 1;
  unsigned window_bits = 0;  ///< 0: codes do not overlap
  PaletteDtype palette_dtype = PaletteDtype::kFloat16;
  Weighting weighting = Weighting::kNone;
  Scaling scaling = Scaling::kNone;
  WeightingScale weighting_scale = WeightingScale::kObjective;
  Sign sign = Sign::kPlain;
  std::uint64_t joint_iterations = 0;
  bool shifting = false;
  Solver solver = Solver::kNearest;
  HessianKind hessian = HessianKind::kPlain;
  bool output_hessian = false;
  bool act_order = true;
  bool static_groups = true;
  double damping = 0.01;
  DampingBy damping_by = DampingBy::kOwn;
  std::uint64_t codebook_iterations = 0;
  bool sequential = false;
  double drift_correction = 0.0;  ///< of sequential layers: share of their inputs' drift that the weight makes up for
  GuidedInputs guided_inputs = GuidedInputs::kFloat;  ///< of guided Hessians where drift is made up for
  bool zero_point = false;
  BlockPalette palette = BlockPalette::kLearned;  ///< of block palettes
  ScaleType block_scale = ScaleType::kFloat16;    ///< of block palettes
  std::size_t super_block = 0;                    ///< of blocks: TensorSpec::super_block
  Int4Scale int4_scale = Int4Scale::kExtreme8;
  UniformScale uniform_scale = UniformScale::kAbsmax;  ///< without zero points and super-blocks
  ScaleSearch search = ScaleSearch::kNone;
  InputScaling input_scaling = InputScaling::kNone;
  double outliers_sensitive = 0.0;
  double outliers_large = 0.0;
  double outliers_saving = 0.0;
  std::uint64_t seed = 0;

  const StorageFormat& stored_as() const { return storage_format(format); }
  bool coded() const { return stored_as().coding.has_value(); }
  bool has_palette() const { return stored_as().coding == Coding::kPalette; }
  bool has_block_palette() const { return stored_as().coding == Coding::kBlockPalette; }
  bool learns_block_palette() const { return has_block_palette() && palette == BlockPalette::kLearned; }
  bool keeps_outliers() const { return outliers_sensitive > 0.0 || outliers_large > 0.0 || outliers_saving > 0.0; }
  /// Of a code, or of a value that is stored plain.
  unsigned code_bits() const { return stored_as().bits.size() == 1 ? stored_as().bits[0] : bits; }
  /// TensorSpec::group_size: as given, or the format's. A palette for the whole tensor: 0, for each row: 1.
  std::size_t effective_group_size() const;
};

}  // namespace nibble::quant
