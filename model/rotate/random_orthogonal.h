#pragma once

#include <cstddef>
#include <vector>

#include "core/random.h"

namespace nibble::model {

/// A random orthogonal matrix (n, n): Q of the QR decomposition of a matrix of normal deviates, uniform over rotations
/// up to signs. Its transpose is as good, so rows may be taken for columns. Cost  O(n³).
std::vector<double> random_orthogonal(std::size_t n, Random& random);

}  // namespace nibble::model
