#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/matrix/dtype.h"
#include "core/matrix/linear_op.h"
#include "core/matrix/matrix_view.h"
#include "quant/format/block_palette.h"
#include "quant/format/windowed_codes.h"

namespace nibble::quant {

/// What a tensor's codes mean: an index into a palette of rows, an integer on a block's grid, or an index into the one
/// palette of the tensor that each block scales.
enum class Coding : std::uint8_t { kPalette, kBlocks, kBlockPalette };

/// The layout of one quantized weight (rows, cols) = (out, in). With the parts, all that decoding needs.
struct TensorSpec {
  Coding coding = Coding::kPalette;
  std::size_t rows = 0;
  std::size_t cols = 0;
  unsigned bits = 4;
  std::size_t group_size = 0;   ///< palette: rows per palette, 0 = all; others: inputs per block, 0 = the whole row
  std::size_t cluster_dim = 1;  ///< palette: consecutive inputs per code
  unsigned window_bits = 0;     ///< palette: codes are windows of so many bits (windowed_codes.h); 0 = codes of `bits`
  BlockPalette block_palette = BlockPalette::kLearned;  ///< block palettes: of fixed ones `bits` is 4
  ScaleType scale_type = ScaleType::kFloat16;           ///< block palettes
  /// Blocks, with a palette or not: in every so many inputs of a row, scales are whole multiples, -32 to 31, of one
  /// float16 (quant/algo/blocks/super_blocks.h), which exports of super-blocks want; 0: scales are any
  std::size_t super_block = 0;

  std::size_t codes_per_row() const { return cols / cluster_dim; }
  bool windowed() const { return window_bits != 0; }
  WindowedLayout windows() const { return {rows, cols, bits, window_bits}; }  ///< of a windowed palette's codes
  std::size_t row_bytes() const;                                              ///< of packed codes, unless windowed
  std::size_t palettes() const;  ///< ceil(rows / group_size); the last one may serve fewer rows; of blocks: 1
  std::size_t blocks() const;    ///< per row, ceil(cols / group_size); the last one may be shorter
  std::size_t entries() const { return std::size_t{1} << (windowed() ? window_bits : bits); }
};

/// One stored tensor of a quantized weight P: P.codes, P.palette, … `bytes` may be unaligned.
struct TensorPart {
  std::string suffix;  ///< "codes", "palette", …
  DType dtype = DType::kU8;
  std::vector<std::uint64_t> shape;
  std::span<const std::byte> bytes;   ///< row-major
  std::shared_ptr<const void> owner;  ///< keeps `bytes` alive: a mapped file or a buffer
};

/// A weight as stored in a quantized checkpoint, and its reference decoding.
///
/// | part | shape, dtype | |
/// |---|---|---|
/// | codes | (rows, row_bytes) U8 | quant/format/codes.h |
/// | | windowed: (cols, column_bytes) U8 | quant/format/windowed_codes.h |
/// | palette | (palettes, 2^bits[, cluster_dim]) F16, F32 or I8 | ascending for scalars; windowed: (1, 2^window_bits) |
/// | palette_scale | (palettes) F16 or F32 | with an I8 palette only: an entry is its integer times this |
/// | scale | (rows) F16 | optional; not with cluster_dim > 1 |
/// | block_scale, block_zero | (rows, blocks) F16, U8 | without block_zero, zero = 2^(bits-1) |
/// | block palettes: palette | (1, 2^bits) F16 | of a learned one; ascending |
/// | block_scale | (rows, blocks) F16, F8_E8M0 or F8_E4M3 | with E4M3 none is negative |
/// | tensor_scale | (1) F32 | with E4M3 only; > 0 |
/// | outlier_rows, outlier_columns, outlier_values | (rows+1) I32, (n) I32, (n) F16 | CSR, optional, palette only |
///
/// Decoding, in float: palette    w_ij = scale_i · palette[i / group_size][code_ij]  [+ outlier]
///                     blocks     w_ij = (code_ij − zero) · block_scale, of row i and block j / group_size
///                     block palettes  w_ij = palette[code_ij] · (block_scale · tensor_scale), without one: 1
/// One rounding per operation. Vector palettes: code c of a row covers inputs c·cluster_dim … (c+1)·cluster_dim − 1.
/// Windowed palettes serve the whole tensor, and have no outliers.
///
/// Threads: const calls may run concurrently. Decoding reads codes, palettes and scales where they lie (mapped).
class QuantizedTensor final : public WeightSource {
 public:
  /// Takes the parts of tensor `name` and checks all that decoding relies on: which parts there are, dtypes, shapes,
  /// byte counts, finite and ascending palettes, finite scales (and products of both), outliers in order and in range.
  /// Throws FormatError naming the part, with expected and got. Cost: reads every part but the codes once.
  QuantizedTensor(std::string name, TensorSpec spec, std::vector<TensorPart> parts);

  QuantizedTensor(QuantizedTensor&&) = default;  // not copied: members point into parts_
  QuantizedTensor& operator=(QuantizedTensor&&) = default;

  const std::string& name() const { return name_; }
  const TensorSpec& spec() const { return spec_; }
  const std::vector<TensorPart>& parts() const { return parts_; }
  std::uint64_t stored_bits() const;  ///< of all parts
  std::uint64_t weights() const { return static_cast<std::uint64_t>(spec_.rows) * spec_.cols; }

