#include <nanobind/nanobind.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cli/version.h"
#include "core/error.h"
#include "core/text/json.h"
#include "eval/sweep/environment.h"
#include "eval/sweep/run_sweep.h"
#include "eval/sweep/sweep_cost.h"
#include "eval/sweep/sweep_file.h"
#include "python/src/bindings.h"
#include "python/src/json.h"
#include "python/src/long_work.h"
#include "python/src/warnings.h"

namespace nibble::python {
namespace {

namespace nb = nanobind;
using namespace nb::literals;

nb::object as_dict(const eval::SweepRecord& record) {
  nb::object dict = from_json(eval::record_json(record).dump());
  nb::dict settings;
  for (const auto& [name, value] : eval::settings_of(record)) settings[name.c_str()] = value;
  dict["settings"] = settings;
  return dict;
}

nb::list as_dicts(const std::vector<eval::SweepRecord>& records) {
  nb::list dicts;
  for (const eval::SweepRecord& record : records) dicts.append(as_dict(record));
  return dicts;
}

nb::list read_records(const std::filesystem::path& path) { return as_dicts(eval::read_records(path)); }

// Of the cells of this sweep, also those that were there, each once: several evaluations of a model have the same.
std::vector<std::string> warnings_of_making(const std::vector<std::string>& cells,
                                            const std::vector<eval::SweepRecord>& records) {
  const std::set<std::string> asked_for(cells.begin(), cells.end());
  std::set<std::string> told;
  std::vector<std::string> sentences;
  for (const eval::SweepRecord& record : records) {
    if (!asked_for.contains(record.id)) continue;
    for (std::string& sentence : eval::warning_sentences(record))
      if (told.insert(sentence).second) sentences.push_back(std::move(sentence));
  }
  return sentences;
}

// What the command line ends in where cells of a sweep failed; nothing where none did.
std::vector<std::string> warnings_of_failures(const std::vector<std::string>& cells,
                                              const std::vector<eval::SweepRecord>& records) {
  std::size_t failed = 0;
  std::string first_error;
  for (const std::string& id : cells) {
    const auto record = std::ranges::find(records, id, &eval::SweepRecord::id);
    if (record != records.end() && record->error && ++failed == 1) first_error = record->error->message;
  }
  if (failed == 0) return {};
  return {fmt::format("{} of {} cells failed and are recorded so; the first: {}. retry_failed=True does them again",
                      failed, cells.size(), first_error)};
}

nb::list run_sweep(const std::filesystem::path& sweep, const std::filesystem::path& output,
                   const std::optional<std::filesystem::path>& cache, std::uint64_t memory_bytes,
                   std::uint64_t cache_bytes, bool retry_failed, nb::handle progress) {
  eval::SweepOptions options;
  options.output = output;
  if (cache) options.cache = *cache;
  options.memory_bytes = memory_bytes;
  options.cache_bytes = cache_bytes;
  options.retry_failed = retry_failed;
  options.environment = eval::run_environment(cli::build_facts());
  std::vector<std::string> warnings, cells;
  run_long(progress, [&](const ProgressSink& sink) {
    eval::SweepPlan plan = eval::plan_sweep(eval::load_sweep(sweep));
    for (const eval::PlannedJob& job : plan.jobs)
      for (const eval::PlannedCell& cell : job.cells) cells.push_back(cell.record.id);
    eval::estimate(plan, memory_bytes);
    warnings = plan.warnings;
    options.progress = [&](const eval::SweepProgress& at) {
      sink({at.stage.empty() ? "cells" : at.stage, static_cast<double>(at.done + at.failed),
            static_cast<double>(at.cells), "cells"});
    };
    eval::run_sweep(plan, options);
  });
  const std::vector<eval::SweepRecord> records = eval::read_records(output);
  warn(warnings);
  warn(warnings_of_making(cells, records));
  warn(warnings_of_failures(cells, records));
  return as_dicts(records);
}

}  // namespace

void bind_sweep(nb::module_& module) {
  module.def(
      "read_records", &read_records, "path"_a,
      nb::sig("def read_records(path: str | os.PathLike) -> list[dict[str, typing.Any]]"),
      "The records of a sweep's directory, or the one of a file (docs/formats.md), with their settings by name.");
  module.def(
      "run_sweep", &run_sweep, "sweep"_a, "output"_a, nb::kw_only(), "cache"_a = nb::none(),
      "memory_bytes"_a = std::uint64_t{4} << 30, "cache_bytes"_a = std::uint64_t{20} << 30, "retry_failed"_a = false,
      "progress"_a = nb::none(),
      nb::sig("def run_sweep(sweep: str | os.PathLike, output: str | os.PathLike, *, "
              "cache: str | os.PathLike | None = None, memory_bytes: int = 4294967296, "
              "cache_bytes: int = 21474836480, retry_failed: bool = False, "
              "progress: typing.Callable[[str, float, float, str], object] | bool | None = None) "
              "-> list[dict[str, typing.Any]]"),
      R"(Runs every cell of a sweep file (docs/sweep.md) whose record is not in `output` yet, and returns all records there.
Cells that fail are records too, and a warning; retry_failed does them again. What quantize() warns of is warned of for every
cell, at each call. Ctrl-C loses the cells in work only: the same
call goes on.)");
}

}  // namespace nibble::python
