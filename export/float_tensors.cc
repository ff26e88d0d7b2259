#include "export/float_tensors.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/matrix/matrix_view.h"
#include "core/matrix/not_finite.h"

namespace nibble::exporting {
namespace {

constexpr std::size_t kPiece = 1 << 18;  // values

// One row (out) of a tensor, from whatever part owns it; rows that nobody owns are zeros.
void decode_row(const RowOrigin& origin, std::span<float> row) {
  if (origin.part == nullptr) {
    std::fill(row.begin(), row.end(), 0.0f);
  } else {
    origin.part->values->decode_rows(origin.row, origin.row + 1, row.data());
  }
}

// The same part's next rows: as many as follow on from `begin`, so that they are decoded in one go.
std::size_t run_end(std::span<const RowOrigin> origins, std::size_t begin, std::size_t most) {
  std::size_t end = begin + 1;
  while (end < origins.size() && end - begin < most && origins[end].part == origins[begin].part &&
         origins[end].part != nullptr && origins[end].row == origins[end - 1].row + 1)
    ++end;
  return end;
}

void decode_run(std::span<const RowOrigin> run, std::size_t cols, float* destination) {
  if (run.front().part == nullptr) {
    decode_row(run.front(), {destination, cols});
  } else {
    run.front().part->values->decode_rows(run.front().row, run.front().row + run.size(), destination);
  }
}

void for_slice(const ExportTensor& tensor, std::size_t slice, const FloatSink& sink) {
  const model::Stored& place = tensor.parts.front()->parameter->weight;
  const std::vector<RowOrigin> origins = row_origins(tensor, slice);
  const std::size_t cols = place.cols, rows = origins.size();
  if (!place.transposed) {
    std::vector<float> values;
    for (std::size_t begin = 0; begin < rows;) {
      const std::size_t end = run_end(origins, begin, std::max<std::size_t>(1, kPiece / cols));
      values.resize((end - begin) * cols);
      decode_run(std::span(origins).subspan(begin, end - begin), cols, values.data());
      sink(values);
      begin = end;
    }
    return;
  }
  Matrix<float> whole(rows, cols);
  for (std::size_t begin = 0; begin < rows;) {
    const std::size_t end = run_end(origins, begin, rows);
    decode_run(std::span(origins).subspan(begin, end - begin), cols, whole.row(begin).data());
    begin = end;
  }
  constexpr std::size_t kColumns = 64;  // of a block, so that each line of the matrix is read once for all of them
  std::vector<float> block(kColumns * rows);
  for (std::size_t first = 0; first < cols; first += kColumns) {
    const std::size_t width = std::min(kColumns, cols - first);
    for (std::size_t i = 0; i < rows; ++i)
      for (std::size_t j = 0; j < width; ++j) block[j * rows + i] = whole(i, first + j);
    sink(std::span(block).first(width * rows));
  }
}

}  // namespace

void for_values(const ExportModel& model, const ExportTensor& tensor, const FloatSink& sink) {
  if (tensor.parts.empty()) {
    sink(model.vector_values(tensor));
    return;
  }
  const std::size_t slices = std::max<std::size_t>(1, tensor.parts.front()->parameter->weight.slices);
  for (std::size_t slice = 0; slice < slices; ++slice) for_slice(tensor, slice, sink);
  for (const ExportPart* part : tensor.parts) part->values->release();
}

FloatEncoder::FloatEncoder(std::string name, DType dtype) : name_(std::move(name)), dtype_(dtype) {
  NIBBLE_REQUIRE(is_float(dtype), InvalidArgument, "{}: expected F32, F16 or BF16, got {}", name_, dtype_name(dtype));
}

std::span<const std::byte> FloatEncoder::encode(std::span<const float> values) {
  if (dtype_ == DType::kF32) return std::as_bytes(values);
  halves_.resize(values.size());
  if (dtype_ == DType::kF16) {
    convert_to_f16(values, halves_.data());
  } else {
    std::transform(values.begin(), values.end(), halves_.begin(), f32_to_bf16);
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    NIBBLE_REQUIRE(std::isfinite(values[i]), NumericalError, "{}: expected finite weights, got {} at index {}", name_,
                   values[i], done_ + i);
    NIBBLE_REQUIRE(std::isfinite(dtype_ == DType::kF16 ? f16_to_f32(halves_[i]) : bf16_to_f32(halves_[i])),
                   NumericalError, "{}: {} at index {} {}", name_, values[i], done_ + i,
                   why_not_finite(values[i], dtype_));
  }
  done_ += values.size();
  return std::as_bytes(std::span(halves_));
}

}  // namespace nibble::exporting
