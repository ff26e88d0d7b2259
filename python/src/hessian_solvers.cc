#include <nanobind/nanobind.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <memory>
#include <string>

#include "core/error.h"
#include "python/src/arrays.h"
#include "python/src/bindings.h"
#include "python/src/choices.h"
#include "quant/algo/blocks/grid_columns.h"
#include "quant/algo/palettes/palette_columns.h"
#include "quant/algo/solve/codebook_update.h"
#include "quant/algo/solve/coordinate_descent.h"
#include "quant/algo/solve/error_feedback.h"
#include "quant/algo/solve/refine_palettes.h"

namespace nibble::python {
namespace {

using namespace nb::literals;

/// What error feedback and coordinate descent round to, and the arrays it reads.
class Grid {
 public:
  static std::shared_ptr<Grid> of_palettes(const AnyArray& palettes, std::size_t group_rows, const MaybeArray& scales) {
    auto grid = std::make_shared<Grid>();
    grid->palettes_ = copied(Floats(palettes, "palettes").matrix());
    if (scales) {
      Floats values(*scales, "scales");
      values.finite();
      const auto flat = values.flat().values();
      grid->scales_.assign(flat.begin(), flat.end());
    }
    grid->group_rows_ = group_rows;
    grid->entries_ = grid->palettes_.cols();
    grid->rounding_ = std::make_unique<quant::PaletteRounding>(grid->palettes_.view(), group_rows, grid->scales_);
    return grid;
  }
  static std::shared_ptr<Grid> of_blocks(const AnyArray& w, unsigned bits, std::size_t block, const std::string& scale,
                                         bool static_groups) {
    auto grid = std::make_shared<Grid>();
    const Floats values(w, "w");
    const quant::BlockRoundingOptions options{
        .bits = bits, .block = block, .scale = choose("scale", scale, kBlockScales)};
    auto rounding =
        unlocked([&] { return std::make_unique<quant::GridRounding>(values.matrix(), options, static_groups); });
    grid->blocks_ = rounding.get();
    grid->rows_ = values.matrix().rows();
    grid->cols_ = values.matrix().cols();
    grid->entries_ = std::size_t{1} << bits;
    grid->rounding_ = std::move(rounding);
    return grid;
  }

  quant::ColumnRounding& rounding() { return *rounding_; }
  std::size_t entries() const { return entries_; }  ///< codes are below it

  /// Throws InvalidArgument unless it is a grid for weights of this shape: solvers index it by row and input.
  void require_fits(MatrixView<const float> w) const {
    NIBBLE_REQUIRE(w.rows() > 0 && w.cols() > 0, InvalidArgument, "w: expected rows and columns, got ({}, {})",
                   w.rows(), w.cols());
    if (blocks_ != nullptr) {
      NIBBLE_REQUIRE(w.rows() == rows_ && w.cols() == cols_, InvalidArgument,
                     "grid: made for weights ({}, {}), but w is ({}, {})", rows_, cols_, w.rows(), w.cols());
      return;
    }
    const std::size_t groups = group_rows_ == 0 ? 1 : w.rows() / group_rows_ + (w.rows() % group_rows_ != 0 ? 1 : 0);
    NIBBLE_REQUIRE(palettes_.rows() == groups, InvalidArgument, "grid: {} palettes, but {} rows need {}",
                   palettes_.rows(), w.rows(), groups);
    NIBBLE_REQUIRE(scales_.empty() || scales_.size() == w.rows(), InvalidArgument, "grid: {} scales for {} rows",
                   scales_.size(), w.rows());
  }
  const quant::GridRounding* blocks() const { return blocks_; }

 private:
  static Matrix<float> copied(MatrixView<const float> view) {
    Matrix<float> matrix(view.rows(), view.cols());
    for (std::size_t r = 0; r < view.rows(); ++r)
      std::copy(view.row(r).begin(), view.row(r).end(), matrix.row(r).begin());
    return matrix;
  }

