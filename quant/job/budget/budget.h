#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "quant/algo/solve/multiple_choice.h"
#include "quant/job/budget/budget_probe.h"
#include "quant/job/plan/job_reporter.h"
#include "quant/job/plan/plan.h"
#include "quant/job/shards/shard.h"
#include "quant/job/statistics/calibration.h"
#include "quant/job/statistics/calibration_text.h"
#include "quant/job/statistics/predicted_loss.h"

namespace nibble::quant {

/// What a budget is spent on; all must outlive the call.
struct BudgetJob {
  std::shared_ptr<const model::Checkpoint> checkpoint;
  const model::Architecture& architecture;
  const CalibrationText* text;  ///< for probes; null without them
  std::uint64_t memory_bytes;
  std::filesystem::path scratch;
  JobReporter& reporter;
  Announce announce;  ///< of what was chosen; kNo where codes are made anew
};

/// The recipe's budget as it came out: the weights' shards, in the order of plan.items, and the table of choices.
struct BudgetOutcome {
  std::vector<Shard> shards;
  BudgetResult result;
};

/// The ways that a recipe's budget leaves open for a weight: one where it has nothing to choose. Throws InvalidArgument
/// for bits of which no window goes with a granularity.
std::vector<TensorSettings> budget_ways(const QuantizeItem& item, const Recipe& recipe);

/// Spends a recipe's budget: quantizes every linear layer of the blocks in each of the budget's ways (bits ×
/// granularity × windows, as far as they go together; what a rule names stays), predicts the loss of each
/// (predicted_loss.h), and picks one for each so that together they have least predicted loss within the budget
/// (quant/algo/solve/multiple_choice.h). With `probe_windows`, one way of each weight, the nearest to the budget's
/// bits, is measured too (budget_probe.h), and the losses of all ways of that weight are multiplied by measured /
/// predicted.
///
/// Bits are those stored, of every kind, over all linear layers of the blocks, those that stay float16 included.
class BudgetFit {
 public:
  /// Lists the ways. Throws InvalidArgument before any work: bits that a format lacks, lists that no weight is free to
  /// take from (other than Budget's own), statistics that no calibration file holds, a budget that the codes alone
  /// exceed. `reserved_bits` of the budget are for what is stored beside the weights and not known yet. `calibration`
  /// must outlive this.
  BudgetFit(const Plan& plan, const Recipe& recipe, const Calibration& calibration, std::uint64_t reserved_bits = 0);

  /// `plan.items` are those of the constructor, perhaps with their inputs scaled since, and get the settings chosen.
  /// Throws InvalidArgument when no choice meets the budget, with the least that is possible. Disk: all candidates, in
  /// job.scratch.
  BudgetOutcome run(const BudgetJob& job, Plan& plan) const;

 private:
  // A way of quantizing the weight plan.items[weight].
  struct Candidate {
    std::size_t weight = 0;
    TensorSettings settings;
    std::string layout;
  };
  // What the linear layers of the blocks may take; fixed: plain float16 tensors.
  struct Room {
    std::uint64_t weights = 0, fixed_bits = 0, bits = 0;
  };

  void add_candidates(const Plan& plan, const Recipe& recipe);
  void measure_room(const Plan& plan);
  void require_room(std::uint64_t least_bits, std::string_view of_what) const;
  void require_room_for_codes(const Plan& plan) const;
  std::vector<QuantizeItem> items_of(const Plan& plan) const;
  std::vector<Shard> make_candidates(const BudgetJob& job, const Plan& plan) const;
  std::size_t end_of(std::size_t weight) const {
    return weight + 1 < first_.size() ? first_[weight + 1] : candidates_.size();
  }
  std::size_t nearest_way(std::size_t weight, const std::vector<Shard>& shards) const;
  std::vector<std::optional<BudgetProbe>> probe(const BudgetJob& job, const Plan& plan,
                                                const std::vector<Shard>& shards) const;
  std::vector<std::vector<KnapsackWay>> choices_of(const Plan& plan, const std::vector<Shard>& shards,
                                                   const std::vector<std::optional<BudgetProbe>>& probes) const;

  const Calibration& calibration_;
  Budget budget_;
  std::vector<Candidate> candidates_;  // by weight
  std::vector<std::size_t> first_;     // by weight: its first candidate
  Room room_;
  LossEstimate estimate_ = LossEstimate::kFisher;
};

}  // namespace nibble::quant
