#pragma once

#include <memory>

#include "core/matrix/linear_op.h"
#include "export/coreml/blob_reader.h"
#include "export/coreml/mil.h"

namespace nibble::coreml {

/// A constant matrix of a package, decoded from its bytes on disk, by the definitions of the operations and by nothing
/// that the writer uses:
///   const                            the float16 values
///   constexpr_lut_to_dense           lut[row's table, column's table, index, element]
///   constexpr_blockwise_shift_scale  scale · (data − offset), in float
/// `operation` and `weights` must outlive it. Throws FormatError for another operation, another rank, operands whose
/// blobs are not there or of another size.
std::unique_ptr<WeightSource> make_constant_source(const Operation& operation, const BlobFile& weights);

/// The values of a constant vector or table, of float16, in row-major order. Throws as above.
std::vector<float> constant_values(const Value& value, const BlobFile& weights);

}  // namespace nibble::coreml
