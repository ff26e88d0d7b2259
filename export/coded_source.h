#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/matrix/linear_op.h"
#include "core/text/json_fields.h"
#include "export/program_families.h"
#include "model/checkpoint/checkpoint.h"
#include "model/checkpoint/weights.h"

namespace nibble::exporting {

/// A coded matrix of another program's file, as its reader sees it: value (i, j) = code · scale + offset, of the group
/// that j lies in, in float. Exact where offset = -zero · scale of float16 scales and codes of at most 8 bits: products
/// have at most 19 significant bits, and so has their difference.
class CodedSource : public WeightSource {
 public:
  std::size_t rows() const final { return rows_; }
  std::size_t cols() const final { return cols_; }
  void decode_rows(std::size_t begin, std::size_t end, float* destination) const final;
  void release() const final;
  void check_intact() const final;

 protected:
  /// `views` are all tensors that it reads. Requires groups_ of them to be set by the derived class.
  CodedSource(std::shared_ptr<const model::Checkpoint> checkpoint, std::vector<model::TensorView> views,
              std::size_t rows, std::size_t cols, std::size_t groups);

  std::size_t groups() const { return groups_; }
  /// Codes of rows [begin, end), a byte each, (end - begin, cols).
  virtual void codes(std::size_t begin, std::size_t end, std::span<std::uint8_t> codes) const = 0;
  /// Scale and offset of each group of a row.
  virtual void affine(std::size_t row, std::span<float> scales, std::span<float> offsets) const = 0;
  /// The group of each input; contiguous ones unless overridden.
  virtual std::size_t group_of(std::size_t col) const { return col / ((cols_ + groups_ - 1) / groups_); }

 private:
  std::shared_ptr<const model::Checkpoint> checkpoint_;
  std::vector<model::TensorView> views_;
  std::size_t rows_, cols_, groups_;
};

/// A matrix whose rows are streams of codes, (rows, words), with scales (rows, groups) of F16 or F32 and what is added:
/// `offsets` of the same kind and shape, or else -zero · scale with `zeros` (groups, rows).
std::shared_ptr<const WeightSource> make_row_stream_source(std::shared_ptr<const model::Checkpoint> checkpoint,
                                                           std::size_t cols, unsigned bits, model::TensorView streams,
                                                           model::TensorView scales,
                                                           std::optional<model::TensorView> offsets,
                                                           Matrix<std::uint8_t> zeros = {});

/// Codes of `bits` bits from a little-endian stream of words of 32 bits.
void read_stream(std::span<const std::uint32_t> words, unsigned bits, std::span<std::uint8_t> codes);

/// Element `index` of an array that may be unaligned.
template <class T>
T element(const model::TensorView& view, std::size_t index);

/// The tensor `name`, of which slice `slice` of `slices` (0: it is no stack). Throws FormatError unless it is there,
/// with one of `dtypes` and the shape of a slice `shape`.
model::TensorView require_tensor(const model::Checkpoint& checkpoint, const std::string& name,
                                 std::span<const DType> dtypes, const std::vector<std::uint64_t>& shape,
                                 std::size_t slices = 0, std::size_t slice = 0);

/// Inputs that share a scale, after the key `group_size` of `fields`: a number, or -1 for the whole row of `cols`.
/// Throws FormatError for others.
std::size_t group_size_of(const JsonFields& fields, std::size_t cols);

/// Which coded matrix of a file is wanted.
struct WantedMatrix {
  std::string module;
  std::size_t rows = 0, cols = 0;  ///< of the whole module, or of a slice
  std::size_t slices = 0, slice = 0;
};

/// How a reader of one format finds its matrices.
struct DirectoryReading {
  const ProgramFamilies& families;
  bool out_in = false;  ///< as in DirectoryFormat
  /// The tensor beside a module's name that is there if and only if it is coded: "qweight".
  std::string_view mark;
  /// The matrix, after what `config` (quantization_config, or the like) says of it. Throws FormatError.
  std::shared_ptr<const WeightSource> (*source)(const std::shared_ptr<const model::Checkpoint>& checkpoint,
                                                const nlohmann::json& config, const WantedMatrix& wanted) = nullptr;
};

/// The directory as a WeightProvider in the terms of `architecture`, which must outlive it: matrices and vectors;
/// linear layers decode. Throws FormatError for files that are not as they should be.
std::unique_ptr<model::WeightProvider> read_directory(const DirectoryReading& reading,
                                                      const std::filesystem::path& directory,
                                                      const model::Architecture& architecture);

}  // namespace nibble::exporting
