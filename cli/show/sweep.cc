#include "cli/show/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <optional>
#include <set>

#include "cli/show/differences.h"
#include "cli/terminal/human.h"
#include "cli/terminal/output.h"
#include "cli/terminal/table.h"
#include "core/error.h"
#include "core/machine/thread_pool.h"
#include "core/text/estimate.h"
#include "core/text/json.h"
#include "eval/sweep/results_directory.h"
#include "eval/sweep/sweep_cost.h"

namespace nibble::cli {
namespace {

using eval::fact;

std::string result_text(const eval::SweepRecord& record) {
  if (!record.speeds.empty()) {
    const eval::SpeedRecord& speed = record.speeds.back();
    return fmt::format("{} tokens/s at {}", human_count(speed.tokens_per_second.median), speed.context);
  }
  const eval::CellMeasures& measures = *record.measures;
  if (!measures.perplexity_stderr) return fmt::format("{:.3f}", measures.perplexity);
  return fmt::format("{:.3f} ± {:.3f}", measures.perplexity, *measures.perplexity_stderr);
}

std::string divergence_text(const eval::DivergenceMeasures& divergence) {
  return estimate_text(divergence.nats_per_token * 1e3, eval::or_nan(divergence.stderr_nats) * 1e3, 3);
}

// What the best is the best by.
std::string best_text(const eval::SweepRecord& record) {
  const eval::CellMeasures& measures = *record.measures;
  if (!measures.divergence) return fmt::format("{:.2f}", measures.perplexity);
  const double mean = measures.divergence->nats_per_token * 1e3;
  return fmt::format("KL {:.{}f} mnat", mean, decimals_beside(eval::or_nan(measures.divergence->stderr_nats) * 1e3, 2));
}

}  // namespace

SweepDisplay::SweepDisplay(bool quiet, bool with_bar)
    : quiet_(quiet), with_bar_(with_bar), bar_(ProgressBar::for_process(quiet || !with_bar)), sink_(bar_.sink()) {}

void SweepDisplay::update(const eval::SweepProgress& progress) {
  last_ = progress;
  if (!sink_) return;
  if (!progress.stage.empty()) return sink_({progress.stage, 100.0 * progress.share, 100.0, "%"});
  const auto cells = static_cast<double>(progress.cells), present = static_cast<double>(progress.present);
  const std::string best = best_ ? "best " + best_text(*best_) : "";
  sink_({"sweep", present + progress.share * (cells - present), cells, "cells", best});
}

void SweepDisplay::finished(const eval::SweepRecord& record) {
  for (const std::string& sentence : warning_sentences(record)) {
    if (!warned_.insert(sentence).second) continue;
    if (with_bar_ && !quiet_)
      bar_.print_line("nibble: warning: " + sentence);
    else
      warn(sentence);
  }
  if (quiet_) return;
  const bool competes =
      may_be_best(record) &&
      (!best_ || (fact(best_->labels, "evaluation") == fact(record.labels, "evaluation") && is_better(record, *best_)));
  if (competes) best_ = record;
  const std::string line = fmt::format("[{}/{}] {}: {}", last_.done + last_.failed, last_.cells,
                                       eval::cell_name(record), outcome_text(record));
  if (with_bar_)
    bar_.print_line(line);
  else
    tell(line + "\n");
  if (competes) update(last_);  // not only with the next step
}

void SweepDisplay::close() { bar_.finish(); }

std::string outcome_text(const eval::SweepRecord& record) {
  if (record.error) return fmt::format("failed: {}", record.error->message);
  const auto& divergence = record.measures->divergence;
  return fmt::format("{:.3f} bits per weight, {}{}{}", record.measures->bits_per_weight,
                     divergence ? fmt::format("KL {} mnat, ", divergence_text(*divergence)) : "",
                     record.speeds.empty() ? "perplexity " : "", result_text(record));
}

bool may_be_best(const eval::SweepRecord& record) {
  if (!record.measures || !record.speeds.empty() || fact(record.configuration, "recipe") == "null") return false;
  const eval::CellMeasures& measures = *record.measures;
  return std::isfinite(measures.divergence ? measures.divergence->nats_per_token : measures.perplexity);
}

bool is_better(const eval::SweepRecord& a, const eval::SweepRecord& b) {
  const eval::CellMeasures &of_a = *a.measures, &of_b = *b.measures;
  if (of_a.divergence && of_b.divergence) return of_a.divergence->nats_per_token < of_b.divergence->nats_per_token;
  return of_a.perplexity < of_b.perplexity;
}

void add_divergence(const eval::SweepRecord& record, nlohmann::ordered_json& line) {
  const auto& divergence = record.measures->divergence;
  if (!divergence) return;
  line["kl_nats_per_token"] = divergence->nats_per_token;
  if (divergence->stderr_nats) line["kl_stderr_nats"] = *divergence->stderr_nats;
}

void show_plan(const eval::SweepPlan& plan, const eval::Shard& shard, std::uint64_t memory, bool json) {
  Table table({{"model", Align::kLeft},
               {"recipe", Align::kLeft},
               {"evaluation", Align::kLeft},
               {"time"},
               {"memory"},
               {"disk"}});
  nlohmann::ordered_json cells = nlohmann::ordered_json::array();
  std::vector<const eval::PlannedJob*> jobs;
  double seconds = 0.0;
  std::uint64_t cache_disk = 0, scratch = 0;
  std::set<std::size_t> calibrations, references;  // that jobs of the shard look at
  for (std::size_t i = 0; i < plan.jobs.size(); ++i) {
    if (!shard.has(i)) continue;
    if (plan.jobs[i].calibration) calibrations.insert(*plan.jobs[i].calibration);
    for (const eval::PlannedCell& cell : plan.jobs[i].cells)
      if (cell.reference) references.insert(*cell.reference);
  }
  for (const std::size_t i : calibrations) {
    const eval::PlannedCalibration& calibration = plan.calibrations[i];
    seconds += calibration.cost.seconds;
    cache_disk += calibration.cost.disk;
    table.add_row({plan.models[calibration.model].source.name,
                   "calibration: " + calib::to_text(calibration.settings.collected), "",
                   human_duration(calibration.cost.seconds), human_bytes(calibration.cost.memory),
                   human_bytes(calibration.cost.disk)});
  }
  for (const std::size_t i : references) {
    const eval::PlannedReference& reference = plan.references[i];
    seconds += reference.cost.seconds;
    cache_disk += reference.cost.disk;
    table.add_row({plan.models[reference.model].source.name, "float, to compare with", reference.evaluation,
                   human_duration(reference.cost.seconds), human_bytes(reference.cost.memory),
                   human_bytes(reference.cost.disk)});
  }
  for (std::size_t i = 0; i < plan.jobs.size(); ++i) {
    if (!shard.has(i)) continue;
    const eval::PlannedJob& job = plan.jobs[i];
    jobs.push_back(&job);
    scratch = std::max(scratch, job.cost.disk);
    const double making = job.cost.seconds * eval::quantizing_share(job);  // their model, with the first cell
    for (const eval::PlannedCell& cell : job.cells) {
      const auto& labels = cell.record.labels;
      const double on_all =
          (cell.cost.seconds + (&cell == &job.cells.front() ? making : 0.0)) / static_cast<double>(thread_count());
      seconds += on_all;
      table.add_row({std::string(fact(labels, "model")), std::string(fact(labels, "recipe")),
                     std::string(fact(labels, "evaluation")), human_duration(on_all), human_bytes(job.cost.memory),
                     human_bytes(job.cost.disk)});
      cells.push_back({{"id", cell.record.id},
                       {"model", fact(labels, "model")},
                       {"recipe", fact(labels, "recipe")},
                       {"evaluation", fact(labels, "evaluation")},
                       {"seconds", on_all},
                       {"memory_bytes", job.cost.memory},
                       {"disk_bytes", job.cost.disk}});
    }
  }
  const std::size_t workers = eval::workers_for(jobs, thread_count(), memory), count = cells.size();
  const std::uint64_t disk = cache_disk + workers * scratch;
  std::uint64_t needed = 0;
  for (const eval::PlannedJob* job : jobs)
    needed = std::max(needed, job->cost.memory * (eval::takes_all(*job) ? 1 : workers));
  for (const std::size_t i : calibrations) needed = std::max(needed, plan.calibrations[i].cost.memory);
  if (json)
    return print_json({{"cells", std::move(cells)},
                       {"repeated", plan.repeated},
                       {"workers", workers},
                       {"seconds", seconds},
                       {"memory_bytes", needed},
                       {"disk_bytes", disk},
                       {"warnings", plan.warnings}});
  table.add_rule();
  table.add_row({fmt::format("{} cells", count), fmt::format("{} at a time", workers), "", human_duration(seconds),
                 human_bytes(needed), human_bytes(disk)});
  print(table.text());
  if (plan.repeated > 0) print(fmt::format("\n{} cells say the same as others and are left out\n", plan.repeated));
  for (const std::string& warning : plan.warnings) warn(warning);
}

void show_results(const eval::SweepPlan& plan, const eval::SweepOptions& options, const eval::SweepSummary& summary,
                  bool json) {
  const eval::ResultsDirectory results(options.output);
  std::vector<Column> columns{
      {"model", Align::kLeft}, {"recipe", Align::kLeft}, {"evaluation", Align::kLeft}, {"bits/weight"}, {"result"}};
  const bool with_divergence = std::ranges::any_of(plan.jobs, [](const eval::PlannedJob& job) {
    return std::ranges::any_of(job.cells, &eval::PlannedCell::divergence);
  });
  if (with_divergence) columns.push_back({"KL, millinats"});
  Table table(std::move(columns));
  nlohmann::ordered_json records = nlohmann::ordered_json::array();
  std::size_t failed = 0, absent = 0;
  std::string first_error;
  for (std::size_t i = 0; i < plan.jobs.size(); ++i) {
    if (!options.shard.has(i)) continue;
    for (const eval::PlannedCell& cell : plan.jobs[i].cells) {
      const std::optional<eval::SweepRecord> found = results.find(cell.record.id);
      if (!found) {
        ++absent;
        continue;
      }
      const eval::SweepRecord& record = *found;
      const auto& labels = cell.record.labels;
      nlohmann::ordered_json line{{"id", record.id},
                                  {"model", fact(labels, "model")},
                                  {"recipe", fact(labels, "recipe")},
                                  {"evaluation", fact(labels, "evaluation")}};
      std::string bits = "-", outcome = "failed", divergence = "-";
      if (record.error) {
        if (++failed == 1) first_error = record.error->message;
        line["error"] = record.error->message;
      } else {
        bits = fmt::format("{:.4f}", record.measures->bits_per_weight);
        outcome = result_text(record);
        line["bits_per_weight"] = record.measures->bits_per_weight;
        if (record.speeds.empty()) {
          line["perplexity"] = record.measures->perplexity;
        } else {
          line["speeds"] = eval::record_json(record)["speeds"];
        }
        if (record.measures->divergence) divergence = divergence_text(*record.measures->divergence);
        add_divergence(record, line);
      }
      table.add_row({std::string(fact(labels, "model")), std::string(fact(labels, "recipe")),
                     std::string(fact(labels, "evaluation")), bits, outcome, divergence});
      records.push_back(std::move(line));
    }
  }
  const std::size_t known = summary.present + summary.done + summary.failed + absent,
                    elsewhere = summary.cells > known ? summary.cells - known : 0;  // by processes beside this one
  if (json) {
    print_json({{"output", options.output.string()},
                {"cells", summary.cells},
                {"present", summary.present},
                {"done", summary.done},
                {"elsewhere", elsewhere},
                {"failed", failed},
                {"seconds", summary.seconds},
                {"calibration_seconds", summary.calibration_seconds},
                {"reference_seconds", summary.reference_seconds},
                {"records", std::move(records)}});
  } else {
    print(table.text());
    print(fmt::format("\n{} cells: {} were there, {} done in {} (calibration {}){}{}\n", summary.cells, summary.present,
                      summary.done, human_duration(summary.seconds), human_duration(summary.calibration_seconds),
                      elsewhere > 0 ? fmt::format(", {} by other processes", elsewhere) : "",
                      failed > 0 ? fmt::format(", {} failed", failed) : ""));
  }
  NIBBLE_REQUIRE(failed == 0, NumericalError,
                 "{} of {} cells failed and are recorded so; the first: {}. --retry-failed does them again", failed,
                 summary.cells, first_error);
  NIBBLE_REQUIRE(absent == 0, FormatError, "{} of {} records are not there: another process deleted them?", absent,
                 summary.cells);
}

void show_repetition(const eval::RecordDiff& diff, bool json) {
  show_record_diff(diff, json);
  NIBBLE_REQUIRE(diff.same_measures, NumericalError, "the measures differ from the record's");
}

}  // namespace nibble::cli
