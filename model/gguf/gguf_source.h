#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "core/matrix/linear_op.h"
#include "model/gguf/gguf_file.h"

namespace nibble::model {

/// Architectures whose rotary embedding turns neighbours (2i, 2i + 1) in llama.cpp, "normal", store the rows of q and k
/// that way, while everything else here keeps the halves apart (i, i + n/2) as Hugging Face does. With n rows per head,
/// row 2i + h of a head in the file is its row h n/2 + i here, for i < n/2 and h = 0, 1.
///
/// The row of the file (from 0, within all heads) that is row `row` here. Requires rows_per_head even and above 0.
constexpr std::size_t interleaved_row(std::size_t row, std::size_t rows_per_head) {
  const std::size_t half = rows_per_head / 2, within = row % rows_per_head;
  return row - within + 2 * (within % half) + within / half;
}
/// The inverse: the row here that row `row` of the file is.
constexpr std::size_t rotate_half_row(std::size_t row, std::size_t rows_per_head) {
  const std::size_t half = rows_per_head / 2, within = row % rows_per_head;
  return row - within + within / 2 + within % 2 * half;
}

/// Which rows of a tensor, and whether they were moved.
struct GgufRows {
  std::size_t first = 0;
  std::optional<std::size_t> count = {};  ///< all from `first`, if empty
  /// 0 leaves the rows as they are; otherwise they are so many heads of equal size, in the order above, and come out
  /// with halves apart. That moves whole rows, so it is exact.
  std::size_t interleaved_heads = 0;
};

/// Rows of a tensor of a GGUF file, decoded as they are read. The tensor counts as (product of all extents but the
/// last, last extent), so that the experts of a 3-D tensor lie one below the other. Throws FormatError when the
/// tensor's type cannot be decoded, it has not those rows, or they are not that many heads of an even number; decoding
/// throws it when the file shrank. `tensor` must be one of `file`'s.
std::shared_ptr<const WeightSource> make_gguf_source(std::shared_ptr<const GgufFile> file, const GgufTensor& tensor,
                                                     const GgufRows& rows = {});

/// Elements of a small tensor (norm, bias) as floats, whatever its shape: `rows` counts elements. Throws FormatError as
/// above.
std::vector<float> gguf_vector(const GgufFile& file, const GgufTensor& tensor, const GgufRows& rows = {});

}  // namespace nibble::model
