#include "export/storage.h"

#include <fmt/format.h>

#include "quant/store/quantization_config.h"

namespace nibble::exporting {

namespace {

// Blocks longer than the row are the row. (As long as it: they keep their name, which other matrices share.)
std::size_t shared_inputs(const quant::TensorSpec& spec) {
  return spec.coding != quant::Coding::kPalette && spec.group_size > spec.cols ? 0 : spec.group_size;
}

}  // namespace

bool Storage::same_codes(const Storage& other) const {
  return format == other.format && bits == other.bits && group_size == other.group_size &&
         cluster_dim == other.cluster_dim && window_bits == other.window_bits && zero_points == other.zero_points &&
         row_scales == other.row_scales && outliers == other.outliers && block_palette == other.block_palette &&
         scale_type == other.scale_type && super_block == other.super_block && palette_dtype == other.palette_dtype &&
         cols == other.cols;
}

std::string Storage::text() const {
  if (!foreign.empty()) return foreign;
  if (!coded()) return fmt::format("float{}", bits);
  quant::TensorSpec spec;
  spec.coding = *quant::storage_format(format).coding;
  spec.rows = rows;
  spec.cols = cols;
  spec.bits = bits;
  // Neither of the two has a word for whole rows.
  spec.group_size = format == quant::Format::kInt4Block || has_block_palette() ? group() : group_size;
  spec.cluster_dim = cluster_dim;
  spec.window_bits = window_bits;
  spec.block_palette = block_palette;
  spec.scale_type = scale_type;
  spec.super_block = super_block;
  std::string text = quant::storage_text({format, spec});
  if (palette() && palette_dtype == quant::PaletteDtype::kInt8) text += " of int8";
  if (palette() && palette_dtype == quant::PaletteDtype::kFloat32) text += " of float32";
  if (zero_points) text += " with zero points";
  if (row_scales) text += " with row scales";
  if (outliers) text += " with outliers";
  return text;
}

Storage storage_of(const quant::MappedQuantizedWeight& weight) {
  const quant::QuantizedTensor& tensor = weight.tensor();
  const quant::TensorSpec& spec = tensor.spec();
  Storage storage{.format = weight.stored().format,
                  .bits = spec.bits,
                  .group_size = shared_inputs(spec),
                  .cluster_dim = spec.cluster_dim,
                  .window_bits = spec.window_bits,
                  .zero_points = tensor.find("block_zero") != nullptr,
                  .row_scales = tensor.find("scale") != nullptr,
                  .outliers = tensor.find("outlier_rows") != nullptr,
                  .block_palette = spec.block_palette,
                  .scale_type = spec.scale_type,
                  .super_block = spec.super_block,
                  .rows = spec.rows,
                  .cols = spec.cols};
  if (const quant::TensorPart* palette = tensor.find("palette"))
    storage.palette_dtype = palette->dtype == DType::kF32  ? quant::PaletteDtype::kFloat32
                            : palette->dtype == DType::kI8 ? quant::PaletteDtype::kInt8
                                                           : quant::PaletteDtype::kFloat16;
  return storage;
}

Storage storage_of(const quant::TensorSettings& settings, std::size_t rows, std::size_t cols) {
  if (!settings.coded()) return {.rows = rows, .cols = cols, .foreign = {}};
  const quant::TensorSpec spec = quant::stored_tensor(settings, rows, cols).spec;
  const bool palette = settings.has_palette();
  return {.format = settings.format,
          .bits = spec.bits,
          .group_size = shared_inputs(spec),
          .cluster_dim = spec.cluster_dim,
          .window_bits = spec.window_bits,
          .zero_points = !palette && !settings.has_block_palette() && settings.zero_point,
          .row_scales = palette && settings.scaling != quant::Scaling::kNone,
          .outliers = settings.keeps_outliers(),
          .block_palette = spec.block_palette,
          .scale_type = spec.scale_type,
          .super_block = spec.super_block,
          .palette_dtype = settings.palette_dtype,
          .rows = rows,
          .cols = cols};
}

}  // namespace nibble::exporting
