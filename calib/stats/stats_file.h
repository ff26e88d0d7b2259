#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "calib/stats/layer_stats.h"
#include "calib/stats/run_settings.h"

namespace nibble::calib {

/// What a calibration file says of a layer without its statistics.
struct LayerInfo {
  std::string module;
  std::size_t out = 0, in = 0;
  std::uint64_t tokens = 0;  ///< rows of its input that were summed: all, or those that chose an expert
  std::string input_of;      ///< the layer before this one that holds the same sum_xxt, or empty
  StatisticSet holds = {};   ///< what the run collected; of the head without the output Hessian
};

/// A calibration file of anybody, read lazily: open() looks at names, shapes and settings, read() at one layer.
///
/// Refused with FormatError, naming file and object: another format or version; soft and external links; external
/// storage, virtual, chunked or filtered data sets; names with '/' or "." and ".."; data sets that are missing, of
/// another type or shape, or reach beyond the file (before anything is allocated); counts that disagree with the
/// settings; NaN, infinities, negative squares.
/// Threads: const calls may run concurrently; they take turns (HDF5).
class StatsFile {
 public:
  static std::shared_ptr<const StatsFile> open(const std::filesystem::path& path);
  ~StatsFile();

  const std::filesystem::path& path() const;
  const RunSettings& settings() const;
  const std::vector<LayerInfo>& layers() const;  ///< in the order they were written
  bool contains(const std::string& module) const;
  /// Throws FormatError when the file lacks the layer (with the nearest name).
  const LayerInfo& layer(const std::string& module) const;

  /// The statistics `what` of a layer and its counts. Throws FormatError as above; InvalidArgument when the run did
  /// not collect them.
  LayerStats read(const std::string& module, const StatisticSet& what) const;
  LayerStats read(const std::string& module) const { return read(module, layer(module).holds); }

  /// effective_tokens() of a layer's guided Hessian (derived.h), without reading that. Throws as read().
  double effective_tokens(const std::string& module) const;

 private:
  struct State;
  explicit StatsFile(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace nibble::calib
