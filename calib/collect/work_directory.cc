#include "calib/collect/work_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/hash.h"
#include "core/output_file.h"
#include "core/strict_json.h"

namespace nibble::calib {
namespace {

using Settings = std::vector<std::pair<std::string, std::string>>;

int lock_directory(const std::filesystem::path& directory) {
  const std::string path = directory / "lock";
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (file < 0) throw errno_error(fmt::format("cannot create '{}'", path), errno);
  if (::flock(file, LOCK_EX | LOCK_NB) == 0) return file;
  ::close(file);
  throw InvalidArgument(
      fmt::format("another calibration is at work in '{}'; wait for it, or choose another -o", directory.string()));
}

bool is_ours(const std::filesystem::path& file) {
  const std::filesystem::path extension = file.extension(), name = file.filename();
  return extension == ".shard" || extension == ".residual" || extension == ".partial" || name == "settings.json";
}

// Whether there is anything that a changed setting would make useless.
bool holds_results(const std::filesystem::path& directory) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(directory, ignored)) {
    const std::filesystem::path extension = entry.path().extension();
    if (extension == ".shard" || extension == ".residual") return true;
  }
  return false;
}

void compare_settings(const std::filesystem::path& file, const Settings& settings) {
  const nlohmann::json stored = parse_strict_json(read_text_file(file, 1 << 20), file.string());
  std::string differing;
  for (const auto& [name, value] : settings) {
    const bool known = stored.is_object() && stored.contains(name) && stored[name].is_string();
    const std::string earlier = known ? stored[name].get<std::string>() : "(nothing)";
    if (earlier == value) continue;
    differing += fmt::format("{}{}: '{}' then, '{}' now", differing.empty() ? "" : "; ", name, earlier, value);
  }
  NIBBLE_REQUIRE(differing.empty(), InvalidArgument,
                 "'{}' holds an unfinished calibration with other settings ({}); repeat it as it was begun, or remove "
                 "that directory to start anew",
                 file.parent_path().string(), differing);
}

void write_settings(const std::filesystem::path& file, const Settings& settings) {
  nlohmann::ordered_json object;
  for (const auto& [name, value] : settings) object[name] = value;
  OutputFile output(file);
  output.write(object.dump(2) + "\n");
  output.commit();
}

}  // namespace

WorkDirectory::WorkDirectory(std::filesystem::path directory, Settings settings) : directory_(std::move(directory)) {
  std::error_code error;
  std::filesystem::create_directory(directory_, error);
  if (error) throw FormatError(fmt::format("cannot create '{}': {}", directory_.string(), error.message()), error);
  Hasher hasher;
  for (const auto& [name, value] : settings) hasher.update(name).update(value);
  identity_ = hasher.hex();
  lock_ = lock_directory(directory_);
  try {  // the lock is not the destructor's yet
    const std::filesystem::path file = directory_ / "settings.json";
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
  if (!holds_results(directory_)) remove();
  ::close(lock_);
}

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

std::uint64_t WorkDirectory::bytes() const {
  std::uint64_t total = 0;
  for (const auto& entry : std::filesystem::directory_iterator(directory_)) {
    if (entry.is_regular_file()) total += entry.file_size();
  }
  return total;
}

void WorkDirectory::remove() {
  std::error_code ignored;  // the output is safe; leftovers are an untidiness, not a failure
  std::filesystem::remove_all(directory_, ignored);
}

void WorkDirectory::remove_left(const std::filesystem::path& directory) {
  std::error_code ignored;  // an untidiness that stays is no failure
  if (!std::filesystem::is_directory(std::filesystem::symlink_status(directory, ignored))) return;
  const int lock = ::open((directory / "lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (lock < 0) return;
  if (::flock(lock, LOCK_EX | LOCK_NB) == 0) {
    std::vector<std::filesystem::path> ours;
    for (std::filesystem::directory_iterator entry(directory, ignored), end; !ignored && entry != end;
         entry.increment(ignored))
      if (is_ours(entry->path())) ours.push_back(entry->path());
    for (const std::filesystem::path& file : ours) std::filesystem::remove(file, ignored);
    std::filesystem::remove(directory / "lock", ignored);
    std::filesystem::remove(directory, ignored);  // unless there is something else in it
  }
  ::close(lock);
}

}  // namespace nibble::calib
