#include "eval/sweep/run_sweep.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "calib/collect/collector.h"
#include "core/error.h"
#include "core/machine/memory_gate.h"
#include "core/machine/no_thread.h"
#include "core/machine/thread_pool.h"
#include "eval/quality/kept_states.h"
#include "eval/sweep/cache.h"
#include "eval/sweep/results_directory.h"
#include "eval/sweep/run_job.h"
#include "eval/sweep/sweep_cost.h"
#include "eval/sweep/sweep_inputs.h"
#include "quant/store/load_model.h"

namespace nibble::eval {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kCellPatience = std::chrono::milliseconds(200);
constexpr const char* kStatesFile = "states.f32";
constexpr const char* kCalibrationFile = "calibration.h5";

double seconds_of_sweep_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::string claim_of_machine() {
  char name[256] = "";
  ::gethostname(name, sizeof name - 1);  // any name will do: at worst, two machines wait for each other
  return fmt::format("machine {}", name);
}

class Sweep {
 public:
  Sweep(const SweepPlan& plan, const SweepOptions& options)
      : plan_(plan),
        options_(options),
        results_(options.output),
        cache_(options.cache.empty() ? results_.default_cache() : options.cache, options.cache_bytes) {}

  SweepSummary run() {
    const auto start = Clock::now();
    results_.announce(plan_, options_.shard);
    select_jobs();
    const auto selected = Clock::now();
    calibrate_models();
    const auto calibrated = Clock::now();
    run_references();
    cells_start_ = Clock::now();
    summary_.calibration_seconds = std::chrono::duration<double>(calibrated - selected).count();
    summary_.reference_seconds = std::chrono::duration<double>(cells_start_ - calibrated).count();
    if (!jobs_.empty()) run_jobs();
    results_.tidy();
    summary_.seconds = seconds_of_sweep_since(start);
    return summary_;
  }

 private:
  // A record that is there is read once, for jobs that wait for others ask again and again. One that is deleted
  // meanwhile is a matter of the next run: its calibration may not have been made.
  bool wanted(const PlannedCell& cell) const {
    {
      const std::lock_guard lock(mutex_);
      if (there_.contains(cell.record.id)) return false;
    }
    const bool open = wanted(results_.find(cell.record.id));
    const std::lock_guard lock(mutex_);
    if (!open) there_.insert(cell.record.id);
    return open;
  }
  bool wanted(const std::optional<SweepRecord>& there) const {
    return !there || (there->error && options_.retry_failed && !tried_before(there->id));
  }
  // A failure of this very run is not tried again.
  bool tried_before(const std::string& id) const {
    const std::lock_guard lock(mutex_);
    return std::find(failed_.begin(), failed_.end(), id) != failed_.end();
  }

  void select_jobs() {
    for (std::size_t i = 0; i < plan_.jobs.size(); ++i) {
      if (!options_.shard.has(i)) continue;
      const PlannedJob& job = plan_.jobs[i];
      summary_.cells += job.cells.size();
      std::size_t open = 0;
      bool renamed = false;
      for (const PlannedCell& cell : job.cells) {
        const std::optional<SweepRecord> there = results_.find(cell.record.id);
        if (wanted(there)) {
          ++open;
        } else {
          renamed = renamed || !is_told_right(*there, cell);
          there_.insert(cell.record.id);  // nothing runs beside this yet
        }
      }
      if (renamed) name_records(job);
      summary_.present += job.cells.size() - open;
      jobs_.push_back(&job);
      total_work_ += open > 0 ? job.cost.operations : 0.0;
    }
    // Those that need all memory come after the others, and those that need the machine for themselves last, when
    // nobody has to wait for them.
    std::stable_partition(jobs_.begin(), jobs_.end(), [](const PlannedJob* job) { return !takes_all(*job); });
    std::stable_partition(jobs_.begin(), jobs_.end(), [](const PlannedJob* job) { return !job->alone; });
    progress_.cells = summary_.cells;
    progress_.present = progress_.done = summary_.present;
  }

  // What no id holds: names, and where files lie.
  bool is_told_right(const SweepRecord& there, const PlannedCell& cell) const {
    return there.labels == cell.record.labels && there.sources == cell.record.sources &&
           there.command == command_of(cell.record.id);
  }
  std::string command_of(const std::string& id) const { return repeat_command(results_.record_file(id)); }

