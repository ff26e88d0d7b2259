#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "calib/collect/shard.h"
#include "calib/stats/layer_stats.h"

namespace nibble::calib {

/// The two walks over the network; a layer's statistics come in a part from each.
enum class Pass { kForward, kBackward };

/// Bytes of the files that lie in a directory itself; 0 where it is not there.
std::uint64_t bytes_of_files(const std::filesystem::path& directory);

/// The directory OUTPUT.work beside the output: the settings of the run, its finished shards and its scratch files.
/// One process at a time works in it (a lock, which the kernel drops with the process).
class WorkDirectory {
 public:
  /// Makes the directory, or takes up the one that a run with the same settings left. Throws InvalidArgument naming
  /// every setting that differs (once anything was finished), when another process is at work there, or when it is not
  /// left from a run; FormatError when it cannot be made.
  WorkDirectory(std::filesystem::path directory, std::vector<std::pair<std::string, std::string>> settings);
  ~WorkDirectory();  ///< as remove(), if nothing was finished
  WorkDirectory(const WorkDirectory&) = delete;
  WorkDirectory& operator=(const WorkDirectory&) = delete;

  const std::filesystem::path& path() const { return directory_; }
  /// Where the file of a calibration belongs that this one needs first; it is a result of this one.
  std::filesystem::path metric_path() const;
  /// Hash of the settings: what shards and scratch files of this run are marked with.
  const std::string& identity() const { return identity_; }

  bool has(std::size_t layer, Pass pass) const;
  void store(std::size_t layer, Pass pass, const LayerStats& stats) const;
  /// Throws FormatError if the shard is damaged or not of a layer like `expected`.
  LayerStats load(std::size_t layer, Pass pass, const LayerStats& expected) const;

  /// Bytes of what is there already.
  std::uint64_t bytes() const;
  /// Deletes the files of the run, and the directory if there are no others: the output is complete.
  void remove();
  /// Deletes what a run that was killed after its last step left at `directory`: the files of a work directory, and it
  /// if there were no others. Leaves it alone while a process works in it, and where it is not left from a run; nothing
  /// there is no error.
  static void remove_left(const std::filesystem::path& directory);

 private:
  std::filesystem::path shard_path(std::size_t layer, Pass pass) const;
  std::filesystem::path directory_;
  std::string identity_;
  int lock_ = -1;  // -1 once removed
};

}  // namespace nibble::calib
