#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace nibble::eval {

/// A row of a matrix within a sequence of values.
struct RowSpan {
  std::size_t begin = 0, size = 0;
  bool below_previous = false;  ///< the row before this one is the matrix's row above it, of the same size
};

/// Entropies in bits per value, from counts, with the bias correction of Miller and Madow (1955): (cells − 1) / 2N nats
/// per distribution. The conditional ones say what a coder could gain that looks at neighbours; NaN for values of more
/// than 8 bits, whose contexts are too many to count.
struct Entropies {
  static constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  double order0 = 0.0;            ///< of the values; above 8 bits, the sum over the bytes of a value (byte planes)
  double given_previous = kNone;  ///< H(v | left neighbour in the row)
  double given_above = kNone;     ///< H(v | the value above); NaN where no row lies below another
  double within_row = kNone;      ///< mean over rows of the row's own entropy: a table per row, not counted
};

/// Values of `width` bits (1 … 32) in rows that cover them in order. Cost: some passes over the values.
Entropies entropies(std::span<const std::uint32_t> values, std::span<const RowSpan> rows, unsigned width);

}  // namespace nibble::eval
