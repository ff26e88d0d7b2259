#include "eval/sweep/run_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <functional>
#include <limits>
#include <new>
#include <system_error>

#include "core/error.h"
#include "core/error_kind.h"
#include "core/files/output_file.h"
#include "core/files/remove_directory.h"
#include "core/machine/thread_pool.h"
#include "eval/quality/kept_states.h"
#include "eval/quality/missing_bos.h"
#include "eval/quality/reference_comparison.h"
#include "eval/sweep/sweep_cost.h"
#include "eval/sweep/sweep_inputs.h"
#include "eval/sweep/tensor_facts.h"
#include "quant/job/quantize_model.h"
#include "quant/store/load_model.h"

namespace nibble::eval {
namespace {

using Clock = std::chrono::steady_clock;

// A mixture may have hundreds of rare experts.
std::vector<std::string> first_few(std::vector<std::string> warnings) {
  constexpr std::size_t kMost = 6;
  if (warnings.size() <= kMost) return warnings;
  const std::size_t left = warnings.size() - kMost;
  warnings.resize(kMost);
  warnings.push_back(fmt::format("and {} warnings more of this kind", left));
  return warnings;
}

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

class Job {
 public:
  Job(const PlannedJob& job, const JobContext& context) : job_(job), context_(context), flush_(context.scratch) {}
  ~Job() { remove_directory(context_.scratch); }

  void run() {
    for (const PlannedCell& cell : job_.cells)
      if (context_.wanted(cell)) wanted_.push_back(&cell);
    const auto failure = context_.failure ? context_.failure : guarded([&] { make_model(); });
    for (const PlannedCell* cell : wanted_) {
      SweepRecord record = cell->record;
      record.environment = context_.environment;
      record.warnings = warnings_;
      record.error = failure ? failure : guarded([&] { evaluate(*cell, record); });
      if (record.error) {
        record.measures.reset();
        record.speeds.clear();
      }
      context_.finished(record);
      ++done_;
    }
  }

 private:
  void report(double share_of_cell) const {
    const double cells = static_cast<double>(done_) + share_of_cell;
    const double start = quantizing_share_;
    if (context_.progress)
      context_.progress(start + (1.0 - start) * cells / static_cast<double>(std::max<std::size_t>(1, wanted_.size())));
  }

  void make_model() {
    const auto start = Clock::now();
    if (!job_.recipe) {
      model_ = quant::load_model(job_.given ? job_.given : context_.model.checkpoint);
      return;
    }
    const auto directory = context_.scratch / "model";
    std::error_code error;
    std::filesystem::remove_all(directory, error);  // complete, but of a run that was killed: not trusted
    std::filesystem::create_directories(context_.scratch, error);
    if (error)
      throw FormatError(fmt::format("cannot create '{}': {}", context_.scratch.string(), error.message()), error);
    quant::QuantizeOptions options;
    options.model = context_.model.source.path;
    options.checkpoint = context_.model.checkpoint;
    options.output = directory;
    options.recipe = *job_.recipe;
    options.statistics = job_.statistics;
    options.memory_bytes = context_.memory_bytes;
    if (!context_.calibration.empty()) options.calibration = {context_.calibration};
    if (job_.needs_text) {
      const datasets::CalibrationWindows& windows = context_.windows->windows;
      options.text = quant::CalibrationText{.tokens = windows.tokens,
                                            .window_tokens = windows.length,
                                            .fingerprint = windows.fingerprint,
                                            .statistics_windows = windows.samples,
                                            .behind_bos = calib::is_behind_bos(context_.windows->settings)};
      const auto further = context_.windows->further.begin();
      const std::size_t behind = windows_behind(*job_.recipe, windows.samples) * windows.length;
      options.text->tokens.insert(options.text->tokens.end(), further, further + static_cast<std::ptrdiff_t>(behind));
    }
    options.progress = [&](const ProgressUpdate& update) {
      if (context_.progress && update.total > 0.0) context_.progress(quantizing_share_ * update.done / update.total);
    };
    quant::QuantizeResult result = quant::quantize_model(options);
    quantize_seconds_ = seconds_since(start);
    model_ = quant::load_model(directory);
    if (const auto& tuning = result.tuning)
      tuning_ = TuningRecord{tuning->held_out, tuning->trained, tuning->best_epoch};
    result.unused_rules.clear();  // the plan's warnings have them
    warnings_ = first_few(quant::warnings(result, options.model));
    tensors_ =
        tensor_records(result, model_.checkpoint, context_.model.checkpoint, context_.model.architecture, *job_.recipe);
  }

  void evaluate(const PlannedCell& cell, SweepRecord& record) {
    const auto start = Clock::now();
    record.measures = measured_sizes();
    record.timings = {{"quantize_seconds", quantize_seconds_}, {"threads", static_cast<double>(thread_count())}};
    if (cell.speed) {
      measure_speeds(*cell.speed, record);
    } else {
      measure_quality(cell, record);
    }
    record.timings.emplace_back("evaluate_seconds", seconds_since(start));
  }

