#pragma once

#include <cstdint>
#include <span>

#include "core/matrix_view.h"
#include "model/checkpoint/weights.h"
#include "model/transformer/config.h"

namespace nibble::test {

/// Logits (tokens, vocabulary) of one sequence by the definitions, in plain double loops that share nothing with the
/// product: what the tests of features without golden values compare with.
Matrix<double> naive_logits(const model::Config& config, const model::WeightProvider& weights,
                            std::span<const std::uint32_t> tokens);

}  // namespace nibble::test
