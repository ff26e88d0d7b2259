#include "eval/sweep/results_directory.h"

#include <fmt/format.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "core/error.h"
#include "core/files/hash.h"
#include "core/files/output_file.h"
#include "core/text/strict_json.h"

namespace nibble::eval {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMaxPlanBytes = std::uint64_t{256} << 20;

fs::path prepared_results(fs::path directory) {
  std::error_code error;
  fs::create_directories(directory / ".sweep", error);
  if (error)
    throw FormatError(fmt::format("cannot create '{}': {}", (directory / ".sweep").string(), error.message()), error);
  return directory;
}

}  // namespace

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
  file.write(record_text(record));
  file.commit();
}

void ResultsDirectory::announce(const SweepPlan& plan, const Shard& shard) const {
  nlohmann::ordered_json cells = nlohmann::ordered_json::array();
  Hasher hasher;
  hasher.update(plan.file.string());
  for (std::size_t i = 0; i < plan.jobs.size(); ++i) {
    const PlannedJob& job = plan.jobs[i];
    for (const PlannedCell& cell : job.cells) {
      if (plan.file.empty()) hasher.update(cell.record.id);
      if (shard.has(i)) cells.push_back({{"id", cell.record.id}, {"job", job.id}, {"name", cell_name(cell.record)}});
    }
  }
  const std::string text = nlohmann::ordered_json{{"cells", std::move(cells)}}.dump(
      1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  const std::string of_sweep = "plan-" + hasher.hex(), of_shards = fmt::format("of{}.json", shard.count);
  const fs::path path = directory_ / ".sweep" / fmt::format("{}-{}{}", of_sweep, shard.index, of_shards);
  const auto claim = claims_.try_claim(path.filename().string());
  if (!claim) return;  // another process of the same sweep does it
  std::error_code error;
  std::vector<fs::path> before;  // of other shards, or of the whole
  for (const auto& entry : fs::directory_iterator(path.parent_path(), error))
    if (const std::string name = entry.path().filename().string();
        name.starts_with(of_sweep) && name.ends_with(".json") && !name.ends_with(of_shards))
      before.push_back(entry.path());
  for (const fs::path& file : before) fs::remove(file, error);
  if (!fs::exists(path, error) || read_text_file(path, kMaxPlanBytes) != text) write_file(path, text);
  fs::last_write_time(path, fs::file_time_type::clock::now(), error);  // finer than that of writing: two never tie
}

std::vector<ResultsDirectory::AnnouncedCell> ResultsDirectory::announced() const {
  std::vector<AnnouncedCell> cells;
  std::set<std::string> known;
  std::set<std::pair<fs::file_time_type, std::string>, std::greater<>> files;  // the newest first
  for (const auto& entry : fs::directory_iterator(directory_ / ".sweep"))
    if (entry.path().filename().string().starts_with("plan-") && entry.path().extension() == ".json")
      files.emplace(entry.last_write_time(), entry.path().string());
  for (const auto& [written, file] : files) {
    const nlohmann::json json = parse_strict_json(read_text_file(file, kMaxPlanBytes), fmt::format("'{}'", file));
    const auto found = json.find("cells");
    NIBBLE_REQUIRE(json.is_object() && found != json.end() && found->is_array(), FormatError,
                   "'{}': expected a list of cells", file);
    for (const auto& cell : *found) {
      NIBBLE_REQUIRE(cell.is_object() && cell.value("id", nlohmann::json()).is_string() &&
                         cell.value("job", nlohmann::json()).is_string() &&
                         cell.value("name", nlohmann::json()).is_string(),
                     FormatError, "'{}': expected cells with id, job and name", file);
      if (known.insert(cell["id"].get<std::string>()).second)
        cells.push_back(
            {cell["id"].get<std::string>(), cell["job"].get<std::string>(), cell["name"].get<std::string>()});
    }
  }
  return cells;
}

void ResultsDirectory::tidy() const {
  std::error_code error;
  std::vector<fs::path> left;
  for (fs::directory_iterator entry(directory_ / ".sweep/scratch", error), end; !error && entry != end;
       entry.increment(error))
    left.push_back(entry->path());
  for (const fs::path& path : left) {
    if (const auto claim = claims_.try_claim(path.filename().string())) fs::remove_all(path, error);
  }
}

}  // namespace nibble::eval
