#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>

#include "core/matrix/linear_op.h"
#include "export/coreml/blob_writer.h"
#include "export/coreml/mil.h"
#include "export/coreml/rounding.h"
#include "quant/format/quantized_tensor.h"

namespace nibble::coreml {

/// An operation without run-time operands that yields a constant: `const`, whose one operand is called "val", or one of
/// the compressed forms, which the device expands itself.
struct Constant {
  std::string operation;
  std::map<std::string, Value> operands;
  TensorType type;  ///< of the result
};

/// Rows of a weight (out, in): all of it, or a part of a head.
struct Rows {
  std::size_t begin = 0, end = 0;
  std::size_t count() const { return end - begin; }
};

/// Why such a weight cannot be a compressed constant; empty where it can.
///
/// | stored | written as |
/// |---|---|
/// | palette of 1, 2, 3, 4, 6, 8 bits | constexpr_lut_to_dense: indices (N, K / v), float16 tables (T, 1, 2^bits, v) |
/// | … tables | one per tensor or group of rows; with row scales one per row, scale folded in |
/// | … vectors of v | along axis 1 |
/// | blocks without zero points | constexpr_blockwise_shift_scale: int4 (up to 4 bits) or int8, float16 scales |
/// | … scales | (N, blocks) |
/// | blocks with zero points | the same with uint4 or uint8 and an offset (N, blocks) |
/// | palette of 5 or 7 bits, read through windows, or of scaled blocks | not at all |
/// | outliers; blocks that do not divide the row | not at all |
std::string why_not_held(const quant::TensorSpec& spec, bool outliers);

/// The rows of a quantized weight, codes as they are. Table entries, and products with row scales, are rounded to
/// float16 once; `rounding` is told, while the file is written. Requires why_not_held() to be empty. The tensor must
/// live as long as the plan.
Constant plan_coded_weight(BlobPlan& plan, std::shared_ptr<const quant::QuantizedTensor> tensor, Rows rows,
                           const std::shared_ptr<Rounding>& rounding);

/// The rows of any weight as float16. Writing throws NumericalError for values beyond float16's range.
Constant plan_float_weight(BlobPlan& plan, std::shared_ptr<const WeightSource> source, Rows rows,
                           const std::string& label, const std::shared_ptr<Rounding>& rounding);

}  // namespace nibble::coreml