  // Gives the records of a job the names and paths of this sweep, the one that ran last. Whoever writes records of a
  // job holds its claim: where that is another, they are left to it, or to the next run. They are read again under the
  // claim, since they may be others by now.
  void name_records(const PlannedJob& job) {
    const auto claim = results_.claims().try_claim(job.id);
    if (!claim) return;
    for (const PlannedCell& cell : job.cells) {
      std::optional<SweepRecord> there = results_.find(cell.record.id);
      if (!there || is_told_right(*there, cell)) continue;
      there->labels = cell.record.labels;
      there->sources = cell.record.sources;
      there->command = command_of(there->id);
      results_.write(*there);
    }
  }

  bool is_open(const PlannedJob& job) const {
    return std::any_of(job.cells.begin(), job.cells.end(), [&](const PlannedCell& cell) { return wanted(cell); });
  }

  // Whether a job of this process runs: then its progress is shown.
  bool at_work() const {
    const std::lock_guard lock(mutex_);
    return !shares_.empty();
  }

  void report(const std::string& stage) {
    const std::lock_guard lock(mutex_);
    progress_.stage = stage;
    if (options_.progress) options_.progress(progress_);
  }

  // Those that jobs still to be done look at, but where only its text is used.
  std::vector<std::size_t> calibrations_needed() const {
    std::vector<std::size_t> needed;
    for (std::size_t i = 0; i < plan_.calibrations.size(); ++i) {
      const bool used = std::any_of(jobs_.begin(), jobs_.end(),
                                    [&](const PlannedJob* job) { return job->calibration == i && is_open(*job); });
      if (used && !(plan_.calibrations[i].settings.collected == calib::StatisticSet{})) needed.push_back(i);
    }
    return needed;
  }

  // Those of most windows first: they make their parts besides.
  void calibrate_models() {
    std::vector<std::size_t> needed = calibrations_needed();
    std::stable_sort(needed.begin(), needed.end(), [&](std::size_t a, std::size_t b) {
      return plan_.calibrations[a].windows.samples > plan_.calibrations[b].windows.samples;
    });
    for (const std::size_t i : needed) {
      const PlannedCalibration& calibration = plan_.calibrations[i];
      const std::string& name = plan_.models[calibration.model].source.name;
      const auto make = [&](const auto& directory) {
        const auto machine = share_machine();
        const auto failure = guarded([&] { make_calibration(calibration, needed, directory); });
        if (!failure) return;
        calibration_errors_.emplace(i, *failure);
        throw NumericalError(failure->message);  // nothing of it enters the cache
      };
      try {
        entries_.emplace(i, cache_.get(calibration.key, make, [&] {
          report(fmt::format("waiting for another process calibrating {}", name));
        }));
        std::error_code ignored;  // not there, unless another process made this calibration alone meanwhile
        for (const auto& [larger, entry] : entries_)
          std::filesystem::remove(entry.directory / part_file(calibration), ignored);
      } catch (const NumericalError&) {  // of make(): its cells say so, and the others go on
      }
    }
  }

  // A claim beside which no speed is measured on this machine; waits where one is.
  Claims::Claim share_machine() {
    while (true) {
      if (auto claim = results_.claims().try_claim(machine_, Claims::Kind::kShared)) return std::move(*claim);
      report("waiting for a speed that is measured on this machine");
      std::this_thread::sleep_for(kCellPatience);
    }
  }

  // What a calibration of more windows leaves of one of fewer, in its own entry of the cache.
  static std::string part_file(const PlannedCalibration& part) { return part.key + ".h5"; }

  void make_calibration(const PlannedCalibration& calibration, const std::vector<std::size_t>& needed,
                        const std::filesystem::path& directory) {
    const std::string stage = fmt::format("calibrating {}", plan_.models[calibration.model].source.name);
    report(stage);
    const quant::LoadedModel model = quant::load_model(plan_.models[calibration.model].checkpoint);
    const auto job_of = [&](const PlannedCalibration& of, const std::filesystem::path& output) {
      return calib::CalibrationJob{.model = *model.transformer,
                                   .tokens = of.windows.tokens,
                                   .settings = of.settings,
                                   .centre = of.centre_own ? calib::Centre::kOwn : calib::Centre::kNone,
                                   .output = output,
                                   .memory_bytes = options_.memory_bytes,
                                   .progress = stage_progress(stage)};
    };
    std::vector<calib::CalibrationJob> parts;
    for (const std::size_t i : needed) {
      const PlannedCalibration& part = plan_.calibrations[i];
      if (is_part_of(part, calibration, plan_.models[calibration.model]) && !cache_.has(part.key))
        parts.push_back(job_of(part, directory / part_file(part)));
    }
    const std::filesystem::path output = directory / kCalibrationFile;
    std::error_code ignored;  // most often it is no part
    for (const auto& [larger, entry] : entries_)
      std::filesystem::rename(entry.directory / part_file(calibration), output, ignored);
    calib::calibrate(job_of(calibration, output), parts);
    reset_share();
  }

