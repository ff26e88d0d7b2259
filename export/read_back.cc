#include "export/read_back.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"

namespace nibble::exporting {
namespace {

constexpr std::size_t kPiece = 1 << 18;  // values

struct Tolerance {
  double relative = 0.0, absolute = 0.0;
};
constexpr Tolerance kEqual{};
// Half a unit in the last place of the floats that are written: 11 places of float16 (below its normal numbers half of
// its least step), 8 of bfloat16.
constexpr Tolerance kRoundedToF16{.relative = 0x1p-11, .absolute = 0x1p-25};
constexpr Tolerance kRoundedToBf16{.relative = 0x1p-8, .absolute = 0.0};
// A gain that is stored with 1 added comes back with the rounding of that sum, whatever its own size.
constexpr double kSumWithOne = 0x1p-23;

// What may become of values that are written as floats.
Tolerance float_tolerance(const ExportOptions& options) {
  if (options.dtype == DType::kF32) return kEqual;
  return options.dtype == DType::kBF16 ? kRoundedToBf16 : kRoundedToF16;
}

class Comparison {
 public:
  void add(const std::string& name, std::size_t row, std::span<const float> expected, std::span<const float> got,
           const Tolerance& tolerance) {
    result_.values += expected.size();
    for (std::size_t i = 0; i < expected.size(); ++i) {
      if (got[i] == expected[i]) continue;
      const double want = expected[i], read = got[i], difference = std::abs(read - want);
      NIBBLE_REQUIRE(difference <= tolerance.relative * std::abs(want) + tolerance.absolute, NumericalError,
                     "{}: what was written and read back differs at ({}, {}): expected {}, got {}", name, row, i, want,
                     read);
      ++result_.rounded;
      result_.largest_difference = std::max(result_.largest_difference, difference);
    }
  }
  ReadBack& result() { return result_; }

 private:
  ReadBack result_;
};

}  // namespace

ReadBack compare_with_model(const Exporter& exporter, const ExportPlan& plan, const model::WeightProvider& output,
                            const ProgressSink& progress) {
  const ExportModel& model = plan.model;
  Comparison comparison;
  std::vector<float> expected, got;
  double done = 0.0, total = 0.0;
  for (const ExportPart& part : model.parts()) total += static_cast<double>(part.parameter->weights());
  for (const ExportPart& part : model.parts()) {
    const bool coded = !plan.group_of(part).as_floats;
    const bool exact = coded && exporter.fit(part.storage).kind == Fit::Kind::kExact;
    const auto written = output.matrix(*part.parameter);
    const std::size_t rows = part.values->rows(), cols = part.values->cols();
    NIBBLE_REQUIRE(written->rows() == rows && written->cols() == cols, NumericalError,
                   "{}: what was written and read back has shape ({}, {}), expected ({}, {})", part.parameter->module,
                   written->rows(), written->cols(), rows, cols);
    const std::size_t step = std::max<std::size_t>(1, kPiece / std::max<std::size_t>(1, cols));
    for (std::size_t begin = 0; begin < rows; begin += step) {
      const std::size_t end = std::min(rows, begin + step), count = (end - begin) * cols;
      expected.resize(count);
      got.resize(count);
      part.values->decode_rows(begin, end, expected.data());
      written->decode_rows(begin, end, got.data());
      for (std::size_t i = begin; i < end; ++i)
        comparison.add(part.parameter->module, i, std::span(expected).subspan((i - begin) * cols, cols),
                       std::span(got).subspan((i - begin) * cols, cols),
                       exact   ? kEqual
                       : coded ? kRoundedToF16
                               : float_tolerance(plan.options));
    }
    part.values->release();
    written->release();
    if (coded) comparison.result().coded_values += part.parameter->weights();
    done += static_cast<double>(part.parameter->weights());
    if (progress) progress({"reading back", done, total, "weights"});
  }
  Tolerance of_vectors = float_tolerance(plan.options);
  if (!plan.options.dtype) of_vectors.absolute = std::max(of_vectors.absolute, kSumWithOne);
  for (const ExportTensor& tensor : model.tensors())
    for (const model::Stored& stored : tensor.vectors) {
      if (tensor.zeros && !output.contains(tensor.name)) continue;
      const std::vector<float> values =
          tensor.zeros ? std::vector<float>(stored.part.count) : model.weights().vector(stored);
      comparison.add(tensor.name, stored.slice, values, output.vector(stored), of_vectors);
    }
  return comparison.result();
}

}  // namespace nibble::exporting
