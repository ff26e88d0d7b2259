#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "eval/sweep/paired_test.h"
#include "eval/sweep/record.h"

namespace nibble::eval {

/// One result of a storage study (`nibble inspect --compress --json`), as a report shows it: the best transform of a
/// compressor.
struct StorageRow {
  std::string codec = {}, transform = {};
  double plain_ratio = 0.0, ratio = 0.0, bits_per_value = 0.0;
  double compress_rate = 0.0, decompress_rate = 0.0;  ///< MB/s
};
struct StorageSection {
  std::string model = {}, stream = {};
  double entropy = 0.0;  ///< bits per value
  std::vector<StorageRow> rows = {};
};

/// A setting that every cell has: the bits per weight that it was to have, of its budget or else of its recipe.
constexpr std::string_view kWidthSetting = "width";

/// A cell as tables see it.
struct Entry {
  SweepRecord record = {};
  Facts settings = {};  ///< settings_of(record)
  /// ln-loss against the baseline of the same model and evaluation, in nats per token; empty for the baseline itself
  /// and where there is none.
  std::optional<PairedDifference> to_baseline = {};
  double adjusted_p = 1.0;  ///< of to_baseline, after Holm over all entries of the same model and evaluation
  bool is_baseline = false;

  bool ok() const { return record.measures.has_value(); }
  std::string_view setting(std::string_view name) const {
    if (name == kWidthSetting) name = fact(settings, "budget").empty() ? "bits" : "budget";
    return fact(settings, name);
  }
  /// What must agree for perplexities to be comparable: the model's and the evaluation's configuration.
  std::string comparable_key() const;
  /// What the recipe says beside `settings`, as JSON: rules for layers, a budget, tuning; of a given checkpoint its
  /// fingerprint. Cells that agree in all settings may differ in it.
  std::string rest_of_recipe() const;
  /// Whether it is a checkpoint that the sweep was given: of its recipe nothing is known but the name.
  bool is_given_checkpoint() const;
};

struct ReportInput {
  std::vector<Entry> entries = {};  ///< cells whose quality was measured, by model, evaluation, recipe
  std::vector<Entry> pooled = {};   ///< of several texts of one use together: pool_texts()
  std::vector<Entry> speeds = {};   ///< cells whose speed was measured, likewise
  std::vector<Entry> failed = {};
  std::vector<StorageSection> storage = {};
  std::vector<std::string> problems = {};  ///< files that were passed over, with the reason
  std::vector<std::string> warnings = {};  ///< what is odd about the cells together, a sentence each
};

}  // namespace nibble::eval
