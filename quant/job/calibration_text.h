#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "model/transformer/transformer.h"

namespace nibble::quant {

/// The text that `sequential: true` and `tuning` run through the model.
struct CalibrationText {
  std::vector<model::TokenId> tokens;  ///< windows, one after the other
  std::size_t window_tokens = 0;
  std::string fingerprint;  ///< of what the windows were made from, and how
};

}  // namespace nibble::quant
