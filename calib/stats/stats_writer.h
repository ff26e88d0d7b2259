#pragma once

#include <filesystem>
#include <memory>

#include "calib/stats/layer_stats.h"
#include "calib/stats/run_settings.h"
#include "core/files/output_file.h"

namespace nibble::calib {

/// Writes a calibration file (docs/formats.md, calib.h5), a layer at a time, to NAME.partial; commit() flushes and
/// renames. Nothing in the file depends on when or where it is written: equal calls give equal bytes. Every data set
/// carries its `meaning` and `unit` as attributes, for readers in other languages.
class StatsWriter {
 public:
  /// Throws as OutputFile, whose Replace it takes; FormatError when the file cannot be created.
  StatsWriter(const std::filesystem::path& path, const RunSettings& settings, Replace replace = Replace::kYes);
  ~StatsWriter();  ///< without commit(), the partial file is removed
  StatsWriter(const StatsWriter&) = delete;
  StatsWriter& operator=(const StatsWriter&) = delete;

  /// Adds a layer. With `input_of` set its sum_xxt, which may be absent, becomes a hard link to that layer's, which
  /// must have been added. Throws InvalidArgument unless it holds exactly what the settings say is collected, for as
  /// many windows and tokens, with values as check_layer() wants them; FormatError when the disk says no.
  void add(const LayerStats& layer);
  /// Throws as OutputFile::commit().
  void commit();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace nibble::calib
