#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <string_view>

#include "core/error.h"
#include "core/machine/thread_pool.h"
#include "python/src/arrays.h"
#include "python/src/bindings.h"
#include "python/src/choices.h"
#include "quant/algo/kmeans/palette.h"
#include "quant/algo/palettes/palette_rounding.h"
#include "quant/algo/palettes/palettize.h"
#include "quant/algo/palettes/scaled_palette.h"
#include "quant/algo/vectors/vector_palette.h"

namespace nibble::python {
namespace {

using namespace nb::literals;

/// quant::fit_palettes() as arrays.
struct Palettes {
  Matrix<float> centroids;
  std::vector<double> cost, lower_bound;
};

void require_alike(const AnyArray& x, const MaybeArray& weights, std::string_view function) {
  bool alike = !weights || weights->ndim() == x.ndim();
  for (std::size_t d = 0; alike && weights && d < x.ndim(); ++d) alike = weights->shape(d) == x.shape(d);
  NIBBLE_REQUIRE(alike, InvalidArgument, "{}: weights have another shape than x", function);
}

quant::Palette fit_palette(const AnyArray& x, const MaybeArray& weights, std::size_t centroids, double gap) {
  Floats values(x, "x"), w(weights, "weights");
  require_alike(x, weights, "fit_palette");
  const std::span<const float> flat_values = values.flat().values();
  const std::span<const float> flat_weights = !weights ? std::span<const float>() : w.flat().values();
  return unlocked([&] { return quant::fit_palette(flat_values, flat_weights, {.centroids = centroids, .gap = gap}); });
}

Palettes fit_palettes(const AnyArray& w, const MaybeArray& weights, std::size_t centroids, std::size_t group_rows,
                      double gap) {
  const Floats values(w, "w"), sensitivities(weights, "weights");
  return unlocked([&] {
    const std::vector<quant::Palette> fitted =
        quant::fit_palettes(values.matrix(), sensitivities.matrix(), group_rows, {.centroids = centroids, .gap = gap});
    Palettes palettes{.centroids = Matrix<float>(fitted.size(), centroids), .cost = {}, .lower_bound = {}};
    for (std::size_t group = 0; group < fitted.size(); ++group) {
      std::copy(fitted[group].centroids.begin(), fitted[group].centroids.end(), palettes.centroids.row(group).begin());
      palettes.cost.push_back(fitted[group].cost);
      palettes.lower_bound.push_back(fitted[group].lower_bound);
    }
    return palettes;
  });
}

NumpyMatrix<std::uint8_t> assign(const AnyArray& w, const AnyArray& palettes, std::size_t group_rows) {
  constexpr std::size_t kRowTile = 16;
  const Floats values(w, "w"), entries(palettes, "palettes");
  const MatrixView<const float> x = values.finite().matrix(), c = entries.finite().matrix();
  if (group_rows == 0) group_rows = std::max<std::size_t>(1, x.rows());
  const std::size_t groups = x.rows() / group_rows + (x.rows() % group_rows != 0 ? 1 : 0);
  NIBBLE_REQUIRE(c.rows() == groups, InvalidArgument,
                 "assign: {} rows in groups of {} need {} palettes, got {}; group_rows says how many rows share one",
                 x.rows(), group_rows, groups, c.rows());
  return to_numpy(unlocked([&] {
    Matrix<std::uint8_t> codes(x.rows(), x.cols());
    parallel_for_tiles(x.rows(), kRowTile, [&](std::size_t begin, std::size_t end) {
      for (std::size_t row = begin; row < end; ++row)
        quant::assign_codes(x.row(row), c.row(row / group_rows), codes.row(row));
    });
    return codes;
  }));
}

double palette_cost(const AnyArray& x, const AnyArray& centroids, const MaybeArray& weights) {
  Floats values(x, "x"), entries(centroids, "centroids"), w(weights, "weights");
  require_alike(x, weights, "palette_cost");
  values.finite();
  entries.finite();
  const auto flat_x = values.flat().values(), flat_c = entries.flat().values();
  const auto flat_w = !weights ? std::span<const float>() : w.flat().values();
  for (std::size_t i = 0; i < flat_w.size(); ++i)
    NIBBLE_REQUIRE(std::isfinite(flat_w[i]) && flat_w[i] >= 0.0f, InvalidArgument,
                   "palette_cost: weight {} is {}; weights must be finite and not negative", i, flat_w[i]);
  return unlocked([&] { return quant::palette_cost(flat_x, flat_w, flat_c); });
}

NumpyVector<float> round_palette(const AnyArray& entries, const std::string& dtype) {
  Floats values(entries, "entries");
  const auto flat = values.flat().values();
  std::vector<float> rounded(flat.begin(), flat.end());
  quant::round_palette(rounded, choose("dtype", dtype, kPaletteDtypes), 0);
  return to_numpy(std::move(rounded));
}

quant::PalettizeOptions options_of(unsigned bits, std::size_t group_rows, const std::string& palette_dtype,
                                   double gap) {
  return {.bits = bits,
          .group_rows = group_rows,
          .palette_dtype = choose("palette_dtype", palette_dtype, kPaletteDtypes),
          .gap = gap};
}

quant::Palettization palettize(const AnyArray& w, const MaybeArray& weights, unsigned bits, std::size_t group_rows,
                               const std::string& palette_dtype, double gap) {
  const Floats values(w, "w"), sensitivities(weights, "weights");
  const auto options = options_of(bits, group_rows, palette_dtype, gap);
  return unlocked([&] { return quant::palettize(values.matrix(), sensitivities.matrix(), options); });
}

quant::ScaledPalettization palettize_scaled(const AnyArray& w, const MaybeArray& weights, unsigned bits,
                                            std::size_t group_rows, const std::string& palette_dtype, double gap,
                                            const std::string& scale, const std::string& sign, bool objective,
                                            bool refit_scales, std::size_t joint_iterations) {
  const Floats values(w, "w"), sensitivities(weights, "weights");
  const quant::ScaledPaletteOptions options{.palette = options_of(bits, group_rows, palette_dtype, gap),
                                            .scale = choose("scale", scale, kRowScales),
                                            .sign = choose("sign", sign, kScaleSigns),
                                            .objective = objective,
                                            .refit_scales = refit_scales,
                                            .joint_iterations = joint_iterations};
  return unlocked([&] { return quant::palettize_scaled(values.matrix(), sensitivities.matrix(), options); });
}

quant::VectorPalettization palettize_vectors(const AnyArray& w, const MaybeArray& weights, unsigned bits,
                                             std::size_t dim, std::size_t group_rows, const std::string& palette_dtype,
                                             std::uint64_t seed) {
  const Floats values(w, "w"), sensitivities(weights, "weights");
  const quant::VectorPaletteOptions options{.bits = bits,
                                            .dim = dim,
                                            .group_rows = group_rows,
                                            .palette_dtype = choose("palette_dtype", palette_dtype, kPaletteDtypes),
                                            .seed = seed};
  return unlocked([&] { return quant::palettize_vectors(values.matrix(), sensitivities.matrix(), options); });
}

NumpyVector<float> row_scales(const AnyArray& w, const std::string& rule) {
  const Floats values(w, "w");
  return to_numpy(unlocked(
      [rule = choose("rule", rule, kRowScales), &values] { return quant::row_scales(values.matrix(), rule); }));
}

void bind_results(nb::module_& module) {
  nb::class_<quant::Palette>(module, "Palette", "A palette and what is known about it. Costs are in units of w x².")
      .def_prop_ro("centroids", &array_of<&quant::Palette::centroids>, "(k) float32, ascending, finite")
      .def_ro("cost", &quant::Palette::cost, "E for exactly these centroids")
      .def_ro("lower_bound", &quant::Palette::lower_bound, "No palette has a lower E, up to the rounding of sums")
      .def_prop_ro("gap", &quant::Palette::gap, "(cost - lower_bound) / cost; 0 for a cost of 0");
  nb::class_<Palettes>(module, "Palettes", "One palette for every group of rows.")
      .def_prop_ro("centroids", &array_of<&Palettes::centroids>, "(groups, k) float32, rows ascending")
      .def_prop_ro("cost", &array_of<&Palettes::cost>, "(groups) float64: E of each")
      .def_prop_ro("lower_bound", &array_of<&Palettes::lower_bound>, "(groups) float64: no palette has a lower E");
  nb::class_<quant::Palettization>(module, "Palettization", "value (i, j) = palettes[i // group_rows, codes[i, j]]")
      .def_prop_ro("palettes", &array_of<&quant::Palettization::palettes>,
                   "(groups, 2^bits) float32, rows ascending, every entry exact in palette_dtype")
      .def_prop_ro("codes", &array_of<&quant::Palettization::codes>, "(out, in) uint8")
      .def_ro("cost", &quant::Palettization::cost, "sum of weight · error² with these palettes and codes")
      .def_ro("optimality_gap", &quant::Palettization::optimality_gap, "certified, before entries were rounded");
  nb::class_<quant::ScaledPalettization>(module, "ScaledPalettization",
                                         "value (i, j) = scales[i] · palettes[i // group_rows, codes[i, j]]")
      .def_prop_ro("scales", &array_of<&quant::ScaledPalettization::scales>,
                   "(out) float32, exact in float16; may be negative; 0 for rows of zeros")
      .def_prop_ro("palettes", &array_of<&quant::ScaledPalettization::palettes>, "(groups, 2^bits) float32")
      .def_prop_ro("codes", &array_of<&quant::ScaledPalettization::codes>, "(out, in) uint8")
      .def_ro("cost", &quant::ScaledPalettization::cost, "sum_ij F_ij (W_ij - s_i c)²")
      .def_ro("optimality_gap", &quant::ScaledPalettization::optimality_gap, "certified, for these scales")
      .def_prop_ro("history", &array_of<&quant::ScaledPalettization::history>,
                   "the cost before each joint round and after the last: never rises");
  nb::class_<quant::VectorPalettization>(module, "VectorPalettization",
                                         "value (i, j) = palettes[i // group_rows, codes[i, j // dim] · dim + j % dim]")
      .def_prop_ro("palettes", &array_of<&quant::VectorPalettization::palettes>, "(groups, 2^bits · dim) float32")
      .def_prop_ro("codes", &array_of<&quant::VectorPalettization::codes>, "(out, in / dim) uint8")
      .def_ro("cost", &quant::VectorPalettization::cost, "sum over components of F (x - c)²");
}

}  // namespace

void bind_palettes(nb::module_& module) {
  bind_results(module);
  module.def("fit_palette", &fit_palette, "x"_a, "weights"_a = nb::none(), nb::kw_only(), "centroids"_a = 16,
             "gap"_a = 0.0,
             R"(Weighted one-dimensional k-means over all values of `x`, to the optimum:

    E(c) = sum_i w[i] · min_k (x[i] - c[k])²

With w = 1 this is plain weight error; with w the diagonal of the Fisher matrix the second-order estimate of the loss
increase (SqueezeLLM, arXiv:2306.07629). x: any shape; weights: the same shape, finite and >= 0, or None for ones; both
float32, read in place where their values lie without gaps. centroids: 1 to 256. gap: relative distance to the optimum
that may remain; 0 proves it. One thread: for many rows, fit_palettes(). The arrays are only read.)");
  module.def(
      "fit_palettes", &fit_palettes, "w"_a, "weights"_a = nb::none(), nb::kw_only(), "centroids"_a = 16,
      "group_rows"_a = 1, "gap"_a = 0.0,
      R"(fit_palette() of every group of `group_rows` rows of `w` (out, in); 0: all rows together. On all threads, and the
results do not depend on their number. w and weights: float32, in place where the values of a row lie side by side.)");
  module.def(
      "assign", &assign, "w"_a, "palettes"_a, nb::kw_only(), "group_rows"_a = 0,
      R"(codes[i, j] = the index of the entry of row i's palette that is nearest to w[i, j]; midway between two the lower one.
w (out, in); palettes (groups, k), ascending, one for every `group_rows` rows (0: all rows share the only one).)");
  module.def("palette_cost", &palette_cost, "x"_a, "centroids"_a, "weights"_a = nb::none(),
             "E of fit_palette() for these ascending centroids, summed in float64.");
  module.def(
      "round_palette", &round_palette, "entries"_a, "dtype"_a,
      R"(Ascending entries rounded, half to even, to what `dtype` stores: "float16", "float32" (as they are), or "int8": integers
from -127 to 127 times the float16 nearest to max |entry| / 127.)");
  module.def(
      "palettize", &palettize, "w"_a, "weights"_a = nb::none(), nb::kw_only(), "bits"_a = 4, "group_rows"_a = 0,
      "palette_dtype"_a = "float16", "gap"_a = 0.0,
      R"(Palettes of 2^bits entries for groups of rows (0: the whole tensor), rounded to `palette_dtype` before every weight is
given its nearest entry: what is stored is what is measured. w (out, in), weights (out, in) or None for ones.)");
  module.def("palettize_scaled", &palettize_scaled, "w"_a, "weights"_a = nb::none(), nb::kw_only(), "bits"_a = 4,
             "group_rows"_a = 0, "palette_dtype"_a = "float16", "gap"_a = 0.0, "scale"_a = "std", "sign"_a = "plain",
             "objective"_a = true, "refit_scales"_a = false, "joint_iterations"_a = 0,
             R"(Palettes for a weight whose rows are divided by scales of their own:

    E = sum_ij F_ij (W_ij - s_i c[q_ij])²

scale: "std" or "absmax" of each row, rounded to float16. sign: "plain", "flip" (rows that lean down get -s) or "search"
(the cheaper one). objective: palettes are fitted with F s², the objective above in terms of W / s; False: with F.
refit_scales: s_i = sum_j F W c / sum_j F c² once codes are known. joint_iterations: rounds of scales, codes, palettes,
each step kept only where it lowers E.)");
  module.def(
      "palettize_vectors", &palettize_vectors, "w"_a, "weights"_a = nb::none(), nb::kw_only(), "bits"_a = 8,
      "dim"_a = 2, "group_rows"_a = 0, "palette_dtype"_a = "float16", "seed"_a = 0,
      R"(Weighted k-means over vectors of `dim` (2 or 4) consecutive inputs, every component with a weight of its own:

    E = sum_v sum_d F_vd (x_vd - c[q_v, d])²

A local minimum of Lloyd's method from the best of three k-means++ starts, not a proved optimum.)");
  module.def(
      "row_scales", &row_scales, "w"_a, "rule"_a = "std",
      R"((out) float32: standard deviation ("std", n - 1) or largest magnitude ("absmax") of each row, rounded to float16. Rows that
hardly vary around a mean other than 0 have their largest magnitude under "std" too; rows of zeros have 0.)");
}

}  // namespace nibble::python
