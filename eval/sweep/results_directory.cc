#include "eval/sweep/results_directory.h"

#include <fmt/format.h>

#include <functional>
#include <set>
#include <utility>

#include "core/error.h"
#include "core/files/hash.h"
#include "core/files/output_file.h"
#include "core/files/remove_directory.h"
#include "core/text/json.h"
#include "core/text/strict_json.h"

namespace nibble::eval {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMaxPlanBytes = std::uint64_t{256} << 20;

fs::path prepared_results(fs::path directory) {
  require_no_checkpoint(directory);
  std::error_code error;
  fs::create_directories(directory / ".sweep", error);
  if (error)
    throw FormatError(fmt::format("cannot create '{}': {}", (directory / ".sweep").string(), error.message()), error);
  return directory;
}

}  // namespace

void require_no_checkpoint(const fs::path& directory) {
  std::error_code error;
  NIBBLE_REQUIRE(
      !fs::exists(directory / "config.json", error), InvalidArgument,
      "'{}' holds a checkpoint (config.json), among whose files nothing of a sweep may lie; choose another directory",
      directory.string());
}

ResultsDirectory::ResultsDirectory(fs::path directory)
    : directory_(prepared_results(std::move(directory))), claims_(directory_ / ".sweep/claims") {}

fs::path ResultsDirectory::record_file(const std::string& id) const { return directory_ / (id + ".json"); }
fs::path ResultsDirectory::scratch(const std::string& job) const { return directory_ / ".sweep/scratch" / job; }
fs::path ResultsDirectory::default_cache() const { return directory_ / ".sweep/cache"; }

std::optional<SweepRecord> ResultsDirectory::find(const std::string& id) const {
  std::error_code error;
  if (!fs::exists(record_file(id), error)) return std::nullopt;
  try {
    SweepRecord record = read_record(record_file(id));
    if (record.id == id) return record;
  } catch (const FormatError&) {  // to be made again
  }
  return std::nullopt;
}

void ResultsDirectory::write(const SweepRecord& record) const {
  OutputFile file(record_file(record.id));
  file.write(record_text_within(record, kMaxRecordBytes));
  file.commit();
}

void ResultsDirectory::announce(const SweepPlan& plan, const Shard& shard) const {
  nlohmann::ordered_json cells = nlohmann::ordered_json::array();
  std::set<std::string> ids;  // of all shards
  Hasher hasher;
  hasher.update(plan.file.string());
  for (std::size_t i = 0; i < plan.jobs.size(); ++i) {
    const PlannedJob& job = plan.jobs[i];
    for (const PlannedCell& cell : job.cells) {
      ids.insert(cell.record.id);
      if (plan.file.empty()) hasher.update(cell.record.id);
      if (shard.has(i)) cells.push_back({{"id", cell.record.id}, {"job", job.id}, {"name", cell_name(cell.record)}});
    }
  }
  const std::string text = nlohmann::ordered_json{{"cells", std::move(cells)}}.dump(
      1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  const std::string of_sweep = "plan-" + hasher.hex();
  const fs::path path = directory_ / ".sweep" / fmt::format("{}-{}of{}.json", of_sweep, shard.index, shard.count);
  const auto claim = claims_.try_claim(path.filename().string());
  if (!claim) return;  // another process of the same sweep does it
  std::error_code error;
  // What the file had before, or another file of that name. Other shards of what it has now stay, and the whole.
  for (const fs::path& other : plan_files())
    if (const std::string name = other.filename().string(); name.starts_with(of_sweep) && other != path)
      if (std::ranges::any_of(cells_of(other), [&](const AnnouncedCell& cell) { return !ids.contains(cell.id); }))
        fs::remove(other, error);
  if (!fs::exists(path, error) || read_text_file(path, kMaxPlanBytes) != text) write_file(path, text);
  fs::last_write_time(path, fs::file_time_type::clock::now(), error);  // finer than that of writing: two never tie
}

std::vector<fs::path> ResultsDirectory::plan_files() const {
  std::set<std::pair<fs::file_time_type, fs::path>, std::greater<>> files;
  for (const auto& entry : fs::directory_iterator(directory_ / ".sweep")) {
    std::error_code error;  // another process may have removed it
    const auto written = entry.last_write_time(error);
    if (!error && entry.path().filename().string().starts_with("plan-") && entry.path().extension() == ".json")
      files.emplace(written, entry.path());
  }
  std::vector<fs::path> paths;
  for (const auto& [written, path] : files) paths.push_back(path);
  return paths;
}

std::vector<ResultsDirectory::AnnouncedCell> ResultsDirectory::cells_of(const fs::path& plan) {
  std::string text;
  try {
    text = read_text_file(plan, kMaxPlanBytes);
  } catch (const FormatError&) {
    std::error_code error;
    if (!fs::exists(plan, error)) return {};  // another process removed it
    throw;
  }
  const nlohmann::json json = parse_strict_json(text, fmt::format("'{}'", plan.string()));
  const auto found = json.find("cells");
  NIBBLE_REQUIRE(json.is_object() && found != json.end() && found->is_array(), FormatError,
                 "'{}': expected a list of cells", plan.string());
  std::vector<AnnouncedCell> cells;
  for (const auto& cell : *found) {
    NIBBLE_REQUIRE(cell.is_object() && cell.value("id", nlohmann::json()).is_string() &&
                       cell.value("job", nlohmann::json()).is_string() &&
                       cell.value("name", nlohmann::json()).is_string(),
                   FormatError, "'{}': expected cells with id, job and name", plan.string());
    cells.push_back({cell["id"].get<std::string>(), cell["job"].get<std::string>(), cell["name"].get<std::string>()});
  }
  return cells;
}

std::vector<ResultsDirectory::AnnouncedCell> ResultsDirectory::announced() const {
  std::vector<AnnouncedCell> cells;
  std::set<std::string> known;
  for (const fs::path& plan : plan_files())
    for (AnnouncedCell& cell : cells_of(plan))
      if (known.insert(cell.id).second) cells.push_back(std::move(cell));
  return cells;
}

void ResultsDirectory::tidy() const {
  std::error_code error;
  std::set<std::string> jobs;
  for (fs::directory_iterator entry(directory_ / ".sweep/scratch", error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    jobs.insert(name_before_removal(name).value_or(name));
  }
  for (const std::string& job : jobs)
    if (const auto claim = claims_.try_claim(job)) remove_directory(scratch(job));
}

}  // namespace nibble::eval
