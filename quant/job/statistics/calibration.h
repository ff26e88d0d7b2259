#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "calib/stats/stats_file.h"
#include "model/checkpoint/checkpoint.h"
#include "quant/job/plan/plan.h"
#include "quant/job/statistics/calibration_text.h"

namespace nibble::quant {

constexpr calib::StatisticSet kAllStatistics{
    .activations = true, .fisher = true, .hessian = true, .guided_hessian = true, .output_hessian = true};

/// What `sequential` collects while quantizing: mean inputs, magnitudes and Hessians.
constexpr calib::StatisticSet kCollectedOnTheWay{.activations = true, .hessian = true};

/// Whether some of that decides anything of a weight with these settings, input_scaling aside.
bool takes_what_is_collected_on_the_way(const TensorSettings& settings);

/// What a weight with these settings cannot be quantized without: for each setting that asks for some. (Of a whole
/// recipe: recipe_needs.h.)
std::vector<calib::StatisticSet> statistics_needed(const TensorSettings& settings);

/// Statistics of layers that were collected a moment ago, by module name: they take precedence over files. Layers that
/// share an input share an entry.
struct LiveStatistics {
  std::map<std::string, std::shared_ptr<const calib::LayerStats>> layers;
};

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
  /// Statistics beyond `limit` count as absent: what a quantization depends on is then the same whatever else the file
  /// has.
  Calibration(std::span<const std::filesystem::path> files, const model::Checkpoint& checkpoint,
              const calib::StatisticSet& limit = kAllStatistics);

  /// Refuses files of windows that begin with a BOS beside a text whose windows do not, and the other way round: to
  /// some models they are worlds apart. Throws InvalidArgument.
  void require_alike(const CalibrationText& text) const;

  /// The same files under statistics that are newer.
  Calibration with(LiveStatistics live) const;

  /// Whether a file holds all of `what` for a layer.
  bool holds(const std::string& layer, const calib::StatisticSet& what) const;
  /// The statistics of the weight that `item` is. Throws
  /// InvalidArgument when no file holds them, saying which command collects them; FormatError for a layer of another
  /// shape.
  calib::LayerStats read(const QuantizeItem& item, const calib::StatisticSet& what) const;
  /// Rows of its input that a layer's statistics `what` were summed over. Requires holds().
  std::uint64_t tokens(const std::string& layer, const calib::StatisticSet& what) const;
  /// Refuses, before any work, an item whose settings need statistics that neither a file holds nor, with `sequential`,
  /// the run itself will collect (mean inputs and Hessians): InvalidArgument naming
  /// tensor, setting, statistic and layer, with one command that collects all that the item lacks.
  void require_for(const QuantizeItem& item) const;
  /// The same for the statistics `what`, which something else needs: `purpose` begins the message. What nothing
  /// collects, statistics of an embedding that is only looked up, is refused as such.
  void require(const QuantizeItem& item, std::string_view purpose, const calib::StatisticSet& what) const;
  /// How the gradients of a layer were squared and summed in the file that read() takes `what` from. Requires holds().
  calib::FisherFlavour flavour(const std::string& layer, const calib::StatisticSet& what) const;
  /// Tokens of a window in that file. Requires holds().
  std::uint64_t window_tokens(const std::string& layer, const calib::StatisticSet& what) const;
  /// One for each file: its settings (model, text, windows, seeds, …), hashed.
  std::vector<std::string> fingerprints() const;
  /// One for each file: all its bytes, hashed. Files of the same settings may differ in last bits, as they were summed
  /// in one run or extended. Cost: reading them, on all threads; a quantization reads them too. Throws FormatError.
  std::vector<std::string> content_hashes() const;

 private:
  /// `missing`: what the command in the message collects.
  void require(const QuantizeItem& item, std::string_view purpose, const calib::StatisticSet& what,
               const calib::StatisticSet& missing) const;
  const calib::StatsFile* find(const std::string& layer, const calib::StatisticSet& what) const;

  // Live statistics of `layer` if they include `what`, else null.
  const calib::LayerStats* live(const std::string& layer, const calib::StatisticSet& what) const;

  std::string model_;
  LiveStatistics live_;
  calib::StatisticSet limit_ = kAllStatistics;
  std::vector<std::shared_ptr<const calib::StatsFile>> files_;
};

}  // namespace nibble::quant
