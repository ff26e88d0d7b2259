#include "eval/sweep/cache.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

#include "core/error.h"
#include "core/files/output_file.h"
#include "core/files/remove_directory.h"
#include "eval/sweep/record.h"

namespace nibble::eval {
namespace {

namespace fs = std::filesystem;

constexpr const char* kComplete = "complete";  // an empty file: the entry's last use is its time
constexpr auto kPatience = std::chrono::milliseconds(100);

void make_directories(const fs::path& directory) {
  std::error_code error;
  fs::create_directories(directory, error);
  if (error) throw FormatError(fmt::format("cannot create '{}': {}", directory.string(), error.message()), error);
}

// Errors count as nothing: another process may be deleting.
std::uint64_t bytes_below(const fs::path& directory) {
  std::uint64_t bytes = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(directory, error), end; !error && entry != end; entry.increment(error)) {
    std::error_code ignored;
    const auto size = entry->is_regular_file(ignored) ? entry->file_size(ignored) : 0;
    if (!ignored) bytes += size;
  }
  return bytes;
}

bool is_key(std::string_view name) {
  const std::size_t dash = std::min(name.find('-'), name.size());
  return dash > 0 && dash < name.size() && is_id(name.substr(dash + 1)) &&
         std::all_of(name.begin(), name.begin() + static_cast<std::ptrdiff_t>(dash),
                     [](char c) { return c >= 'a' && c <= 'z'; });
}

fs::path prepared(fs::path directory) {
  make_directories(directory);
  return directory;
}

}  // namespace

Cache::Cache(fs::path directory, std::uint64_t limit_bytes)
    : directory_(prepared(std::move(directory))), limit_(limit_bytes), claims_(directory_ / "claims") {}

bool Cache::has(const std::string& key) const {
  std::error_code error;
  return fs::exists(directory_ / key / kComplete, error);
}

Cache::Entry Cache::get(const std::string& key, const std::function<void(const fs::path&)>& make,
                        const std::function<void()>& waiting) {
  NIBBLE_REQUIRE(is_key(key), InvalidArgument, "cache: expected a key such as calibration-ID, got '{}'", key);
  while (true) {
    // Shared first: several users of a complete entry are not in each other's way.
    if (auto claim = claims_.try_claim(key, Claims::Kind::kShared); claim && has(key)) {
      std::error_code ignored;
      fs::last_write_time(directory_ / key / kComplete, fs::file_time_type::clock::now(), ignored);
      return {directory_ / key, std::move(*claim)};
    }
    if (auto claim = claims_.try_claim(key); claim && !has(key)) {
      make_directories(directory_ / key);
      make(directory_ / key);
      OutputFile(directory_ / key / kComplete).commit();
      claim->share();
      evict();
      return {directory_ / key, std::move(*claim)};
    }
    if (waiting) waiting();
    std::this_thread::sleep_for(kPatience);
  }
}

void Cache::evict() const {
  struct Candidate {
    std::string key;
    fs::file_time_type last_use;
    std::uint64_t bytes = 0;
  };
  std::vector<Candidate> candidates;
  std::vector<std::string> half_removed;  // by killed runs
  std::uint64_t total = 0;
  std::error_code error;
  for (fs::directory_iterator entry(directory_, error), end; !error && entry != end; entry.increment(error)) {
    std::error_code missing;
    const std::string key = entry->path().filename().string();
    if (const auto before = name_before_removal(key); before && is_key(*before)) half_removed.push_back(key);
    if (!is_key(key) || entry->is_symlink(missing) || !entry->is_directory(missing)) continue;
    auto last_use = fs::last_write_time(entry->path() / kComplete, missing);
    if (missing) last_use = fs::file_time_type::min();  // left by a killed run
    candidates.push_back({key, last_use, bytes_below(entry->path())});
    total += candidates.back().bytes;
  }
  for (const std::string& name : half_removed)
    if (const auto claim = claims_.try_claim(*name_before_removal(name))) fs::remove_all(directory_ / name, error);
  std::sort(candidates.begin(), candidates.end(),
            [](const Candidate& a, const Candidate& b) { return a.last_use < b.last_use; });
  for (const Candidate& candidate : candidates) {
    if (total <= limit_) return;
    const auto claim = claims_.try_claim(candidate.key);
    if (!claim) continue;  // in use
    remove_directory(directory_ / candidate.key);
    total -= candidate.bytes;
  }
}

}  // namespace nibble::eval
