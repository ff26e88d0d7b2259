#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "export/export_model.h"

namespace nibble::exporting {

/// Rows of block-coded matrices that stand together in one tensor of the output: their codes, scales and zero points as
/// they are stored, value = (code - zero) · scale. Rows that nobody owns have the code of zero and scale 0.
/// Threads: const calls may run concurrently.
class IntegerGrid {
 public:
  /// Throws InvalidArgument unless all parts are block-coded alike (Storage::same_codes) and one of them is there.
  explicit IntegerGrid(std::vector<RowOrigin> rows);

  std::size_t rows() const { return rows_.size(); }
  std::size_t cols() const { return spec_.cols; }
  unsigned bits() const { return spec_.bits; }
  /// 2^(bits-1): the zero point of blocks that store none.
  unsigned middle() const { return 1u << (spec_.bits - 1); }

  /// The row's codes as one little-endian bit stream (quant/format/codes.h), in `stream.size()` bytes, which are at
  /// least as many as it has: zeros follow.
  void copy_stream(std::size_t row, std::span<std::byte> stream) const;
  /// One code a byte, cols() of them.
  void codes(std::size_t row, std::span<std::uint8_t> codes) const;
  /// The scale (F16) of each `group` inputs, ceil(cols / group) of them: scales are repeated where the stored blocks
  /// are longer. Throws InvalidArgument unless they consist of whole groups.
  void scales(std::size_t row, std::size_t group, std::span<std::uint16_t> scales) const;
  /// The zero point of each `group` inputs, as scales().
  void zeros(std::size_t row, std::size_t group, std::span<std::uint8_t> zeros) const;

 private:
  // Calls action(index of the group, index of the block it lies in) for each.
  template <class Action>
  void for_groups(std::size_t group, std::size_t count, const Action& action) const;

  std::vector<RowOrigin> rows_;
  quant::TensorSpec spec_;
  std::size_t block_ = 0;  // inputs of a stored block
};

}  // namespace nibble::exporting
