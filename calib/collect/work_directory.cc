#include "calib/collect/work_directory.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <optional>

#include "calib/stats/run_settings.h"
#include "core/error.h"
#include "core/files/file_lock.h"
#include "core/files/hash.h"
#include "core/files/output_file.h"
#include "core/text/json.h"
#include "core/text/strict_json.h"

namespace nibble::calib {
namespace {

using Settings = std::vector<std::pair<std::string, std::string>>;

constexpr std::string_view kLock = "lock", kSettings = "settings.json", kPartial = ".partial", kMetric = "metric.h5",
                           kMetricWork = "metric.h5.work";  // of another process than the first: and -N

int lock_directory(const std::filesystem::path& directory) {
  if (const auto file = lock_file(directory / kLock)) return *file;
  throw InvalidArgument(
      fmt::format("another calibration is at work in '{}'; wait for it, or choose another -o", directory.string()));
}

// The results of a run: PREFIX, a number, SUFFIX.
struct NumberedName {
  std::string_view prefix, suffix;
};
constexpr std::array<NumberedName, 4> kResults{
    {{"", ".forward.shard"}, {"", ".backward.shard"}, {"boundary.", ".residual"}, {"gradient.", ".residual"}}};

bool is_result(std::string_view name) {
  return name == kMetric || std::any_of(kResults.begin(), kResults.end(), [&](const NumberedName& of) {
           if (name.size() <= of.prefix.size() + of.suffix.size()) return false;
           if (!name.starts_with(of.prefix) || !name.ends_with(of.suffix)) return false;
           name.remove_prefix(of.prefix.size());
           name.remove_suffix(of.suffix.size());
           return name.find_first_not_of("0123456789") == std::string_view::npos;
         });
}

// Whether a file is a run's, finished or not; the lock aside.
bool is_ours(const std::filesystem::directory_entry& entry) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(entry.symlink_status(ignored))) return false;
  std::string name = entry.path().filename().string();
  if (name.ends_with(kPartial)) name.resize(name.size() - kPartial.size());
  return name == kSettings || is_result(name);
}

// Whether there is anything that a changed setting would make useless.
bool holds_results(const std::filesystem::path& directory) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(directory, ignored)) {
    const std::string name = entry.path().filename().string();
    if (is_result(name) || (name.starts_with(kMetricWork) && holds_results(entry.path()))) return true;
  }
  return false;
}

// A run makes its lock before anything else, and removes it last.
bool is_left_by_a_run(const std::filesystem::path& directory) {
  std::error_code ignored;
  return std::filesystem::is_empty(directory, ignored) || std::filesystem::exists(directory / kLock, ignored);
}

// Deletes the files of a run, and the directory if there is nothing else in it. Whoever calls holds the lock.
void remove_ours(const std::filesystem::path& directory) {
  std::error_code ignored;  // an untidiness that stays is no failure
  std::vector<std::filesystem::path> ours, inner;
  for (std::filesystem::directory_iterator entry(directory, ignored), end; !ignored && entry != end;
       entry.increment(ignored))
    if (is_ours(*entry)) {
      ours.push_back(entry->path());
    } else if (entry->path().filename().string().starts_with(kMetricWork) && !entry->is_symlink(ignored)) {
      inner.push_back(entry->path());
    }
  // The settings last: results without them are of nobody knows which run.
  std::ranges::sort(ours, {}, [](const std::filesystem::path& file) { return file.filename() == kSettings; });
  for (const std::filesystem::path& run : inner) remove_ours(run);
  for (const std::filesystem::path& file : ours) std::filesystem::remove(file, ignored);
  std::filesystem::remove(directory / kLock, ignored);
  ::rmdir(directory.c_str());  // a link to a directory stays
}

