#include "export/read_back.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/machine/thread_pool.h"

namespace nibble::exporting {
namespace {

constexpr std::size_t kReadBackPiece = 1 << 18;  // values that a thread compares at a time
constexpr std::size_t kStretch =
    1 << 24;  // values after which mapped pages are given back: what bounds resident memory

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

// Compares values of a piece that begins at `row`, and counts them.
ReadBack compare(const std::string& name, std::size_t row, std::size_t cols, std::span<const float> expected,
                 std::span<const float> got, const Tolerance& tolerance) {
  NIBBLE_REQUIRE(got.size() == expected.size(), NumericalError,
                 "{}: what was written and read back has {} values, expected {}", name, got.size(), expected.size());
  ReadBack result{.values = expected.size()};
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double want = expected[i], read = got[i], difference = std::abs(read - want);
    NIBBLE_REQUIRE(std::isfinite(want), NumericalError, "{}: {} at ({}, {}); is the checkpoint damaged?", name, want,
                   row + i / cols, i % cols);
    if (got[i] == expected[i]) continue;
    NIBBLE_REQUIRE(difference <= tolerance.relative * std::abs(want) + tolerance.absolute, NumericalError,
                   "{}: what was written and read back differs at ({}, {}): expected {}, got {}", name, row + i / cols,
                   i % cols, want, read);
    ++result.rounded;
    result.largest_difference = std::max(result.largest_difference, difference);
  }
  return result;
}

void add(ReadBack& sum, const ReadBack& part) {
  sum.values += part.values;
  sum.rounded += part.rounded;
  sum.largest_difference = std::max(sum.largest_difference, part.largest_difference);
}

// A matrix, in pieces on all threads.
ReadBack compare(const std::string& name, const WeightSource& expected, const WeightSource& got,
                 const Tolerance& tolerance) {
  const std::size_t rows = expected.rows(), cols = expected.cols();
  NIBBLE_REQUIRE(got.rows() == rows && got.cols() == cols, NumericalError,
                 "{}: what was written and read back has shape ({}, {}), expected ({}, {})", name, got.rows(),
                 got.cols(), rows, cols);
  const std::size_t piece = std::max<std::size_t>(1, kReadBackPiece / std::max<std::size_t>(1, cols));
  const std::size_t stretch = std::max<std::size_t>(1, kStretch / std::max<std::size_t>(1, cols));
  std::vector<std::vector<float>> want(thread_count()), read(thread_count());
  std::vector<ReadBack> found(thread_count());
  for (std::size_t first = 0; first < rows; first += stretch) {
    parallel_for_tiles(std::min(stretch, rows - first), piece, [&](std::size_t from, std::size_t to) {
      const std::size_t thread = thread_index(), begin = first + from, end = first + to;
      want[thread].resize((end - begin) * cols);
      read[thread].resize((end - begin) * cols);
      expected.decode_rows(begin, end, want[thread].data());
      got.decode_rows(begin, end, read[thread].data());
      add(found[thread], compare(name, begin, cols, want[thread], read[thread], tolerance));
    });
    expected.release();
    got.release();
  }
  ReadBack result;
  for (const ReadBack& part : found) add(result, part);
  return result;
}

}  // namespace

ReadBack compare_with_model(const Exporter& exporter, const ExportPlan& plan, const model::WeightProvider& output,
                            const ProgressSink& progress) {
  const ExportModel& model = plan.model;
  ReadBack result;
  double done = 0.0, total = 0.0;
  for (const ExportPart& part : model.parts()) total += static_cast<double>(part.parameter->weights());
  for (const ExportPart& part : model.parts()) {
    const bool coded = !plan.group_of(part).as_floats;
    const bool exact = coded && exporter.fit(part.storage).kind == Fit::Kind::kExact;
    const Tolerance tolerance = exact ? kEqual : coded ? kRoundedToF16 : float_tolerance(plan.options);
    add(result, compare(part.parameter->module, *part.values, *output.matrix(*part.parameter), tolerance));
    if (coded) result.coded_values += part.parameter->weights();
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
      add(result, compare(tensor.name, stored.slice, values.size(), values, output.vector(stored), of_vectors));
    }
  return result;
}

}  // namespace nibble::exporting
