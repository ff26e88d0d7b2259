#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "calib/stats/run_settings.h"
#include "datasets/calibration_windows.h"
#include "eval/quality/perplexity.h"
#include "eval/speed/speed.h"
#include "eval/sweep/record.h"
#include "eval/sweep/sweep_spec.h"
#include "model/architecture/architecture.h"
#include "model/checkpoint/checkpoint.h"
#include "model/tokenizer/tokenizer.h"
#include "quant/job/work_estimate.h"

namespace nibble::eval {

/// What a piece of work takes, estimated before it starts.
struct Cost {
  double operations = 0.0;  ///< floating-point operations of the matrix products
  double seconds = 0.0;     ///< on one thread of this machine
  std::uint64_t memory = 0, disk = 0;
};

/// The tokens of an evaluation, for one model.
struct EvaluationTokens {
  std::vector<TokenId> tokens;
  std::vector<std::size_t> text_ends;                 ///< of several texts (PerplexityOptions); empty for one
  std::string hash;                                   ///< of the ids
  std::shared_ptr<const model::Tokenizer> tokenizer;  ///< null where the model has none
};

/// One calibration: of a model, with all that the sweep's recipes need.
struct PlannedCalibration {
  std::size_t model = 0;
  datasets::CalibrationWindows windows;
  std::vector<TokenId> further;  ///< windows behind these, which no statistic has seen: for tuning
  calib::RunSettings settings;   ///< as calib::CalibrationJob wants them
  bool centre_own = false;
  std::string key;  ///< of its cache entry
  Cost cost;        ///< on all threads
};

/// The float model's part of an evaluation that compares with it: run once, kept for all cells (kept_states.h).
struct PlannedReference {
  std::size_t model = 0;
  std::string evaluation;  ///< its name
  std::shared_ptr<const EvaluationTokens> tokens;
  PerplexityOptions options;
  std::string key;  ///< of its cache entry
  Cost cost;        ///< on all threads
};

/// What an evaluation of speed measures.
struct PlannedSpeed {
  std::vector<SpeedOptions> contexts;
  quant::Compute compute = quant::Compute::kExact;
};

/// One cell: an evaluation of a job's model.
struct PlannedCell {
  SweepRecord record;                 ///< id, labels, configuration, sources: what is known before
  std::optional<PlannedSpeed> speed;  ///< then nothing of the following
  std::shared_ptr<const EvaluationTokens> tokens;
  PerplexityOptions options;
  bool divergence = false;
  std::optional<std::size_t> reference;  ///< the float model's part of the evaluation; empty: none is compared with
  Cost cost;
};

/// The cells that share a quantized model: made once, evaluated in turn.
struct PlannedJob {
  std::string id;  ///< hash of what makes the model
  std::size_t model = 0;
  std::optional<quant::Recipe> recipe;             ///< empty: the model is there already, float or
  std::shared_ptr<const model::Checkpoint> given;  ///< quantized here; null where it is not
  std::optional<std::size_t> calibration;          ///< empty: none is used
  calib::StatisticSet statistics;  ///< those of the calibration that this job looks at; maybe none, but its text
  quant::WorkEstimate work = {};   ///< of making its model
  bool needs_text = false;         ///< that text runs through the model: `sequential`, `tuning`, probes
  bool needs_head = false;         ///< statistics of the head are among them
  std::vector<PlannedCell> cells;
  bool alone = false;  ///< has a cell that measures speed: nothing else may run on the machine meanwhile
  Cost cost;           ///< with its cells'
};

/// Every n-th job of a plan belongs to shard i of n, 1 <= i <= n.
struct Shard {
  std::size_t index = 1, count = 1;

  bool has(std::size_t job) const { return job % count == index - 1; }
};

struct PlannedModel {
  SweepModel source;
  std::shared_ptr<const model::Checkpoint> checkpoint;
  model::Architecture architecture;
};

/// A sweep with every input looked at: files opened and hashed, tokens read, cells named.
struct SweepPlan {
  std::filesystem::path file;  ///< of SweepSpec
  std::vector<PlannedModel> models;
  std::vector<PlannedCalibration> calibrations;
  std::vector<PlannedReference> references;
  std::vector<PlannedJob> jobs;
  std::size_t cells = 0;
  std::size_t repeated = 0;           ///< cells left out because others have the same configuration
  std::vector<std::string> warnings;  ///< what a user should know: short documents, rules that match nothing
};

}  // namespace nibble::eval
