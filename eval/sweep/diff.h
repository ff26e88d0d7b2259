#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "eval/sweep/paired_test.h"
#include "eval/sweep/record.h"

namespace nibble::eval {

/// A setting that differs; empty where one side lacks it.
struct SettingDiff {
  std::string name, a, b;
};

/// A measure of both sides.
struct MeasureDiff {
  std::string name;
  double a = 0.0, b = 0.0;
  double difference() const { return b - a; }
};

/// One weight on both sides; what a side does not have is empty.
struct LayerDiff {
  std::string name;
  std::optional<double> bits_a, bits_b;      ///< per weight
  std::optional<double> error_a, error_b;    ///< relative to the float weights
  std::optional<double> fisher_a, fisher_b;  ///< Fisher-weighted squared error
  std::optional<double> output_a, output_b;  ///< relative error of outputs
  std::optional<double> between;             ///< ||A - B||_F / ||A||_F of the decoded weights (checkpoints)
};

/// Two records side by side. Paired: b - a over windows, in nats, averaged as the figures themselves are: the logarithm
/// of the perplexities' ratio, or the difference of the divergences; their errors are far below what those of each say.
struct RecordDiff {
  std::string name_a, name_b;
  std::vector<SettingDiff> settings;          ///< that differ: model, recipe, calibration, evaluation, environment
  std::vector<MeasureDiff> measures;          ///< all that both have
  std::optional<PairedDifference> paired;     ///< of losses, in records of one evaluation: same tokens, same protocol
  std::optional<PairedDifference> paired_kl;  ///< of divergences from the float model, likewise
  std::vector<LayerDiff> layers;              ///< of all weights of either
  bool same_measures = false;                 ///< every number is the same, to the bit
};
RecordDiff diff_records(const SweepRecord& a, const SweepRecord& b);

/// Two checkpoints side by side: settings are the recipe's, measures the sizes.
struct CheckpointDiff {
  std::vector<SettingDiff> settings;
  std::vector<MeasureDiff> measures;
  std::vector<LayerDiff> layers;
};
/// Decodes every linear weight of the blocks of both, float or quantized. Throws FormatError; InvalidArgument for
/// checkpoints of different architecture.
CheckpointDiff diff_checkpoints(const std::filesystem::path& a, const std::filesystem::path& b);

}  // namespace nibble::eval
