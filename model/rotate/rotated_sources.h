#pragma once

#include <memory>
#include <vector>

#include "core/matrix/linear_op.h"
#include "model/rotate/rotation.h"

namespace nibble::model {

/// What becomes of a weight W (out, in):  Q_outᵀ · W · diag(gain) · Q_in.
struct WeightChange {
  std::vector<double> gain = {};  ///< of the norm in front, (in); empty: ones
  Parts inputs = {}, outputs = {};
};

/// W so changed, decoded from `source`, in double, rounded once. Rows are made as they are asked for where no outputs
/// are rotated; else the whole matrix is made at the first of them (4 bytes a weight), and let go by release(). Throws
/// InvalidArgument unless extents agree.
std::shared_ptr<const WeightSource> make_rotated_source(std::shared_ptr<const WeightSource> source,
                                                        WeightChange change);

}  // namespace nibble::model
