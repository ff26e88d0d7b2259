#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace nibble::quant {

/// One of the ways in which a budget could have a weight quantized.
struct BudgetCandidate {
  std::string layout;  ///< "palette 3-bit channel"
  std::uint64_t stored_bits = 0;
  double bits_per_weight = 0.0;
  double predicted_loss = 0.0;  ///< estimated increase of the loss, nats per token; corrected where it was probed
  bool chosen = false;
};

/// One way of a tensor, whose loss was measured as well as predicted (budget_probe.h).
struct BudgetProbe {
  std::string layout;
  double predicted_loss = 0.0;  ///< before it was corrected
  double divergence = 0.0;      ///< KL(float ‖ only this tensor quantized), nats per token
};

struct BudgetTensor {
  std::string name;
  std::vector<BudgetCandidate> candidates;
  std::optional<BudgetProbe> probe = {};  ///< by which the candidates' losses were corrected
};

/// The table that a budget was spent by: the linear layers of the blocks that are quantized.
struct BudgetResult {
  double limit_bits_per_weight = 0.0;
  std::string loss_estimate;        ///< how losses were predicted: predicted_loss.h
  double predicted_loss = 0.0;      ///< of what was chosen together, nats per token
  double lower_bound = 0.0;         ///< no choice within the budget is predicted to lose less
  bool exact = false;               ///< lower_bound is predicted_loss: the choice is optimal
  std::uint64_t probe_windows = 0;  ///< on which estimates were corrected; 0 = they were not
  std::vector<BudgetTensor> tensors;
};

}  // namespace nibble::quant
