#include "eval/sweep/repetition.h"

#include <fmt/format.h>
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

// nibble-repeat-XXXXXX, of mkdtemp(), with a file in it that its process has locked.
constexpr std::string_view kName = "nibble-repeat-", kRandom = "XXXXXX", kMark = ".in-use-by-nibble";

bool is_scratch(const fs::path& path) {
  const std::string name = path.filename().string();
  std::error_code error;
  return name.starts_with(kName) && name.size() == kName.size() + kRandom.size() &&
         fs::is_directory(fs::symlink_status(path, error)) && fs::is_regular_file(path / kMark, error);
}

// What killed runs left: nobody holds its lock.
void remove_left(const fs::path& parent) {
  std::error_code error;
  std::vector<fs::path> left;
  for (fs::directory_iterator entry(parent, error), end; !error && entry != end; entry.increment(error))
    if (is_scratch(entry->path())) left.push_back(entry->path());
  for (const fs::path& path : left) try {
      const std::optional<int> mark = lock_file(path / kMark);
      if (mark) fs::remove_all(path, error);
      if (mark) ::close(*mark);
    } catch (const FormatError&) {  // another user's, or gone meanwhile
    }
}

/// A directory for temporary files that goes with this, whatever it holds; and those of killed runs go first.
class ScratchDirectory {
 public:
  ScratchDirectory() {
    const fs::path parent = fs::temp_directory_path();
    remove_left(parent);
    for (int attempt = 0; attempt < 8 && mark_ < 0; ++attempt) {  // another process may take a mark for a left one
      std::string name = (parent / (std::string(kName) + std::string(kRandom))).string();
      if (::mkdtemp(name.data()) == nullptr) throw errno_error(fmt::format("cannot create '{}'", name), errno);
      path_ = name;
      mark_ = lock_file(path_ / kMark).value_or(-1);
    }
    NIBBLE_REQUIRE(mark_ >= 0, FormatError, "cannot lock '{}'", (path_ / kMark).string());
  }
  ~ScratchDirectory() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
    ::close(mark_);
  }
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
  int mark_ = -1;
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