  // For kernels, which keep a layout of their own.
  const TensorPart* find(std::string_view suffix) const;  ///< null when absent
  /// Packed, row_bytes(). Throws InvalidArgument for windowed codes, which do not lie by rows.
  std::span<const std::byte> code_row(std::size_t row) const;
  /// Codes of rows [first_row, first_row + codes.rows()), (rows, codes_per_row), however they lie.
  void read_codes(std::size_t first_row, MatrixView<std::uint16_t> codes) const;
  /// The entries of palette `group` as float, (entries[, cluster_dim]); palettes and block palettes (group 0).
  void load_palette(std::size_t group, std::vector<float>& table) const;
  float tensor_scale() const { return tensor_scale_; }  ///< of block palettes; 1 where none is stored
  const std::vector<std::int32_t>& outlier_rows() const { return outlier_rows_; }  ///< empty without outliers
  const std::vector<std::int32_t>& outlier_columns() const { return outlier_columns_; }

  std::size_t rows() const override { return spec_.rows; }
  std::size_t cols() const override { return spec_.cols; }
  void decode_rows(std::size_t begin, std::size_t end, float* destination) const override;

 private:
  const TensorPart& require(std::string_view suffix, std::span<const DType> dtypes,
                            std::vector<std::uint64_t> shape) const;
  void check_palette() const;
  void check_blocks() const;
  void check_block_palette();
  void read_outliers();
  void decode_palette_rows(std::size_t begin, std::size_t end, float* destination) const;
  void decode_window_rows(std::size_t begin, std::size_t end, float* destination) const;
  void decode_block_rows(std::size_t begin, std::size_t end, float* destination) const;
  void decode_block_palette_rows(std::size_t begin, std::size_t end, float* destination) const;

  std::string name_;
  TensorSpec spec_;
  std::vector<TensorPart> parts_;
  // Parts by meaning, null when absent; they point into parts_, which keeps its storage when moved.
  const TensorPart *codes_ = nullptr, *palette_ = nullptr, *palette_scale_ = nullptr, *scale_ = nullptr;
  const TensorPart *block_scale_ = nullptr, *block_zero_ = nullptr, *outlier_values_ = nullptr;
  float tensor_scale_ = 1.0f;
  std::vector<std::int32_t> outlier_rows_, outlier_columns_;
};

/// Parts of a palette-coded weight from what a method computed: codes (rows, codes_per_row), palette (palettes,
/// 2^bits, cluster_dim), scale (rows) or empty. Palette values must be exact in `palette_dtype` (kF16, kF32, or kI8:
/// integers from -127 to 127 times a float16) and scales in float16: rounding is the method's business. Throws
/// NumericalError when one is not finite, else InvalidArgument.
QuantizedTensor make_palette_tensor(std::string name, const TensorSpec& spec, std::span<const std::uint8_t> codes,
                                    std::span<const float> palette, DType palette_dtype, std::span<const float> scale);

/// The same for a windowed palette: codes (rows, cols) are windows that overlap down each column (windowed_codes.h),
/// palette (2^window_bits). Throws InvalidArgument for those that do not, as well.
QuantizedTensor make_windowed_tensor(std::string name, const TensorSpec& spec, MatrixView<const std::uint16_t> codes,
                                     std::span<const float> palette, DType palette_dtype, std::span<const float> scale);

/// `dense` with some weights kept apart: those of w (rows, cols) at `rows` (rows + 1) and `columns`, as the parts
/// outlier_rows and outlier_columns say. The sparse value is w less what `dense` decodes to there, in float16. Throws
/// NumericalError for one that float16 cannot hold, FormatError for places that are none.
QuantizedTensor with_outliers(const QuantizedTensor& dense, MatrixView<const float> w,
                              std::span<const std::int32_t> rows, std::span<const std::int32_t> columns);

/// make_palette_tensor() for block-coded weights: scales (rows, blocks), exact in float16; zeros (rows, blocks), or
/// empty for symmetric blocks.
QuantizedTensor make_block_tensor(std::string name, const TensorSpec& spec, std::span<const std::uint8_t> codes,
                                  std::span<const float> scales, std::span<const std::uint8_t> zeros);

/// The same for block palettes: palette (2^bits), exact in float16, or empty for a fixed one; scales (rows, blocks)
/// that spec.scale_type holds (block_palette.h), `tensor_scale` beside those of kE4M3, else 1.
QuantizedTensor make_block_palette_tensor(std::string name, const TensorSpec& spec, std::span<const std::uint8_t> codes,
                                          std::span<const float> palette, std::span<const float> scales,
                                          float tensor_scale);

/// What the codes of a tensor mean, as float: all that can change while they stay.
struct CodeValues {
  std::vector<float> palette;  ///< (palettes, 2^bits, cluster_dim), with palette_scale multiplied in; empty for
                               ///< blocks and fixed palettes
  std::vector<float> scale;    ///< (rows) or empty for palettes, (rows, blocks) for blocks; empty for
                               ///< blocks whose scales are no float16
};
CodeValues code_values(const QuantizedTensor& tensor);

/// `tensor` with these values instead of its own; all other parts are the same bytes, shared. Values must be exact in
/// the tensor's dtypes (make_palette_tensor(), make_block_tensor()). Throws as those do, FormatError for palettes that
/// do not ascend.
QuantizedTensor with_code_values(const QuantizedTensor& tensor, const CodeValues& values);

/// `tensor` with other codes (rows, codes_per_row), below 2^bits; all other parts are the same bytes, shared. Not for
/// windowed codes. Throws InvalidArgument.
QuantizedTensor with_codes(const QuantizedTensor& tensor, std::span<const std::uint8_t> codes);

}  // namespace nibble::quant
