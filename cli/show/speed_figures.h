#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "eval/speed/machine.h"
#include "eval/speed/speed.h"
#include "model/architecture/architecture.h"
#include "quant/store/load_model.h"

namespace nibble::cli {

/// One line of the table: a context, its speeds, and what they are shares of.
struct SpeedRow {
  eval::SpeedOptions options;
  eval::SpeedResult result;
};

/// Everything `speed` and `evaluate` tell of a model's speed.
struct SpeedReport {
  std::vector<SpeedRow> rows;
  std::optional<eval::MachineLimits> limits;  ///< empty where they were not measured
  std::uint64_t model_bytes = 0, token_bytes = 0, head_bytes = 0;
  std::uint64_t peak_resident_bytes = 0;
  bool bf16 = false;  ///< prompts multiply in bf16: their share is of the library's bf16 rate
  model::Architecture architecture;
};

/// Runs all `rows` and, unless `skip_limits`, measures the machine. Fills in everything else from `model`.
void measure_speed_report(const quant::LoadedModel& model, bool skip_limits, const ProgressSink& progress,
                          SpeedReport& report);

/// Warns where eval::fit_context() left less of a prompt and of generated tokens than were wanted.
void warn_of_cut(const eval::SpeedOptions& measured, std::size_t prompt, std::size_t generate);

nlohmann::ordered_json speed_json(const SpeedReport& report);
std::string speed_table(const SpeedReport& report);
std::string speed_csv(const std::string& model, const SpeedReport& report);
/// The facts above the table: sizes and the machine.
std::vector<std::pair<std::string, std::string>> speed_facts(const SpeedReport& report);

}  // namespace nibble::cli