  Matrix<float> palettes_;  // few: their own copy, so that they outlive the caller's array
  std::vector<float> scales_;
  std::size_t group_rows_ = 0, entries_ = 0;
  std::size_t rows_ = 0, cols_ = 0;  ///< of the weights that a grid of blocks was made for
  std::unique_ptr<quant::ColumnRounding> rounding_;
  const quant::GridRounding* blocks_ = nullptr;
};

quant::HessianFactor factor_hessian(const AnyArray& hessian, double damping, bool act_order, bool in_double) {
  const Floats h(hessian, "hessian");
  return unlocked([&] {
    return quant::factor_hessian(h.matrix(), {.damping = damping, .act_order = act_order, .in_double = in_double});
  });
}

quant::FeedbackResult gptq(const AnyArray& w, const quant::HessianFactor& factor, Grid& grid) {
  const Floats values(w, "w");
  grid.require_fits(values.matrix());
  NIBBLE_REQUIRE(factor.order.size() == values.matrix().cols(), InvalidArgument, "factor: of {} inputs, but w has {}",
                 factor.order.size(), values.matrix().cols());
  return unlocked([&] { return quant::round_with_feedback(values.matrix(), factor, grid.rounding()); });
}

quant::DescentResult coordinate_descent(const AnyArray& w, const AnyArray& hessian, Grid& grid,
                                        const WritableCodes& codes, std::size_t sweeps) {
  const Floats values(w, "w"), h(hessian, "hessian");
  const MatrixView<std::uint8_t> changed = in_place(codes, "codes");
  grid.require_fits(values.finite().matrix());
  h.finite();
  NIBBLE_REQUIRE(changed.rows() == values.matrix().rows() && changed.cols() == values.matrix().cols(), InvalidArgument,
                 "codes: ({}, {}), but w is ({}, {})", changed.rows(), changed.cols(), values.matrix().rows(),
                 values.matrix().cols());
  require_below(changed, grid.entries(), "codes");
  return unlocked(
      [&] { return quant::coordinate_descent(values.matrix(), h.matrix(), grid.rounding(), sweeps, changed); });
}

double hessian_error(const AnyArray& w, const AnyArray& decoded, const AnyArray& hessian) {
  const Floats values(w, "w"), other(decoded, "decoded"), h(hessian, "hessian");
  const auto a = values.matrix(), b = other.matrix();
  NIBBLE_REQUIRE(a.rows() == b.rows() && a.cols() == b.cols(), InvalidArgument,
                 "hessian_error: w is ({}, {}) but decoded ({}, {})", a.rows(), a.cols(), b.rows(), b.cols());
  return unlocked([&] {
    Matrix<float> delta(a.rows(), a.cols());
    for (std::size_t r = 0; r < a.rows(); ++r)
      for (std::size_t c = 0; c < a.cols(); ++c) delta(r, c) = a(r, c) - b(r, c);
    return quant::hessian_error(delta, h.matrix());
  });
}

quant::PaletteWeight palette_weight(const AnyArray& palettes, const AnyArray& codes, std::size_t group_rows,
                                    const MaybeArray& scales) {
  const auto entries = Floats(palettes, "palettes");
  const auto given = Codes(codes, "codes");
  NIBBLE_REQUIRE(entries.finite().matrix().cols() >= 1 && entries.matrix().cols() <= 256, InvalidArgument,
                 "palettes: expected 1 to 256 entries, got {}", entries.matrix().cols());
  require_below(given.matrix(), entries.matrix().cols(), "codes");
  quant::PaletteWeight weight;
  weight.palettes = Matrix<float>(entries.matrix().rows(), entries.matrix().cols());
  for (std::size_t r = 0; r < weight.palettes.rows(); ++r)
    std::copy_n(entries.matrix().row(r).begin(), weight.palettes.cols(), weight.palettes.row(r).begin());
  weight.codes = Matrix<std::uint8_t>(given.matrix().rows(), given.matrix().cols());
  for (std::size_t r = 0; r < weight.codes.rows(); ++r)
    std::copy_n(given.matrix().row(r).begin(), weight.codes.cols(), weight.codes.row(r).begin());
  weight.group_rows = group_rows;
  if (scales) {
    Floats values(*scales, "scales");
    const auto flat = values.flat().values();
    weight.scales.assign(flat.begin(), flat.end());
  }
  return weight;
}

void update_palette(quant::PaletteWeight& weight, const AnyArray& w, const AnyArray& hessian,
                    const std::string& palette_dtype) {
  const Floats values(w, "w"), h(hessian, "hessian");
  values.finite();
  h.finite();
  const DType dtype = choose("palette_dtype", palette_dtype, kPaletteDtypes);
  unlocked([&] { quant::update_palettes(values.matrix(), h.matrix(), dtype, weight); });
}

void update_scales(quant::PaletteWeight& weight, const AnyArray& w, const AnyArray& hessian) {
  const Floats values(w, "w"), h(hessian, "hessian");
  values.finite();
  h.finite();
  unlocked([&] { quant::update_scales(values.matrix(), h.matrix(), weight); });
}

NumpyVector<double> refine(quant::PaletteWeight& weight, const AnyArray& w, const AnyArray& hessian,
                           const quant::HessianFactor* factor, std::size_t iterations, std::size_t sweeps, bool scales,
                           const std::string& palette_dtype) {
  const Floats values(w, "w"), h(hessian, "hessian");
  const quant::RefineOptions options{.iterations = iterations,
                                     .sweeps = sweeps,
                                     .scales = scales,
                                     .palette_dtype = choose("palette_dtype", palette_dtype, kPaletteDtypes)};
  return to_numpy(
      unlocked([&] { return quant::refine_palettes(values.matrix(), h.matrix(), factor, options, weight); }));
}

// These are replaced by the updates, so views of them could outlive what they show.
template <auto kMember>
auto copy_of(const quant::PaletteWeight& weight) {
  auto copy = weight.*kMember;
  return to_numpy(std::move(copy));
}

void bind_solved(nb::module_& module) {
  nb::class_<Grid>(module, "Grid", "The values that a solver may round to: palette_grid() or block_grid().")
      .def_prop_ro(
          "scales",
          [](nb::handle_t<Grid> self) -> nb::object {
            const quant::GridRounding* blocks = nb::cast<Grid&>(self).blocks();
            if (blocks == nullptr) return nb::none();
            return nb::cast(view_of(blocks->scales(), self));
          },
          nb::sig("def scales(self) -> numpy.typing.NDArray[numpy.float32] | None"),
          "(out, blocks) float32 of a block grid, as error feedback left them; else None")
      .def_prop_ro(
          "zeros",
          [](nb::handle_t<Grid> self) -> nb::object {
            const quant::GridRounding* blocks = nb::cast<Grid&>(self).blocks();
            if (blocks == nullptr || blocks->zeros().size() == 0) return nb::none();
            return nb::cast(view_of(blocks->zeros(), self));
          },
          nb::sig("def zeros(self) -> numpy.typing.NDArray[numpy.uint8] | None"),
          "(out, blocks) uint8 zero points, or None");
  nb::class_<quant::HessianFactor>(module, "HessianFactor", "A Hessian made ready for error feedback.")
      .def_prop_ro("upper", &array_of<&quant::HessianFactor::upper>,
                   "(n, n) float32: upper triangular U with UᵀU = (H + diag(damping))⁻¹, in `order`")
      .def_prop_ro("order", &array_of<&quant::HessianFactor::order>, "(n): position p holds input order[p]")
      .def_prop_ro("silent", &array_of<&quant::HessianFactor::silent>, "(n) uint8: 1 for inputs without information")
      .def_prop_ro("damping", &array_of<&quant::HessianFactor::damping>, "(n): added to the diagonal, in units of H")
      .def_ro("damping_share", &quant::HessianFactor::damping_share, "the same as a share of the diagonal");
  nb::class_<quant::FeedbackResult>(module, "FeedbackResult", "What gptq() found.")
      .def_prop_ro("codes", &array_of<&quant::FeedbackResult::codes>, "(out, in) uint8")
      .def_ro("loss", &quant::FeedbackResult::loss, "tr(Δ H Δᵀ), Δ = w - decoded");
  nb::class_<quant::DescentResult>(module, "DescentResult", "What coordinate_descent() did.")
      .def_ro("loss_before", &quant::DescentResult::loss_before)
      .def_ro("loss", &quant::DescentResult::loss)
      .def_ro("sweeps", &quant::DescentResult::sweeps, "run; fewer than asked for when one changed nothing");
  nb::class_<quant::PaletteWeight>(module, "PaletteWeight",
                                   "value (i, j) = scales[i] · palettes[i // group_rows, codes[i, j]]: what "
                                   "update_palette(), update_scales() and refine() change. Its arrays are copies.")
      .def(nb::new_(&palette_weight), "palettes"_a, "codes"_a, nb::kw_only(), "group_rows"_a = 0,
           "scales"_a = nb::none(), "Copies all three.")
      .def_prop_ro("palettes", &copy_of<&quant::PaletteWeight::palettes>, nb::rv_policy::automatic,
                   "(groups, k) float32, rows ascending")
      .def_prop_ro("codes", &copy_of<&quant::PaletteWeight::codes>, nb::rv_policy::automatic, "(out, in) uint8")
      .def_prop_ro("scales", &copy_of<&quant::PaletteWeight::scales>, nb::rv_policy::automatic,
                   "(out) float32, or empty for ones")
      .def_ro("group_rows", &quant::PaletteWeight::group_rows)
      .def(
          "update_palette", &update_palette, "w"_a, "hessian"_a, "palette_dtype"_a = "float16",
          R"(The palettes that are best under H for codes and scales as they are: the minimum over c of sum_i tr(Δ_i H Δ_iᵀ), by
the normal equations of each group (GANQ's and LNQ's codebook step, pooled over its rows), by conjugate gradients.)")
      .def("update_scales", &update_scales, "w"_a, "hessian"_a,
           "s_i = w_iᵀ H q_i / q_iᵀ H q_i for palettes and codes as they are, rounded to float16.")
      .def(
          "refine", &refine, "w"_a, "hessian"_a, "factor"_a.none() = nb::none(), nb::kw_only(), "iterations"_a = 2,
          "sweeps"_a = quant::kMostSweeps, "scales"_a = false, "palette_dtype"_a = "float16",
          R"(Alternates palettes (and scales) with codes, which error feedback chooses anew where `factor` is given and coordinate
descent then improves until a sweep gains less than a thousandth; keeps the best of all. Returns the losses: at the start, after each round, after
the last update.)");
}

}  // namespace

void bind_solvers(nb::module_& module) {
  bind_solved(module);
  module.def(
      "palette_grid", &Grid::of_palettes, "palettes"_a, nb::kw_only(), "group_rows"_a = 0, "scales"_a = nb::none(),
      "Nearest entry of s_i · c_k: palettes (groups, k) ascending, one per group_rows rows (0: all); scales (out).");
  module.def(
      "block_grid", &Grid::of_blocks, "w"_a, nb::kw_only(), "bits"_a = 4, "block"_a = 32, "scale"_a = "extreme-8",
      "static_groups"_a = true,
      R"(The grids that round_blocks() gives `w`. static_groups=False: each block's grid is chosen when error feedback reaches
it, from the weights as they are then; that needs a factor without act_order, and a new grid for every gptq().)");
  module.def(
      "factor_hessian", &factor_hessian, "hessian"_a, nb::kw_only(), "damping"_a = 0.01, "act_order"_a = true,
      "in_double"_a = false,
      R"(Factors H (n, n), symmetric, float32, for gptq(): H + damping · diag(H), inputs by decreasing diagonal with
act_order. Where that is not positive definite the damping is raised tenfold until it is.)");
  module.def(
      "gptq", &gptq, "w"_a, "factor"_a, "grid"_a,
      R"(Rounds `w` input by input, each time spreading the error over the inputs not yet rounded (GPTQ, arXiv:2210.17323):

    for p = 0 … n-1, j = order[p]:  q_j = Q(w_j),  e = (w_j - q_j) / U_pp,  w_k -= e · U_pq for all later k = order[q]

w (out, in) float32, finite, only read.)");
  module.def("coordinate_descent", &coordinate_descent, "w"_a, "hessian"_a, "grid"_a, "codes"_a.noconvert(),
             "sweeps"_a = 4,
             R"(Improves `codes` (out, in) uint8 IN PLACE, one after the other (LNQ, arXiv:2505.07004):

    q_ij = Q( w_ij - sum_{k≠j} (H_kj / H_jj) (ŵ_ik - w_ik) )

`sweeps` times over all inputs or until nothing changes. No step raises the loss, but for rounding.)");
  module.def("hessian_error", &hessian_error, "w"_a, "decoded"_a, "hessian"_a,
             "tr(Δ H Δᵀ), Δ = w - decoded (out, in), H (in, in): the error that the outputs get, summed over them.");
}

}  // namespace nibble::python