  void reset_share() {
    const std::lock_guard lock(mutex_);
    progress_.share = 0.0;
  }

  ProgressSink stage_progress(const std::string& stage) {
    return [this, stage](const ProgressUpdate& update) {
      const std::lock_guard lock(mutex_);
      progress_.stage = stage;
      progress_.share = update.total > 0.0 ? update.done / update.total : 0.0;
      progress_.seconds = 0.0;
      if (options_.progress) options_.progress(progress_);
    };
  }

  // Those that several cells still to be done compare with, where the cache has room for them; and those that it has.
  void run_references() {
    std::vector<std::size_t> users(plan_.references.size(), 0), compared(users);
    for (const PlannedJob* job : jobs_) {
      for (const PlannedCell& cell : job->cells) {
        if (!cell.reference || !wanted(cell)) continue;
        ++users[*cell.reference];
        compared[*cell.reference] += cell.divergence;
      }
    }
    for (std::size_t i = 0; i < plan_.references.size(); ++i) {
      const PlannedReference& reference = plan_.references[i];
      const bool worth_keeping = users[i] >= 2 && reference.cost.disk <= options_.cache_bytes;
      if (compared[i] == 0 || !(worth_keeping || cache_.has(reference.key))) continue;
      const std::string what =
          fmt::format("running {} over {}", plan_.models[reference.model].source.name, reference.evaluation);
      const auto make = [&](const auto& directory) {
        const auto machine = share_machine();
        const auto failure = guarded([&] { run_reference(reference, what, directory / kStatesFile); });
        if (failure) throw NumericalError(failure->message);  // nothing of it enters the cache
      };
      try {
        references_.emplace(
            i, cache_.get(reference.key, make, [&] { report(fmt::format("waiting for another process {}", what)); }));
      } catch (const NumericalError&) {  // the cells, which run the model themselves then, will say so
      }
    }
  }

  void run_reference(const PlannedReference& reference, const std::string& stage, const std::filesystem::path& states) {
    report(stage);
    const quant::LoadedModel model = quant::load_model(plan_.models[reference.model].checkpoint);
    PerplexityOptions options = reference.options;
    options.progress = stage_progress(stage);
    keep_states(*model.transformer, reference.tokens->tokens, options, states);
    reset_share();
  }

  void run_jobs() {
    const auto hand_out =
        options_.hand_out ? options_.hand_out(jobs_.size()) : std::unique_ptr<HandOut>(new LocalHandOut(jobs_.size()));
    std::vector<const PlannedJob*> open;  // those done share nothing
    std::ranges::copy_if(jobs_, std::back_inserter(open), [&](const PlannedJob* job) { return is_open(*job); });
    workers_ = workers_for(open, threads_, options_.memory_bytes);
    std::vector<std::thread> others;
    std::vector<std::exception_ptr> errors(workers_);
    const auto work = [&](std::size_t worker) {
      try {
        const ThreadTeam team(threads_ / workers_ + (worker < threads_ % workers_ ? 1 : 0), threads_);
        take_jobs(*hand_out);
      } catch (...) {
        errors[worker] = std::current_exception();
        stop_ = true;
      }
    };
    const auto join = [&] { std::ranges::for_each(others, &std::thread::join); };
    const auto give_up = [&] {
      stop_ = true;
      join();
    };
    try {
      for (std::size_t worker = 1; worker < workers_; ++worker) others.emplace_back(work, worker);
    } catch (const std::system_error& error) {
      give_up();
      throw_no_thread(others.size() + 2, workers_, error);
    } catch (...) {
      give_up();
      throw;
    }
    work(0);
    join();
    for (const std::exception_ptr& error : errors)
      if (error) std::rethrow_exception(error);
  }

  void take_jobs(HandOut& hand_out) {
    std::vector<const PlannedJob*> elsewhere;
    while (!stop_) {
      const auto next = hand_out.next();
      if (!next) break;
      if (!try_job(*jobs_[*next])) elsewhere.push_back(jobs_[*next]);
    }
    // What others worked at: done by now, or they died, or it is waited for. And what measures speed, until the
    // machine is free.
    while (!stop_ && !elsewhere.empty()) {
      std::erase_if(elsewhere, [&](const PlannedJob* job) { return !stop_ && try_job(*job); });
      if (elsewhere.empty()) break;
      if (!at_work()) report(fmt::format("waiting for others with {} of the models", elsewhere.size()));
      std::this_thread::sleep_for(kCellPatience);
    }
  }

