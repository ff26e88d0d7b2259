#include "eval/sweep/repetition.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/files/file_lock.h"

namespace nibble::eval {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kName = "nibble-repeat-";

// What killed runs of this user left: nobody holds its lock.
void remove_left(const fs::path& parent) {
  std::error_code error;
  std::vector<fs::path> left;
  for (fs::directory_iterator entry(parent, error), end; !error && entry != end; entry.increment(error)) {
    struct stat found = {};
    const bool named = entry->path().filename().string().starts_with(kName);
    if (named && ::lstat(entry->path().c_str(), &found) == 0 && S_ISDIR(found.st_mode) && found.st_uid == ::geteuid())
      left.push_back(entry->path());
  }
  for (const fs::path& path : left) try {
      const DirectoryLock lock(path, path);
      fs::remove_all(path, error);
    } catch (const FormatError&) {  // somebody's at work, or gone meanwhile
    }
}

/// A directory for temporary files that goes with this, whatever it holds; and those of killed runs go first.
class ScratchDirectory {
 public:
  ScratchDirectory() {
    const fs::path parent = fs::temp_directory_path();
    remove_left(parent);
    std::string name = (parent / (std::string(kName) + "XXXXXX")).string();
    if (::mkdtemp(name.data()) == nullptr) throw errno_error(fmt::format("cannot create '{}'", name), errno);
    path_ = name;
    lock_.emplace(path_, path_);
  }
  ~ScratchDirectory() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
  std::optional<DirectoryLock> lock_;
};

}  // namespace

SweepRecord repeat_record(const SweepRecord& record, SweepOptions options) {
  const SweepPlan plan = plan_repetition(record);
  std::optional<ScratchDirectory> scratch;
  if (options.output.empty()) options.output = scratch.emplace().path();
  SweepRecord again;
  const auto finished = std::move(options.finished);
  options.finished = [&](const SweepRecord& made) {
    again = made;
    if (finished) finished(made);
  };
  run_sweep(plan, options);
  NIBBLE_REQUIRE(!again.id.empty(), InvalidArgument,
                 "--repeat: '{}' has a record of this cell already; choose another -o", options.output.string());
  return again;
}

}  // namespace nibble::eval
