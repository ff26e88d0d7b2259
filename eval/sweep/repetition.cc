#include "eval/sweep/repetition.h"

#include <fmt/format.h>
#include <unistd.h>

#include <utility>

#include "core/error.h"

namespace nibble::eval {
namespace {

/// A directory that goes with this, whatever it holds.
class ScratchDirectory {
 public:
  explicit ScratchDirectory(std::filesystem::path path) : path_(std::move(path)) {}
  ~ScratchDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace

SweepRecord repeat_record(const SweepRecord& record, SweepOptions options) {
  const SweepPlan plan = plan_repetition(record);
  const ScratchDirectory scratch(std::filesystem::temp_directory_path() / fmt::format("nibble-repeat-{}", ::getpid()));
  if (options.output.empty()) options.output = scratch.path();
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