void compare_settings(const std::filesystem::path& file, const Settings& settings) {
  const nlohmann::json stored = parse_strict_json(read_text_file(file, 1 << 20), file.string());
  std::string differing;
  std::string_view hint;
  for (const auto& [name, value] : settings) {
    const bool known = stored.is_object() && stored.contains(name) && stored[name].is_string();
    const std::string earlier = known ? stored[name].get<std::string>() : "(nothing)";
    if (earlier == value) continue;
    differing += fmt::format("{}{}: '{}' then, '{}' now", differing.empty() ? "" : "; ", name, earlier, value);
    if (name == "guide" && earlier == to_text(Guide::kPlain))
      hint = hint_of_plain_guide(Guide::kPlain, parse_guide(value));
  }
  NIBBLE_REQUIRE(differing.empty(), InvalidArgument,
                 "'{}' holds an unfinished calibration with other settings ({}); repeat it as it was begun, or remove "
                 "that directory to start anew{}",
                 file.parent_path().string(), differing, hint);
}

void write_settings(const std::filesystem::path& file, const Settings& settings) {
  nlohmann::ordered_json object;
  for (const auto& [name, value] : settings) object[name] = value;
  OutputFile output(file);
  output.write(object.dump(2) + "\n");
  output.commit();
}

}  // namespace

std::uint64_t bytes_of_files(const std::filesystem::path& directory) {
  std::error_code error;
  std::uint64_t total = 0;
  for (std::filesystem::directory_iterator entry(directory, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code gone;
    const std::uint64_t bytes = entry->is_regular_file(gone) ? entry->file_size(gone) : 0;
    if (!gone) total += bytes;
  }
  return total;
}

WorkDirectory::WorkDirectory(std::filesystem::path directory, Settings settings) : directory_(std::move(directory)) {
  std::error_code error;
  std::filesystem::create_directory(directory_, error);
  if (error) throw FormatError(fmt::format("cannot create '{}': {}", directory_.string(), error.message()), error);
  NIBBLE_REQUIRE(is_left_by_a_run(directory_), InvalidArgument,
                 "'{}' is where this calibration would work, and is not left from an earlier run; move it away, or "
                 "choose another -o",
                 directory_.string());
  Hasher hasher;
  for (const auto& [name, value] : settings) hasher.update(name).update(value);
  identity_ = hasher.hex();
  lock_ = lock_directory(directory_);
  try {  // the lock is not the destructor's yet
    const std::filesystem::path file = directory_ / kSettings;
    if (holds_results(directory_)) {
      compare_settings(file, settings);
    } else {
      write_settings(file, settings);
    }
  } catch (...) {
    ::close(lock_);
    throw;
  }
}

WorkDirectory::~WorkDirectory() {
  if (lock_ >= 0 && !holds_results(directory_)) remove();
  if (lock_ >= 0) ::close(lock_);
}

std::filesystem::path WorkDirectory::metric_path() const { return directory_ / kMetric; }

std::filesystem::path WorkDirectory::shard_path(std::size_t layer, Pass pass) const {
  return directory_ / fmt::format("{:05}.{}.shard", layer, pass == Pass::kForward ? "forward" : "backward");
}

bool WorkDirectory::has(std::size_t layer, Pass pass) const { return std::filesystem::exists(shard_path(layer, pass)); }

void WorkDirectory::store(std::size_t layer, Pass pass, const LayerStats& stats) const {
  write_shard(shard_path(layer, pass), identity_, stats);
}

LayerStats WorkDirectory::load(std::size_t layer, Pass pass, const LayerStats& expected) const {
  return read_shard(shard_path(layer, pass), identity_, expected);
}

std::uint64_t WorkDirectory::bytes() const { return bytes_of_files(directory_); }

void WorkDirectory::remove() {
  remove_ours(directory_);
  ::close(lock_);
  lock_ = -1;  // from here on it may be another process's
}

void WorkDirectory::remove_left(const std::filesystem::path& directory) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(std::filesystem::symlink_status(directory, ignored))) return;
  if (!is_left_by_a_run(directory)) return;
  try {
    const std::optional<int> lock = lock_file(directory / kLock);
    if (!lock) return;
    remove_ours(directory);
    ::close(*lock);
  } catch (const FormatError&) {  // no right to: an untidiness that stays is no failure
  }
}

}  // namespace nibble::calib
