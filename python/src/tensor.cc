#include "python/src/tensor.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "core/error.h"
#include "core/machine/thread_pool.h"
#include "core/matrix/rounded.h"
#include "core/matrix/view_source.h"
#include "python/src/arrays.h"
#include "python/src/bindings.h"
#include "quant/format/codes.h"
#include "quant/format/windowed_codes.h"
#include "quant/recipe/lone_settings.h"
#include "quant/recipe/recipe.h"
#include "quant/store/quantization_config.h"
#include "quant/tensor/quantize_tensor.h"
#include "quant/tensor/usable_output_hessian.h"

namespace nibble::python {
namespace {

using namespace nb::literals;

Matrix<double> matrix_of(const MaybeArray& array, std::string_view name) {
  return array ? doubles_of(*array, name) : Matrix<double>();
}

std::vector<double> vector_of(const MaybeArray& array, std::string_view name) {
  const Matrix<double> values = matrix_of(array, name);
  for (std::size_t i = 0; i < values.size(); ++i)
    NIBBLE_REQUIRE(std::isfinite(values.data()[i]), InvalidArgument, "{}: expected finite values, got {} at {}", name,
                   values.data()[i], i);
  return {values.values().begin(), values.values().end()};
}

void require_size(std::size_t got, std::size_t expected, std::string_view name) {
  NIBBLE_REQUIRE(got == 0 || got == expected, InvalidArgument, "{}: expected {} values, got {}", name, expected, got);
}

Tensor quantize_tensor(const AnyArray& w, const quant::Recipe& recipe, const std::string& name,
                       const MaybeArray& fisher, const MaybeArray& hessian, const MaybeArray& mean_input,
                       const MaybeArray& second_moment, const MaybeArray& magnitude, const MaybeArray& output_hessian) {
  const Floats values(w, "w");
  const MatrixView<const float> view = values.matrix();
  NIBBLE_REQUIRE(view.rows() > 0 && view.cols() > 0, InvalidArgument, "w: expected rows and columns, got ({}, {})",
                 view.rows(), view.cols());
  const quant::TensorSettings settings = quant::lone_settings(recipe, name + ".weight", "quantize_tensor");
  NIBBLE_REQUIRE(settings.coded(), InvalidArgument, "quantize_tensor: the recipe leaves '{}' float", name);
  quant::WeightStatistics statistics{.fisher = matrix_of(fisher, "fisher"),
                                     .second_moment = vector_of(second_moment, "second_moment"),
                                     .magnitude = vector_of(magnitude, "magnitude"),
                                     .mean_input = vector_of(mean_input, "mean_input"),
                                     .hessian = {},
                                     .output_hessian = {}};
  const auto square = [](const MaybeArray& given, std::size_t extent, std::string_view what) {
    Matrix<double> h = matrix_of(given, what);
    NIBBLE_REQUIRE(!given || (h.rows() == extent && h.cols() == extent), InvalidArgument,
                   "{}: expected ({}, {}), got ({}, {})", what, extent, extent, h.rows(), h.cols());
    return h;
  };
  statistics.hessian = rounded(square(hessian, view.cols(), "hessian"));
  if (settings.output_hessian)
    statistics.output_hessian = quant::usable_output_hessian(square(output_hessian, view.rows(), "output_hessian"));
  NIBBLE_REQUIRE(statistics.fisher.size() == 0 ||
                     (statistics.fisher.rows() == view.rows() && statistics.fisher.cols() == view.cols()),
                 InvalidArgument, "fisher: expected ({}, {}), got ({}, {})", view.rows(), view.cols(),
                 statistics.fisher.rows(), statistics.fisher.cols());
  require_size(statistics.second_moment.size(), view.cols(), "second_moment");
  require_size(statistics.magnitude.size(), view.cols(), "magnitude");
  require_size(statistics.mean_input.size(), view.cols(), "mean_input");
  const auto needs = [&](bool asked, bool there, std::string_view what) {
    NIBBLE_REQUIRE(!asked || there, InvalidArgument, "quantize_tensor: the recipe asks for {}; give {}=", what, what);
  };
  needs(settings.weighting == quant::Weighting::kFisher || settings.outliers_sensitive > 0.0,
        statistics.fisher.size() > 0, "fisher");
  needs(settings.weighting == quant::Weighting::kSecondMoment, !statistics.second_moment.empty(), "second_moment");
  needs(settings.weighting == quant::Weighting::kMagnitude, !statistics.magnitude.empty(), "magnitude");
  needs(settings.shifting, !statistics.mean_input.empty(), "mean_input");
  needs(settings.solver != quant::Solver::kNearest || settings.codebook_iterations > 0 ||
            settings.search == quant::ScaleSearch::kHessian,
        statistics.hessian.size() > 0, "hessian");
  needs(settings.output_hessian, output_hessian.has_value(), "output_hessian");
  return unlocked([&] {
    quant::WeightParts made = quant::quantize_tensor(name, ViewSource(view), settings, statistics);
    const quant::StoredTensor layout = quant::stored_tensor(settings, view.rows(), view.cols());
    return Tensor{.stored = std::make_shared<quant::QuantizedTensor>(name, layout.spec, std::move(made.parts)),
                  .format = quant::storage_text(layout),
                  .bias_correction = std::move(made.bias_correction),
                  .relative_error = made.relative_error,
                  .optimality_gap = made.optimality_gap};
  });
}

NumpyMatrix<float> decode(const Tensor& tensor) {
  constexpr std::size_t kRowTile = 64;
  return to_numpy(unlocked([&] {
    const quant::QuantizedTensor& stored = *tensor.stored;
    Matrix<float> values(stored.rows(), stored.cols());
    parallel_for_tiles(stored.rows(), kRowTile, [&](std::size_t begin, std::size_t end) {
      stored.decode_rows(begin, end, values.row(begin).data());
    });
    return values;
  }));
}

nb::object codes_of(const Tensor& tensor) {
  const quant::TensorSpec& spec = tensor.stored->spec();
  if (spec.windowed())
    return nb::cast(to_numpy(unlocked([&] {
      Matrix<std::uint16_t> codes(spec.rows, spec.cols);
      quant::unpack_window_block(spec.windows(), tensor.stored->find("codes")->bytes, 0, 0, codes);
      return codes;
    })));
  return nb::cast(to_numpy(unlocked([&] {
    Matrix<std::uint8_t> codes(spec.rows, spec.codes_per_row());
    for (std::size_t row = 0; row < spec.rows; ++row)
      quant::unpack_codes(tensor.stored->code_row(row), spec.bits, codes.row(row));
    return codes;
  })));
}

nb::object palettes_of(const Tensor& tensor) {
  const quant::TensorSpec& spec = tensor.stored->spec();
  if (spec.coding == quant::Coding::kBlocks) return nb::none();
  const std::size_t width = spec.entries() * spec.cluster_dim;
  Matrix<float> palettes(spec.palettes(), width);
  std::vector<float> table;
  for (std::size_t group = 0; group < palettes.rows(); ++group) {
    tensor.stored->load_palette(group, table);
    std::copy_n(table.begin(), width, palettes.row(group).begin());
  }
  return nb::cast(to_numpy(std::move(palettes)));
}

// Stored bytes where they lie, as an array of the type that they are (16 bits of bfloat16 as uint16).
nb::object part_of(nb::handle_t<Tensor> self, const std::string& suffix) {
  const quant::TensorPart* part = nb::cast<const Tensor&>(self).stored->find(suffix);
  NIBBLE_REQUIRE(part != nullptr, InvalidArgument, "part: this tensor has no '{}'", suffix);
  const nb::object numpy = nb::module_::import_("numpy");
  const std::vector<std::size_t> shape(part->shape.begin(), part->shape.end());
  const nb::ndarray<nb::numpy, const std::uint8_t, nb::ndim<1>> bytes(part->bytes.data(), {part->bytes.size()}, self);
  const char* dtype = part->dtype == DType::kF16   ? "<f2"
                      : part->dtype == DType::kF32 ? "<f4"
                      : part->dtype == DType::kI8  ? "i1"
                      : part->dtype == DType::kI32 ? "<i4"
                                                   : "u1";
  return nb::cast(bytes).attr("view")(dtype).attr("reshape")(nb::tuple(nb::cast(shape)));
}

std::vector<std::string> suffixes(const Tensor& tensor) {
  std::vector<std::string> names;
  for (const quant::TensorPart& part : tensor.stored->parts()) names.push_back(part.suffix);
  return names;
}

}  // namespace

void bind_tensor(nb::module_& module) {
  nb::class_<Tensor>(module, "QuantizedTensor", "A weight (out, in) as codes and what they mean (docs/formats.md).")
      .def_prop_ro(
          "shape", [](const Tensor& t) { return nb::make_tuple(t.stored->rows(), t.stored->cols()); },
          nb::sig("def shape(self) -> tuple[int, int]"))
      .def_ro("format", &Tensor::format, "for people: 'palette 4-bit tensor'")
      .def_prop_ro(
          "bits", [](const Tensor& t) { return t.stored->spec().bits; }, "of a code")
      .def_prop_ro(
          "group_size", [](const Tensor& t) { return t.stored->spec().group_size; },
          "rows per palette, or inputs per block; 0: all")
      .def_prop_ro(
          "bits_per_weight",
          [](const Tensor& t) {
            return static_cast<double>(t.stored->stored_bits()) / static_cast<double>(t.stored->weights());
          },
          "of everything stored")
      .def_ro("relative_error", &Tensor::relative_error, "||W - Ŵ|| / ||W||; 0 for one read from a checkpoint")
      .def_ro("optimality_gap", &Tensor::optimality_gap, "of its palettes, certified; 0 when read from a checkpoint")
      .def_prop_ro(
          "bias_correction", &array_of<&Tensor::bias_correction>,
          "(out) float32: (W - Ŵ) mean_input, as it was given: what `shifting: true` adds to the bias; empty without")
      .def("decode", &decode, "(out, in) float32: the values that the format defines")
      .def("codes", &codes_of,
           nb::sig("def codes(self) -> numpy.typing.NDArray[numpy.uint8] | numpy.typing.NDArray[numpy.uint16]"),
           "(out, in) uint8, unpacked (vector palettes: one for cluster_dim inputs); windowed palettes: uint16")
      .def("palettes", &palettes_of, nb::sig("def palettes(self) -> numpy.typing.NDArray[numpy.float32] | None"),
           "(groups, 2^bits · cluster_dim; 2^window_bits) float32, without row scales; None for blocks")
      .def_prop_ro("parts", &suffixes, "the names of what is stored: 'codes', 'palette', 'scale', …")
      .def("part", &part_of, "suffix"_a, nb::sig("def part(self, suffix: str) -> numpy.typing.NDArray"),
           "One of the parts as it lies in the file or in memory: read-only, not copied.");
  module.def(
      "quantize_tensor", &quantize_tensor, "w"_a, "recipe"_a, "name"_a = "weight", nb::kw_only(),
      "fisher"_a = nb::none(), "hessian"_a = nb::none(), "mean_input"_a = nb::none(), "second_moment"_a = nb::none(),
      "magnitude"_a = nb::none(), "output_hessian"_a = nb::none(),
      R"(Quantizes one weight (out, in) as `recipe` says for tensor `name`: what quantize() does to every one. Statistics, as
Calibration gives them, are needed as far as the recipe asks: fisher (out, in), hessian (in, in) of the kind it names,
output_hessian (out, out), mean_input, second_moment and magnitude (in). mean_input is what the bias is corrected with:
correction_mean(kind) of a LayerStatistics where a solver has a centred Hessian of that kind. w is float32 and only read;
statistics float32 or float64. What takes a model is refused: budget, tuning, input_scaling; of `sequential` the
statistics are yours to bring.)");
}

}  // namespace nibble::python
