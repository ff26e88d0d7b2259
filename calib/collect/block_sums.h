#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "calib/collect/team.h"
#include "calib/collect/token_metric.h"
#include "calib/collect/work_directory.h"
#include "calib/stats/layer_stats.h"
#include "calib/stats/run_settings.h"
#include "model/architecture/architecture.h"
#include "model/transformer/hooks.h"

namespace nibble::calib {

/// A layer that is collected, and whose input it shares.
struct CollectedLayer {
  std::string module;
  std::size_t out = 0, in = 0;
  std::size_t block = 0;              ///< the number of blocks for the head
  std::string input_of;               ///< q for k and v, gate for up: the layer before it with the same input
  std::optional<std::size_t> expert;  ///< of a mixture's experts: sees only the tokens that chose it
  bool head = false;
};

/// The linear layers of all blocks in order of use; the head last, if asked for.
std::vector<CollectedLayer> collected_layers(const model::Architecture& architecture, bool head);

/// Mean inputs by layer, for centred gradients.
using InputMeans = std::map<std::string, std::vector<double>>;

/// The sums of the layers of one block (or the head) during one pass: filled through the transformer's hooks, batch by
/// batch, then reduced over the team and rounded. Throws NumericalError from the hooks for NaN or infinity, naming
/// layer, window, position and channel. `tokens` counts the rows that a layer was shown: all of a batch, or those that
/// chose an expert; `samples` counts windows, whether or not an expert was chosen in them.
class BlockSums {
 public:
  /// Bytes the sums of these layers take.
  static std::uint64_t bytes(std::span<const CollectedLayer> layers, const StatisticSet& what, Guide guide);

  /// `means` is empty unless gradients are to be centred; it must outlive this.
  BlockSums(std::span<const CollectedLayer> layers, const StatisticSet& what, const RunSettings& settings,
            const InputMeans& means);

  /// What tokens of a layer are weighed by (Guide::kWhitened); without one, gradients by their sizes, inputs not.
  void set_metric(std::size_t index, TokenMetric metric);

  /// Counts the next batch; the hooks called after this belong to it. `first_window` is for messages.
  void begin_batch(std::size_t first_window, std::size_t windows);
  /// Sums activations and Hessians on the way forward; layers that are not among these pass by.
  model::Hooks<float> forward_hooks();
  /// Sums sensitivities and guided Hessians on the way back; with `activations` or `hessian` wanted, those of X too.
  model::Hooks<float> backward_hooks();

  /// Adds up over the team, once all batches were counted; alone also before, and more may follow.
  void reduce(Team& team);
  /// A layer as it is reduced.
  LayerStats rounded(std::size_t index) const;
  /// The same, freeing the layer's sums.
  LayerStats take(std::size_t index);

 private:
  struct Entry {
    LayerSums sums;
    bool follows = false;                    // shares the input of another entry
    TokenMetric metric = {};                 // a follower has no inputs of its own here
    std::vector<double> input_weights = {};  // of the batch's tokens, once they were asked for
  };
  void add_input(Entry& entry, MatrixView<const float> x, const model::HookRows& rows);
  void add_gradient(Entry& entry, MatrixView<const float> x, MatrixView<const float> dy, const model::HookRows& rows);
  /// What the tokens of X weigh in the output Hessians of all layers that share it; empty: nothing.
  std::span<const double> input_weights(const Entry& entry, MatrixView<const float> x,
                                        std::span<const std::size_t> windows);
  void require_finite(const std::string& module, const char* what, MatrixView<const float> values,
                      const model::HookRows& rows) const;
  /// Where the batch's windows begin among these rows of it.
  std::vector<std::size_t> windows_of(std::size_t count, const model::HookRows& rows) const;

  const RunSettings& settings_;
  const InputMeans& means_;
  std::vector<Entry> entries_;
  std::map<std::string, std::size_t> index_;
  std::size_t first_window_ = 0, windows_ = 0;
};

}  // namespace nibble::calib
