#pragma once

#include <cstdint>
#include <span>

#include "core/matrix/matrix_view.h"
#include "model/architecture/architecture.h"
#include "model/checkpoint/weights.h"

namespace nibble::test {

/// Logits (tokens, vocabulary) of one sequence by the definitions of model/architecture, in plain double loops that
/// share nothing with the product: what the tests of features without golden values compare with.
Matrix<double> naive_logits(const model::Architecture& architecture, const model::WeightProvider& weights,
                            std::span<const std::uint32_t> tokens);

}  // namespace nibble::test