  // False: another process is at it, or one of the two cannot bear the other beside it.
  bool try_job(const PlannedJob& job) {
    if (!is_open(job)) return true;
    const bool all = takes_all(job);
    const std::uint64_t memory = all ? options_.memory_bytes : options_.memory_bytes / workers_;
    const MemoryGate::Pass pass(gate_, memory);  // one that takes all waits for all others, and they for it
    if (stop_) return false;
    const auto claim = results_.claims().try_claim(job.id);
    if (!claim) return false;
    if (!is_open(job)) return true;  // another process did it while this one waited
    // Jobs that run side by side share the machine; one that measures speed has it for itself.
    const auto machine =
        results_.claims().try_claim(machine_, job.alone ? Claims::Kind::kExclusive : Claims::Kind::kShared);
    if (!machine) return false;
    std::optional<ThreadTeam> team;
    if (all) team.emplace(threads_);
    std::filesystem::path calibration;
    std::optional<CellError> failure;
    if (job.calibration) {
      const auto failed = calibration_errors_.find(*job.calibration);
      if (failed != calibration_errors_.end()) {
        failure = failed->second;
      } else if (!(job.statistics == calib::StatisticSet{})) {
        calibration = entries_.at(*job.calibration).directory / kCalibrationFile;  // an open job's was made
      }
    }
    run_job(job, {.model = plan_.models[job.model],
                  .calibration = calibration,
                  .windows = job.calibration ? &plan_.calibrations[*job.calibration] : nullptr,
                  .failure = failure,
                  .scratch = results_.scratch(job.id),
                  .reference = [&](const PlannedCell& cell) { return reference_file(cell); },
                  .environment = options_.environment,
                  .memory_bytes = memory,
                  .wanted = [&](const PlannedCell& cell) { return wanted(cell); },
                  .finished = [&](const SweepRecord& record) { finish(record); },
                  .progress = [&](double share) { in_work(job, share); }});
    const std::lock_guard lock(mutex_);
    shares_.erase(&job);
    finished_work_ += job.cost.operations;
    return true;
  }

  std::filesystem::path reference_file(const PlannedCell& cell) const {
    const auto found = cell.reference ? references_.find(*cell.reference) : references_.end();
    return found == references_.end() ? std::filesystem::path() : found->second.directory / kStatesFile;
  }

  void in_work(const PlannedJob& job, double share) {
    const std::lock_guard lock(mutex_);
    shares_[&job] = share;
    publish();
  }

  void finish(SweepRecord record) {
    record.command = command_of(record.id);
    results_.write(record);
    const std::lock_guard lock(mutex_);
    if (record.error) {
      ++summary_.failed;
      ++progress_.failed;
      failed_.push_back(record.id);
    } else {
      ++summary_.done;
      ++progress_.done;
    }
    publish();
    if (options_.finished) options_.finished(record);
  }

  // Requires mutex_: the caller's function runs under it, as `finished` does.
  void publish() {
    double work = finished_work_;
    for (const auto& [job, share] : shares_) work += share * job->cost.operations;
    progress_.stage.clear();
    progress_.share = total_work_ > 0.0 ? std::min(1.0, work / total_work_) : 1.0;
    progress_.seconds = seconds_of_sweep_since(cells_start_);
    if (options_.progress) options_.progress(progress_);
  }

  const SweepPlan& plan_;
  const SweepOptions& options_;
  ResultsDirectory results_;
  Cache cache_;
  std::vector<const PlannedJob*> jobs_;          // of this shard
  std::map<std::size_t, Cache::Entry> entries_;  // of calibrations
  std::map<std::size_t, CellError> calibration_errors_;
  std::map<std::size_t, Cache::Entry> references_;
  const std::string machine_ = claim_of_machine();
  const std::size_t threads_ = thread_count();
  std::size_t workers_ = 1;
  MemoryGate gate_{options_.memory_bytes};
  std::atomic<bool> stop_ = false;
  Clock::time_point cells_start_;
  double total_work_ = 0.0;

  mutable std::mutex mutex_;             // guards what follows
  mutable std::set<std::string> there_;  // cells that nobody need do any more
  SweepSummary summary_;
  SweepProgress progress_;
  std::map<const PlannedJob*, double> shares_;  // of jobs in work
  double finished_work_ = 0.0;
  std::vector<std::string> failed_;
};

}  // namespace

SweepSummary run_sweep(const SweepPlan& plan, const SweepOptions& options) {
  NIBBLE_REQUIRE(options.shard.index >= 1 && options.shard.index <= options.shard.count, InvalidArgument,
                 "shard: expected 1 <= i <= n, got {}/{}", options.shard.index, options.shard.count);
  NIBBLE_REQUIRE(!options.output.empty(), InvalidArgument, "sweep: output: expected a path, got ''");
  return Sweep(plan, options).run();
}

}  // namespace nibble::eval
