#pragma once

#include <functional>
#include <span>
#include <string>

#include "core/matrix/dtype.h"
#include "export/export_model.h"

namespace nibble::exporting {

/// Takes values of a tensor in the order of the file, in pieces.
using FloatSink = std::function<void(std::span<const float> values)>;

/// The values of any tensor of `model` in the family's own shape and order (fused, stacked, transposed), decoded.
/// Memory   a piece; of what is stored (in, out), one matrix.
void for_values(const ExportModel& model, const ExportTensor& tensor, const FloatSink& sink);

/// `values` as F32, F16 or BF16, rounded half to even. Throws NumericalError naming `name` for a value that becomes
/// infinite; InvalidArgument for another type.
class FloatEncoder {
 public:
  FloatEncoder(std::string name, DType dtype);
  /// Valid until the next call.
  std::span<const std::byte> encode(std::span<const float> values);

 private:
  std::string name_;
  DType dtype_;
  std::size_t done_ = 0;
  std::vector<std::uint16_t> halves_;
};

}  // namespace nibble::exporting
