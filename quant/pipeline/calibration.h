#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "calib/stats/stats_file.h"
#include "model/checkpoint/checkpoint.h"
#include "quant/pipeline/plan.h"

namespace nibble::quant {

/// The calibration files of one job, read a layer at a time. Statistics that are used together come from one file, the
/// first that holds all of them: so Fisher sensitivities and mean inputs may come from different texts.
///
/// Threads: const calls may run concurrently.
class Calibration {
 public:
  /// No files: holds nothing.
  Calibration() = default;
  /// Throws FormatError (files), InvalidArgument when a file was made from another model than `checkpoint`, naming
  /// both.
  Calibration(std::span<const std::filesystem::path> files, const model::Checkpoint& checkpoint);

  /// Whether a file holds all of `what` for a layer.
  bool holds(const std::string& layer, const calib::StatisticSet& what) const;
  /// The statistics of the weight that `item` is: of its rows only, where it is a part of a layer. Throws
  /// InvalidArgument when no file holds them, saying which command collects them; FormatError for a layer of another
  /// shape.
  calib::LayerStats read(const QuantizeItem& item, const calib::StatisticSet& what) const;
  /// Refuses, before any work, an item whose settings need statistics that no file holds: InvalidArgument naming
  /// tensor, setting, statistic and layer, with the command that collects them.
  void require_for(const QuantizeItem& item) const;
  /// One for each file: its settings (model, text, windows, seeds, …), hashed.
  std::vector<std::string> fingerprints() const;

 private:
  const calib::StatsFile* find(const std::string& layer, const calib::StatisticSet& what) const;

  std::string model_;
  std::vector<std::shared_ptr<const calib::StatsFile>> files_;
};

}  // namespace nibble::quant
