#include "cli/commands/sweep_watch.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <thread>

#include "cli/show/sweep.h"
#include "cli/terminal/human.h"
#include "cli/terminal/output.h"
#include "cli/terminal/table.h"
#include "core/error.h"
#include "core/text/excerpt.h"
#include "core/text/json.h"
#include "eval/sweep/record.h"
#include "eval/sweep/results_directory.h"

namespace nibble::cli {
namespace {

constexpr auto kInterval = std::chrono::seconds(2);

double timing(const eval::SweepRecord& record, std::string_view name) {
  for (const auto& [key, value] : record.timings)
    if (key == name) return value;
  return 0.0;
}

/// What a directory says at one moment.
struct Snapshot {
  std::size_t cells = 0, done = 0, failed = 0;
  std::vector<std::string> in_work;               ///< names
  double seconds_left = -1.0;                     ///< negative: unknown
  std::map<std::string, eval::SweepRecord> best;  ///< by model and evaluation
};

/// A record is read again when its file was written again: with other names, or after a failure.
class Watcher {
 public:
  explicit Watcher(const std::filesystem::path& directory) : results_(directory) {}

  Snapshot look() {
    Snapshot now;
    std::set<std::string> jobs_in_work;
    double seconds = 0.0;
    std::size_t timed = 0;
    for (const auto& cell : results_.announced()) {
      ++now.cells;
      const eval::SweepRecord* record = find(cell.id);
      if (record == nullptr) {
        if (results_.claims().is_claimed(cell.job)) {
          now.in_work.push_back(cell.name);
          jobs_in_work.insert(cell.job);
        }
        continue;
      }
      if (record->error) {
        ++now.failed;
        continue;
      }
      ++now.done;
      seconds += timing(*record, "quantize_seconds") + timing(*record, "evaluate_seconds");
      ++timed;
      if (!may_be_best(*record)) continue;
      const std::string group =
          fmt::format("{} · {}", eval::fact(record->labels, "model"), eval::fact(record->labels, "evaluation"));
      const auto [best, is_new] = now.best.try_emplace(group, *record);
      if (!is_new && is_better(*record, best->second)) best->second = *record;
    }
    const std::size_t left = now.cells - now.done - now.failed;
    if (left == 0) now.seconds_left = 0.0;
    if (left > 0 && timed > 0 && !jobs_in_work.empty())
      now.seconds_left =
          seconds / static_cast<double>(timed) * static_cast<double>(left) / static_cast<double>(jobs_in_work.size());
    return now;
  }

 private:
  struct Known {
    std::filesystem::file_time_type written;
    std::optional<eval::SweepRecord> record;
  };

  const eval::SweepRecord* find(const std::string& id) {
    std::error_code missing;
    const auto written = std::filesystem::last_write_time(results_.record_file(id), missing);
    if (missing) return nullptr;
    const auto [known, is_new] = known_.try_emplace(id);
    if (is_new || known->second.written != written) known->second = {written, results_.find(id)};
    return known->second.record ? &*known->second.record : nullptr;
  }

  eval::ResultsDirectory results_;
  std::map<std::string, Known> known_;
};

nlohmann::ordered_json json_of(const Snapshot& now) {
  nlohmann::ordered_json best = nlohmann::ordered_json::array();
  for (const auto& [group, record] : now.best) {
    best.push_back({{"id", record.id},
                    {"model", eval::fact(record.labels, "model")},
                    {"recipe", eval::fact(record.labels, "recipe")},
                    {"evaluation", eval::fact(record.labels, "evaluation")},
                    {"perplexity", record.measures->perplexity}});
    add_divergence(record, best.back());
  }
  nlohmann::ordered_json json{{"cells", now.cells},     {"done", now.done},        {"failed", now.failed},
                              {"in_work", now.in_work}, {"seconds_left", nullptr}, {"best", std::move(best)}};
  if (now.seconds_left >= 0.0) json["seconds_left"] = now.seconds_left;
  return json;
}

std::string text_of(const Snapshot& now) {
  std::string text = fmt::format("{} of {} cells done", now.done, now.cells) +
                     (now.failed > 0 ? fmt::format(", {} failed", now.failed) : "") +
                     (now.in_work.empty() ? "" : fmt::format(", {} in work", now.in_work.size())) +
                     (now.seconds_left > 0.0 ? fmt::format(", about {} left", human_clock(now.seconds_left)) : "") +
                     "\n";
  for (const std::string& name : now.in_work) text += "  in work  " + name + "\n";
  for (const auto& [group, record] : now.best)
    text += fmt::format(
        "  best     {}\n",
        printable(fmt::format("{}: {}: {}", group, eval::fact(record.labels, "recipe"), outcome_text(record))));
  return text;
}

}  // namespace

void watch_sweep(const std::filesystem::path& results, bool json) {
  NIBBLE_REQUIRE(std::filesystem::exists(results / ".sweep"), FormatError,
                 "'{}': no sweep was started here (nibble sweep SWEEP -o DIR)", results.string());
  Watcher watcher(results);
  const bool live = !json && isatty(STDOUT_FILENO) != 0;
  while (true) {
    const Snapshot now = watcher.look();
    if (json) return print_json(json_of(now));
    if (live) print("\x1b[H\x1b[2J");  // to the top left, wipe the screen
    print(text_of(now));
    flush_output();
    if (!live || now.done + now.failed == now.cells) return;
    std::this_thread::sleep_for(kInterval);
  }
}

}  // namespace nibble::cli
