#pragma once

#include <cstddef>
#include <string>

#include "model/architecture/architecture.h"
#include "quant/recipe/settings.h"
#include "quant/store/model_weights.h"

namespace nibble::exporting {

/// How a matrix is stored, as far as other programs' formats care: what decides whether one of them can hold it.
struct Storage {
  quant::Format format = quant::Format::kFloat16;
  unsigned bits = 16;  ///< of a code, or of a float
  /// Blocks, with a palette or not: inputs that share a scale, 0 for the whole row. Palettes: rows that share a
  /// palette, 0 for all.
  std::size_t group_size = 0;
  std::size_t cluster_dim = 1;  ///< palettes: inputs of one code
  unsigned window_bits = 0;     ///< palettes: bits of a code where codes overlap, else 0
  bool zero_points = false;     ///< blocks: value = (code - zero) scale, with a zero for each block
  bool row_scales = false;      ///< palettes: a scale for each row
  bool outliers = false;        ///< palettes: some weights kept apart
  quant::BlockPalette block_palette = quant::BlockPalette::kLearned;  ///< block palettes
  quant::ScaleType scale_type = quant::ScaleType::kFloat16;           ///< block palettes
  std::size_t super_block = 0;  ///< blocks, with a palette or not: inputs whose scales are multiples of one step, or 0
  quant::PaletteDtype palette_dtype = quant::PaletteDtype::kFloat16;
  std::size_t rows = 0, cols = 0;
  std::string foreign = {};  ///< what another program stored that is read as floats: "Q4_K", "mxfp4"; or empty
  model::Role role = model::Role::kQ;  ///< what the matrix is for: some formats hold linear layers only
  bool corrected = false;              ///< a router whose scores have a correction, which few hold as a linear layer

  /// Sets role and corrected to those of a matrix of the network.
  void set_purpose(const model::Architecture& architecture, const model::Parameter& matrix) {
    role = matrix.role;
    corrected = model::is_corrected_router(architecture, matrix);
  }

  bool coded() const { return format != quant::Format::kFloat16; }
  bool blocks() const { return format == quant::Format::kUniform || format == quant::Format::kInt4Block; }
  bool palette() const { return format == quant::Format::kPalette; }
  bool has_block_palette() const { return format == quant::Format::kBlockPalette; }
  /// Inputs that share a scale, the whole row said as its length.
  std::size_t group() const { return group_size == 0 ? cols : group_size; }
  /// Whether codes mean the same and lie alike, so that rows of both can stand in one tensor.
  bool same_codes(const Storage& other) const;
  /// "int4-block 32 with zero points", "palette 4-bit tensor with row scales".
  std::string text() const;
};

/// Of a weight that is stored.
Storage storage_of(const quant::MappedQuantizedWeight& weight);
/// Of a weight (rows, cols) that a recipe is about to quantize.
Storage storage_of(const quant::TensorSettings& settings, std::size_t rows, std::size_t cols);

}  // namespace nibble::exporting
