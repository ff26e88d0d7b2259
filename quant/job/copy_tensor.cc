#include "quant/job/copy_tensor.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "core/error.h"
#include "core/error_sum.h"

namespace nibble::quant {
namespace {

constexpr std::size_t kPiece = 1 << 18;  // elements

}  // namespace

model::TensorDeclaration declaration(const CopyItem& item) {
  const DType kept = item.divisor ? DType::kF32 : item.tensor.dtype;
  return {item.name, item.round_to_f16 ? DType::kF16 : kept, item.tensor.shape};
}

double append_copy(const CopyItem& item, const model::Checkpoint& checkpoint, model::SafetensorsWriter& writer) {
  const model::TensorView& tensor = item.tensor;
  const std::size_t size = dtype_size(tensor.dtype), count = tensor.data.size() / size;
  std::vector<float> values;
  std::vector<std::uint16_t> halves;
  ErrorSum error;
  for (std::size_t begin = 0; begin < count; begin += kPiece) {
    const std::size_t length = std::min(kPiece, count - begin);
    const auto bytes = tensor.data.subspan(begin * size, length * size);
    if (!item.round_to_f16 && !item.divisor) {
      writer.write(bytes);
      continue;
    }
    values.resize(length), halves.resize(length);
    convert_to_f32(tensor.dtype, bytes.data(), length, values.data());
    if (item.divisor)
      for (std::size_t i = 0; i < length; ++i) {
        const auto offset = static_cast<float>(item.offset);
        values[i] = (values[i] + offset) / item.divisor->at(begin + i) - offset;
      }
    if (!item.round_to_f16) {
      writer.write(std::as_bytes(std::span(values)));
      continue;
    }
    convert_to_f16(values, halves.data());
    for (std::size_t i = 0; i < length; ++i) {
      const double value = values[i], rounded = f16_to_f32(halves[i]);
      NIBBLE_REQUIRE(std::isfinite(rounded), NumericalError,
                     "{}: {} at index {} is too large for float16 (at most 65504); leave this tensor as it is",
                     tensor.name, value, begin + i);
      error.add(value, rounded);
    }
    writer.write(std::as_bytes(std::span(halves)));
  }
  checkpoint.check_intact(tensor);
  checkpoint.release(tensor);
  return error.relative();
}

}  // namespace nibble::quant