  CellMeasures measured_sizes() const {
    constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
    CellMeasures measures;
    measures.perplexity = kNaN;
    measures.nll_nats_per_token = kNaN;
    measures.bits_per_weight = model_.bits_per_weight;
    measures.model_bits_per_weight = model_.model_bits_per_weight;
    measures.model_bytes = model_.checkpoint->tensor_bytes();
    measures.tuning = tuning_;
    measures.tensors = tensors_;
    return measures;
  }

  void measure_speeds(const PlannedSpeed& speed, SweepRecord& record) {
    const auto spread = [](const Spread& from) { return TimingSpread{from.median, from.min, from.max}; };
    const quant::LoadedModel packed = quant::load_model(model_.checkpoint, {.packed = true, .compute = speed.compute});
    for (std::size_t i = 0; i < speed.contexts.size(); ++i) {
      SpeedOptions options = speed.contexts[i];
      options.progress = [&](const ProgressUpdate& update) {
        report((static_cast<double>(i) + update.done / update.total) / static_cast<double>(speed.contexts.size()));
      };
      const SpeedResult result = measure_speed(*packed.transformer, options);
      record.speeds.push_back({.context = result.context,
                               .prompt = options.prompt,
                               .generate = options.generate,
                               .cache_bytes = result.cache_bytes,
                               .first_token_seconds = spread(result.first_token_seconds),
                               .tokens_per_second = spread(result.tokens_per_second)});
    }
  }

  // By its head alone where the rest is kept.
  static LogitMaker reference_logits(const model::Model& model, const std::filesystem::path& states,
                                     const PlannedCell& cell) {
    return states.empty() ? logits_of(model, cell.options.forward)
                          : logits_of_kept_states(model, states, cell.tokens->tokens, cell.options);
  }

  void measure_quality(const PlannedCell& cell, SweepRecord& record) {
    PerplexityOptions options = cell.options;
    options.progress = [&](const ProgressUpdate& update) { report(update.total > 0 ? update.done / update.total : 0); };
    std::optional<DivergenceMeasures> divergence;
    PerplexityResult result;
    double read = 0.0;  // perplexity of the float model, where both run
    const std::filesystem::path states = context_.reference(cell);
    if (cell.divergence) {
      const quant::LoadedModel reference = quant::load_model(context_.model.checkpoint);
      const ReferenceComparison compared = compare_with_reference(
          *model_.transformer, reference_logits(*reference.transformer, states, cell), cell.tokens->tokens, options);
      result = compared.model;
      read = compared.reference.perplexity;
      divergence = DivergenceMeasures{.nats_per_token = compared.kl_mean,
                                      .stderr_nats = if_finite(compared.kl_mean_stderr),
                                      .median = compared.kl_median,
                                      .percentile_99 = compared.kl_99,
                                      .largest = compared.kl_max,
                                      .top1_agreement = compared.top1_agreement,
                                      .window_nats = compared.window_kl};
    } else {
      result = perplexity(model_.architecture, reference_logits(*model_.transformer, states, cell), cell.tokens->tokens,
                          options);
      read = result.perplexity;
    }
    if (auto warning = warning_of_missing_bos(options, cell.tokens->tokenizer.get(), read))
      record.warnings.push_back(std::move(*warning));
    CellMeasures& measures = *record.measures;
    measures.perplexity = result.perplexity;
    measures.perplexity_stderr = if_finite(result.perplexity_stderr);
    measures.nll_nats_per_token = result.nll_nats_per_token;
    measures.bits_per_byte = if_finite(result.bits_per_byte);
    measures.tokens_scored = result.tokens_scored;
    measures.window_nll = result.window_nll;
    if (std::ranges::adjacent_find(result.window_tokens, std::not_equal_to()) != result.window_tokens.end())
      measures.window_tokens = result.window_tokens;
    measures.divergence = divergence;
    record.timings.emplace_back("tokens_per_second", result.tokens_per_second);
  }

  const PlannedJob& job_;
  const JobContext& context_;
  const UnflushedDirectory flush_;
  std::vector<const PlannedCell*> wanted_;
  std::size_t done_ = 0;
  const double quantizing_share_ = quantizing_share(job_);  // of the job's time
  double quantize_seconds_ = 0.0;
  quant::LoadedModel model_;
  std::vector<TensorRecord> tensors_;
  std::optional<TuningRecord> tuning_;
  std::vector<std::string> warnings_;
};

}  // namespace

void run_job(const PlannedJob& job, const JobContext& context) { Job(job, context).run(); }

std::optional<CellError> guarded(const std::function<void()>& work) {
  try {
    work();
  } catch (const std::exception& error) {
    if (is_disk_full(error)) throw;
    return cell_error(error);
  }
  return std::nullopt;
}

CellError cell_error(const std::exception& error) {
  return {std::string(error_kind_name(error_kind(error))), error.what()};
}

bool is_disk_full(const std::exception& error) {
  std::error_code code;
  if (const auto* ours = dynamic_cast<const FormatError*>(&error)) code = ours->code;
  if (const auto* systems = dynamic_cast<const std::system_error*>(&error)) code = systems->code();
  for (const int full : {ENOSPC, EDQUOT, EFBIG})
    if (code == std::error_condition(full, std::generic_category())) return true;
  return false;
}

}  // namespace nibble::eval
