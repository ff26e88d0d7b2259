#include <nanobind/nanobind.h>

#include <span>

#include "core/error.h"
#include "core/machine/thread_pool.h"
#include "python/src/arrays.h"
#include "python/src/bindings.h"
#include "quant/format/codes.h"

namespace nibble::python {
namespace {

using namespace nb::literals;

constexpr std::size_t kRowTile = 64;

NumpyMatrix<std::uint8_t> pack_codes(const AnyArray& codes, unsigned bits) {
  const Codes given(codes, "codes");
  const MatrixView<const std::uint8_t> rows = given.matrix();
  // Before anything of that size is made.
  NIBBLE_REQUIRE(bits >= 1 && bits <= 8, InvalidArgument, "pack_codes: bits: expected 1 to 8, got {}", bits);
  return to_numpy(unlocked([&] {
    Matrix<std::uint8_t> packed(rows.rows(), quant::packed_row_bytes(rows.cols(), bits));
    parallel_for_tiles(rows.rows(), kRowTile, [&](std::size_t begin, std::size_t end) {
      for (std::size_t r = begin; r < end; ++r)
        quant::pack_codes(rows.row(r), bits, std::as_writable_bytes(packed.row(r)));
    });
    return packed;
  }));
}

NumpyMatrix<std::uint8_t> unpack_codes(const AnyArray& packed, unsigned bits, std::size_t columns) {
  const Codes given(packed, "packed");
  const MatrixView<const std::uint8_t> rows = given.matrix();
  // Before anything of that size is made.
  NIBBLE_REQUIRE(columns <= rows.cols() * 8 && rows.cols() == quant::packed_row_bytes(columns, bits), InvalidArgument,
                 "unpack_codes: rows of {} bytes do not hold {} codes of {} bits", rows.cols(), columns, bits);
  return to_numpy(unlocked([&] {
    Matrix<std::uint8_t> codes(rows.rows(), columns);
    parallel_for_tiles(rows.rows(), kRowTile, [&](std::size_t begin, std::size_t end) {
      for (std::size_t r = begin; r < end; ++r) quant::unpack_codes(std::as_bytes(rows.row(r)), bits, codes.row(r));
    });
    return codes;
  }));
}

}  // namespace

void bind_packing(nb::module_& module) {
  module.def(
      "pack_codes", &pack_codes, "codes"_a, "bits"_a,
      R"(Packs every row of `codes` (rows, n) uint8 as one little-endian bit stream: bit b of code j is bit j·bits + b of the
row, least significant first, padded with zeros to whole bytes (docs/formats.md). bits: 1 to 8.)");
  module.def("unpack_codes", &unpack_codes, "packed"_a, "bits"_a, "columns"_a,
             "The inverse of pack_codes(): (rows, columns) uint8.");
}

}  // namespace nibble::python
