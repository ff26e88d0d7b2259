#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <string>

#include "core/error.h"
#include "python/src/arrays.h"
#include "python/src/bindings.h"
#include "python/src/choices.h"
#include "quant/algo/blocks/block_search.h"

namespace nibble::python {
namespace {

using namespace nb::literals;
using quant::BlockRounding;

quant::BlockRoundingOptions options_of(unsigned bits, std::size_t block, const std::string& scale) {
  return {.bits = bits, .block = block, .scale = choose("scale", scale, kBlockScales)};
}

BlockRounding round_blocks(const AnyArray& w, unsigned bits, std::size_t block, const std::string& scale) {
  const Floats values(w, "w");
  const auto options = options_of(bits, block, scale);
  return unlocked([&] { return quant::round_blocks(values.matrix(), options); });
}

BlockRounding search_blocks(const AnyArray& w, const MaybeArray& weights, const MaybeArray& hessian, unsigned bits,
                            std::size_t block, const std::string& scale) {
  NIBBLE_REQUIRE(!weights || !hessian, InvalidArgument, "search_blocks: expected weights or a hessian, got both");
  const Floats values(w, "w"), f(weights, "weights"), h(hessian, "hessian");
  const auto options = options_of(bits, block, scale);
  if (hessian) h.finite();
  return unlocked([&] {
    return hessian ? quant::search_blocks_hessian(values.matrix(), h.matrix(), options)
                   : quant::search_blocks(values.matrix(), f.matrix(), options);
  });
}

}  // namespace

void bind_blocks(nb::module_& module) {
  nb::class_<BlockRounding>(module, "BlockRounding",
                            "value (i, j) = (codes[i, j] - zero) · scales[i, j // block]; zero = zeros[i, j // block], "
                            "or 2^(bits-1) where there are none")
      .def_prop_ro("scales", &array_of<&BlockRounding::scales>, "(out, blocks) float32, exact in float16")
      .def_prop_ro(
          "zeros",
          [](nb::handle_t<BlockRounding> self) -> nb::object {
            const auto& zeros = nb::cast<BlockRounding&>(self).zeros;
            if (zeros.size() == 0) return nb::none();
            return nb::cast(view_of(zeros, self));
          },
          nb::sig("def zeros(self) -> numpy.typing.NDArray[numpy.uint8] | None"),
          "(out, blocks) uint8 with scale='minmax', else None")
      .def_prop_ro("codes", &array_of<&BlockRounding::codes>, "(out, in) uint8, < 2^bits");
  module.def("round_blocks", &round_blocks, "w"_a, nb::kw_only(), "bits"_a = 4, "block"_a = 32, "scale"_a = "extreme-8",
             R"(Uniform grids, one scale (and zero point) per block of `block` inputs (0: the whole row):

    code = clamp(round_half_even(w · (1 / scale)) + zero, 0, 2^bits - 1), in float32

scale, with half = 2^(bits-1): "extreme-8" (value of largest magnitude) / -half, as Q4_0; "absmax-7" max |w| / (half - 1);
"absmax-7.5" max |w| / (half - 0.5); "minmax" (max - min) / (2^bits - 1) with a zero point. Rounded to float16 before codes
are chosen. w (out, in) float32, only read.)");
  module.def(
      "search_blocks", &search_blocks, "w"_a, "weights"_a = nb::none(), "hessian"_a = nb::none(), nb::kw_only(),
      "bits"_a = 4, "block"_a = 32, "scale"_a = "extreme-8",
      R"(round_blocks() with every block's scale searched instead of ruled. For weights f (out, in), or None for ones:

    E(s, z) = sum_j f_j (w_j - s q_j)²

for a hessian (in, in): δ H_b δᵀ, H_b the block's inputs in it. Never worse than the rule, but for rounding.)");
}

}  // namespace nibble::python
