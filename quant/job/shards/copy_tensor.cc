#include "quant/job/shards/copy_tensor.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "core/error.h"
#include "core/matrix/error_sum.h"
#include "core/matrix/not_finite.h"
#include "model/checkpoint/tensor_checks.h"

namespace nibble::quant {
namespace {

constexpr std::size_t kElementsAtATime = 1 << 18;  // elements

using UsePiece = std::function<void(std::span<const float> values, std::size_t first)>;

// The values of a narrow tensor in the order in which they are to be stored.
void for_decoded(const CopyItem& item, const UsePiece& use) {
  std::vector<float> values, row;
  std::size_t first = 0;
  const auto pass = [&](std::span<const float> piece) {
    use(piece, first);
    first += piece.size();
  };
  for (const auto& matrix : item.decoded) {
    const std::size_t rows = matrix->rows(), cols = matrix->cols();
    const std::size_t step =
        item.transposed ? rows : std::max<std::size_t>(1, kElementsAtATime / std::max<std::size_t>(1, cols));
    for (std::size_t begin = 0; begin < rows; begin += step) {
      const std::size_t end = std::min(rows, begin + step);
      values.resize((end - begin) * cols);
      matrix->decode_rows(begin, end, values.data());
      if (!item.transposed) {
        pass(values);
        continue;
      }
      row.resize(rows);
      for (std::size_t j = 0; j < cols; ++j) {
        for (std::size_t i = 0; i < rows; ++i) row[i] = values[i * cols + j];
        pass(row);
      }
    }
    matrix->release();
  }
}

// The elements from `first` on of a tensor as it lies in its file.
using UseBytes = std::function<void(const model::TensorView& piece, std::size_t first)>;

// Piece by piece, each let go before the next: a large embedding is never in memory whole.
void for_bytes(const model::TensorView& tensor, const model::Checkpoint& checkpoint, const UseBytes& use) {
  const std::size_t size = dtype_size(tensor.dtype), count = tensor.data.size() / size;
  for (std::size_t begin = 0; begin < count; begin += kElementsAtATime) {
    const std::size_t length = std::min(kElementsAtATime, count - begin);
    const model::TensorView piece{
        tensor.name, tensor.dtype, {length}, tensor.data.subspan(begin * size, length * size)};
    use(piece, begin);
    checkpoint.release(piece);
  }
  checkpoint.check_intact(tensor);
}

// Rounds pieces to the 16-bit floats that are written.
class RoundingWriter {
 public:
  RoundingWriter(const CopyItem& item, model::SafetensorsWriter& writer)
      : name_(item.tensor.name), to_f16_(item.round_to_f16 || item.tensor.dtype == DType::kF16), writer_(writer) {}

  void write(std::span<const float> values, std::size_t first) {
    halves_.resize(values.size());
    if (to_f16_) {
      convert_to_f16(values, halves_.data());
    } else {
      std::transform(values.begin(), values.end(), halves_.begin(), f32_to_bf16);
    }
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double value = values[i], rounded = to_f16_ ? f16_to_f32(halves_[i]) : bf16_to_f32(halves_[i]);
      NIBBLE_REQUIRE(std::isfinite(rounded), NumericalError, "{}: {} at index {} {}; leave this tensor as it is", name_,
                     value, first + i, why_not_finite(value, to_f16_ ? DType::kF16 : DType::kBF16));
      error_.add(value, rounded);
    }
    writer_.write(std::as_bytes(std::span(halves_)));
  }
  double relative_error() const { return error_.relative(); }

 private:
  const std::string& name_;
  bool to_f16_;
  model::SafetensorsWriter& writer_;
  std::vector<std::uint16_t> halves_;
  ErrorSum error_;
};

}  // namespace

model::TensorDeclaration declaration(const CopyItem& item) {
  const DType kept = item.divisor ? DType::kF32 : item.tensor.dtype;
  return {item.name, item.round_to_f16 ? DType::kF16 : kept, item.tensor.shape};
}

std::map<std::string, DType> widened_floats(const Plan& plan) {
  std::map<std::string, DType> widened;
  const auto look_at = [&](const std::string& name, DType before, DType after) {
    if (after == DType::kF32 && (before == DType::kF16 || before == DType::kBF16)) widened.emplace(name, before);
  };
  for (const BiasItem& bias : plan.biases)
    if (bias.original) look_at(bias.name, bias.original->dtype, bias.dtype);
  for (const CopyItem& copy : plan.copies) look_at(copy.name, copy.tensor.dtype, declaration(copy).dtype);
  return widened;
}

void require_finite(const CopyItem& item, const model::Checkpoint& checkpoint) {
  std::optional<std::size_t> bad;
  for_bytes(item.tensor, checkpoint, [&](const model::TensorView& piece, std::size_t first) {
    const auto found = bad ? std::nullopt : model::first_non_finite(piece);
    if (found) bad = first + *found;
  });
  for_decoded(item, [&](std::span<const float> values, std::size_t first) {
    const auto found = std::find_if(values.begin(), values.end(), [](float value) { return !std::isfinite(value); });
    if (!bad && found != values.end()) bad = first + static_cast<std::size_t>(found - values.begin());
  });
  NIBBLE_REQUIRE(!bad, NumericalError, "{}: expected finite values, got NaN or infinity at index {}", item.tensor.name,
                 *bad);
}

double append_copy(const CopyItem& item, const model::Checkpoint& checkpoint, model::SafetensorsWriter& writer) {
  RoundingWriter rounding(item, writer);
  for_decoded(item, [&](std::span<const float> values, std::size_t first) { rounding.write(values, first); });
  std::vector<float> values;
  for_bytes(item.tensor, checkpoint, [&](const model::TensorView& piece, std::size_t begin) {
    if (!item.round_to_f16 && !item.divisor) {
      writer.write(piece.data);
      return;
    }
    values.resize(piece.element_count());
    convert_to_f32(piece.dtype, piece.data.data(), values.size(), values.data());
    if (item.divisor)
      for (std::size_t i = 0; i < values.size(); ++i) {
        const auto offset = static_cast<float>(item.offset);
        values[i] = (values[i] + offset) / item.divisor->at(begin + i) - offset;
      }
    if (item.round_to_f16) {
      rounding.write(values, begin);
    } else {
      writer.write(std::as_bytes(std::span(values)));
    }
  });
  return rounding.relative_error();
}

}  // namespace nibble::quant
