#include "eval/storage/value_streams.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <set>

#include "core/error.h"
#include "model/architecture/architecture.h"
#include "model/checkpoint/checkpoint.h"
#include "model/checkpoint/narrow_tensors.h"
#include "model/open/open_model.h"
#include "quant/format/codes.h"
#include "quant/store/model_weights.h"

namespace nibble::eval {
namespace {

constexpr std::uint64_t kMaxRunRows = 16;
constexpr std::uint64_t kMaxSampleBytes = std::uint64_t{1} << 28;

// One stored matrix: how large it is and how to append one of its rows.
struct Matrix {
  model::TensorView view;
  std::uint64_t rows = 0, cols = 0;
  std::function<void(std::uint64_t row, std::vector<std::uint32_t>& values)> append;
};

struct Kind {
  unsigned width = 8;
  bool offset_binary = false;
  std::vector<Matrix> matrices;
};
using Kinds = std::map<std::string, Kind>;

// Codes that overlap count for the bits that are each weight's own.
Matrix window_matrix(const model::TensorView& view, const std::shared_ptr<const quant::MappedQuantizedWeight>& weight) {
  const quant::TensorSpec& spec = weight->tensor().spec();
  return {view, spec.rows, spec.cols, [weight](std::uint64_t row, std::vector<std::uint32_t>& values) {
            const quant::TensorSpec& windowed = weight->tensor().spec();
            nibble::Matrix<std::uint16_t> codes(1, windowed.cols);
            weight->tensor().read_codes(row, codes);
            for (const std::uint16_t code : codes.values()) values.push_back(code & ((1u << windowed.bits) - 1u));
          }};
}

Matrix code_matrix(const model::TensorView& view, const quant::TensorSpec& spec) {
  return {view, spec.rows, spec.codes_per_row(), [=](std::uint64_t row, std::vector<std::uint32_t>& values) {
            std::vector<std::uint8_t> codes(spec.codes_per_row());
            quant::unpack_codes(view.data.subspan(row * spec.row_bytes(), spec.row_bytes()), spec.bits, codes);
            values.insert(values.end(), codes.begin(), codes.end());
          }};
}

// Plain numbers of 1, 2 or 4 bytes, whose last `row_extents` dimensions are a row: a vector is one, and those of all
// matrices of a stack follow each other.
Matrix number_matrix(const model::TensorView& view, std::size_t row_extents) {
  const std::size_t size = dtype_size(view.dtype);
  std::uint64_t cols = 1;
  for (std::size_t d = view.shape.size() - std::min(row_extents, view.shape.size()); d < view.shape.size(); ++d)
    cols *= view.shape[d];
  const std::uint64_t rows = cols > 0 ? view.element_count() / cols : 0;
  return {view, rows, cols, [=](std::uint64_t row, std::vector<std::uint32_t>& values) {
            const std::byte* source = view.data.data() + row * cols * size;
            for (std::uint64_t j = 0; j < cols; ++j) {
              std::uint32_t value = 0;
              std::memcpy(&value, source + j * size, size);
              values.push_back(value);
            }
          }};
}

void add_numbers(Kinds& kinds, const std::string& what, const model::TensorView& view, std::size_t row_extents = 1) {
  NIBBLE_REQUIRE(dtype_size(view.dtype) <= sizeof(std::uint32_t), FormatError,
                 "storage study: {} in tensor '{}': expected numbers of up to 32 bits, got {}", what, view.name,
                 dtype_name(view.dtype));
  Kind& kind = kinds[fmt::format("{}, {}", what, dtype_name(view.dtype))];
  kind.width = static_cast<unsigned>(dtype_size(view.dtype) * 8);
  kind.matrices.push_back(number_matrix(view, row_extents));
}

// Narrow floats are codes and scales in tensors of their own.
void add_narrow(Kinds& kinds, model::NarrowPart::Kind part, const model::TensorView& view) {
  if (part == model::NarrowPart::Kind::kScales) add_numbers(kinds, "weight scales", view);
  if (part != model::NarrowPart::Kind::kCodes) return;
  if (is_float8(view.dtype)) return add_numbers(kinds, "weights", view);
  add_numbers(kinds, "weights, mxfp4 blocks", view, view.shape.size() > 2 ? 2 : 1);  // (…, out, in / 32, 16)
}

// Stored names of biases: those of a stack of experts are a matrix.
std::set<std::string> bias_names(const model::Architecture& architecture) {
  std::set<std::string> names;
  for (const model::Parameter* layer : model::linear_layers(architecture))
    for (std::string& name : architecture.candidates(layer->bias.tensor)) names.insert(std::move(name));
  return names;
}

// Of a network that is not known every matrix counts.
const model::Architecture* architecture_if_known(const model::Checkpoint& checkpoint) {
  try {
    return &checkpoint.architecture();
  } catch (const FormatError&) {
    return nullptr;
  }
}

Kinds kinds_of(const std::shared_ptr<const model::Checkpoint>& checkpoint) {
  Kinds kinds;
  const quant::QuantizedWeights quantized = quant::open_quantized_weights(checkpoint);
  for (const auto& [module, weight] : quantized) {
    const quant::TensorSpec& spec = weight->tensor().spec();
    Kind& codes = kinds[fmt::format("codes, {} bit{}", spec.bits, spec.bits == 1 ? "" : "s")];
    codes.width = spec.bits;
    codes.offset_binary = true;
    const model::TensorView view = checkpoint->tensor(module + ".codes");
    codes.matrices.push_back(spec.windowed() ? window_matrix(view, weight) : code_matrix(view, spec));
    for (const auto& [suffix, what] : {std::pair(".scale", "row scales"), std::pair(".block_scale", "block scales"),
                                       std::pair(".block_zero", "block zeros")})
      if (checkpoint->contains(module + suffix)) add_numbers(kinds, what, checkpoint->tensor(module + suffix));
  }
  const model::Architecture* const architecture = architecture_if_known(*checkpoint);
  const model::NarrowTensors narrow(*checkpoint);
  const std::set<std::string> biases = architecture ? bias_names(*architecture) : std::set<std::string>();
  for (const std::string& name : checkpoint->tensor_names()) {
    if (quant::is_quantized_part(quantized, name) || (architecture && architecture->is_ignored(name))) continue;
    if (const model::EncodedTensor* const encoded = checkpoint->encoded(name)) {
      for (const model::TensorView& rows : encoded->stored) add_numbers(kinds, "blocks of " + encoded->storage, rows);
      continue;
    }
    const model::TensorView view = checkpoint->tensor(name);
    if (const auto part = narrow.part_of(name)) {
      add_narrow(kinds, part->kind, view);
    } else if (is_float(view.dtype) && view.shape.size() >= 2 && !biases.contains(name)) {
      add_numbers(kinds, "weights", view);
    }
  }
  return kinds;
}

ValueStream sample(const std::string& name, const Kind& kind, std::uint64_t sample_bytes,
                   const model::Checkpoint& checkpoint) {
  ValueStream stream;
  stream.name = name;
  stream.patterns.width = kind.width;
  stream.patterns.offset_binary = kind.offset_binary;
  stream.tensors = kind.matrices.size();
  for (const Matrix& matrix : kind.matrices) stream.values_in_model += matrix.rows * matrix.cols;

  const double wanted = static_cast<double>(sample_bytes) * 8.0 / kind.width;
  const double share = std::min(1.0, wanted / static_cast<double>(std::max<std::uint64_t>(1, stream.values_in_model)));
  double credit = 0.0;  // values that may be taken: a run is, as soon as there is enough for it
  for (const Matrix& matrix : kind.matrices) {
    const double fitting = wanted / static_cast<double>(std::max<std::uint64_t>(1, matrix.cols));
    const auto run_rows = static_cast<std::uint64_t>(std::clamp(fitting, 1.0, static_cast<double>(kMaxRunRows)));
    for (std::uint64_t begin = 0; begin < matrix.rows; begin += run_rows) {
      const std::uint64_t end = std::min(matrix.rows, begin + run_rows);
      const auto run = static_cast<double>((end - begin) * matrix.cols);
      credit += share * run;
      if (credit < run - 0.5) continue;  // whole values: what is missing below that is rounding
      credit -= run;
      for (std::uint64_t row = begin; row < end; ++row) {
        stream.rows.push_back({stream.patterns.values.size(), matrix.cols, row > begin});
        matrix.append(row, stream.patterns.values);
      }
    }
    checkpoint.check_intact(matrix.view);
    checkpoint.release(matrix.view);
  }
  return stream;
}

}  // namespace

std::vector<ValueStream> collect_value_streams(const std::filesystem::path& model, std::uint64_t sample_bytes) {
  NIBBLE_REQUIRE(sample_bytes > 0 && sample_bytes <= kMaxSampleBytes, InvalidArgument,
                 "storage study: a sample of {} bytes, expected 1 to {}", sample_bytes, kMaxSampleBytes);
  const auto checkpoint = model::open_checkpoint(model);
  std::vector<ValueStream> streams;
  for (const auto& [name, kind] : kinds_of(checkpoint)) {
    ValueStream stream = sample(name, kind, sample_bytes, *checkpoint);
    NIBBLE_REQUIRE(!stream.patterns.values.empty() || stream.values_in_model == 0, InvalidArgument,
                   "storage study: a sample of {} bytes is less than one row of '{}'", sample_bytes, name);
    if (stream.values_in_model > 0) streams.push_back(std::move(stream));
  }
  return streams;
}

}  // namespace nibble::eval
