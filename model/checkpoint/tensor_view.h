#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/matrix/dtype.h"

namespace nibble::model {

/// One stored tensor: a view into the mapped file, valid while the Checkpoint lives. `data` may be unaligned.
struct TensorView {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<std::uint64_t> shape;
  std::span<const std::byte> data;  ///< row-major, exactly product(shape) * dtype_size(dtype) bytes

  std::uint64_t element_count() const;
};

}  // namespace nibble::model
