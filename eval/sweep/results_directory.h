#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "eval/sweep/claims.h"
#include "eval/sweep/record.h"
#include "eval/sweep/sweep_plan.h"

namespace nibble::eval {

/// Throws InvalidArgument for a directory that holds a checkpoint: records or a cache would lie among its files, and
/// `--overwrite` would not replace it any more.
void require_no_checkpoint(const std::filesystem::path& directory);

/// Where the records of sweeps gather. Several processes, of one sweep or of several, may work in it at once.
///
///   ID.json               records
///   .sweep/claims         who works at what (claims.h)
///   .sweep/plan-*.json    the cells of each sweep file that was started here, shard by shard, for those who watch
///   .sweep/scratch/JOB    models in work
///   .sweep/cache          shared work, unless it is kept elsewhere
class ResultsDirectory {
 public:
  /// Makes it if need be. Throws FormatError, and as require_no_checkpoint().
  explicit ResultsDirectory(std::filesystem::path directory);

  const std::filesystem::path& path() const { return directory_; }
  const Claims& claims() const { return claims_; }
  std::filesystem::path record_file(const std::string& id) const;
  std::filesystem::path scratch(const std::string& job) const;
  std::filesystem::path default_cache() const;

  /// The record of a cell, if one is there. A damaged one counts as none.
  std::optional<SweepRecord> find(const std::string& id) const;
  /// Writes ID.json: complete or not at all, and flushed. Throws FormatError.
  void write(const SweepRecord& record) const;

  /// Says which cells of a sweep are to be here, beside those of its other shards, and in place of what its file had
  /// before. Throws FormatError.
  void announce(const SweepPlan& plan, const Shard& shard = {}) const;
  struct AnnouncedCell {
    std::string id, job, name;
  };
  /// The cells of all sweeps announced here, each once, by the name of the sweep that was announced last.
  std::vector<AnnouncedCell> announced() const;

  /// Removes what killed runs left of models in work that nobody works at.
  void tidy() const;

 private:
  std::vector<std::filesystem::path> plan_files() const;  // the newest first
  static std::vector<AnnouncedCell> cells_of(const std::filesystem::path& plan);

  std::filesystem::path directory_;
  Claims claims_;
};

}  // namespace nibble::eval
