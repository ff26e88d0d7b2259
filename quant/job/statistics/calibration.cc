#include "quant/job/statistics/calibration.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "core/error.h"
#include "core/files/hash.h"
#include "core/machine/thread_pool.h"
#include "core/text/json.h"
#include "model/checkpoint/mapped_file.h"
#include "quant/job/statistics/hessian_choice.h"
#include "quant/recipe/recipe_keys.h"

namespace nibble::quant {
namespace {

using calib::LayerStats;
using calib::StatisticSet;

struct Need {
  std::string_view key;
  StatisticSet what;
};

std::vector<Need> needs_of(const TensorSettings& settings) {
  std::vector<Need> needs;
  switch (settings.weighting) {
    case Weighting::kFisher:
      needs.push_back({"weighting", {.fisher = true}});
      break;
    case Weighting::kSecondMoment:
    case Weighting::kMagnitude:
      needs.push_back({"weighting", {.activations = true}});
      break;
    case Weighting::kHessian:  // the solver's
    case Weighting::kNone:
      break;
  }
  if (settings.outliers_sensitive > 0.0) needs.push_back({"outliers_sensitive", {.fisher = true}});
  if (settings.shifting) needs.push_back({"shifting", {.activations = true}});
  if (settings.search == ScaleSearch::kHessian) needs.push_back({"search", hessian_statistics(settings)});
  if (settings.solver != Solver::kNearest) needs.push_back({"hessian", hessian_statistics(settings)});
  if (settings.output_hessian) needs.push_back({"output_hessian", {.output_hessian = true}});
  return needs;
}

std::string content_hash(const std::filesystem::path& path) {
  constexpr std::size_t kHashedAtATime = std::size_t{1} << 26;  // for each thread
  const model::MappedFile file(path);
  const std::span<const std::byte> bytes = file.bytes();
  std::vector<std::string> hashes((bytes.size() + kHashedAtATime - 1) / kHashedAtATime);
  parallel_for(hashes.size(), [&](std::size_t i) {
    hashes[i] =
        file.hash(bytes.subspan(i * kHashedAtATime, std::min(kHashedAtATime, bytes.size() - i * kHashedAtATime)));
  });
  Hasher hasher;
  for (const std::string& hash : hashes) hasher.update(hash);
  return hasher.hex();
}

}  // namespace

std::vector<StatisticSet> statistics_needed(const TensorSettings& settings) {
  std::vector<StatisticSet> all;
  for (const Need& need : needs_of(settings)) all.push_back(need.what);
  return all;
}

bool takes_what_is_collected_on_the_way(const TensorSettings& settings) {
  const std::vector<Need> needs = needs_of(settings);
  return settings.drift_correction > 0.0 || std::any_of(needs.begin(), needs.end(), [](const Need& need) {
           return kCollectedOnTheWay.includes(need.what);
         });
}

Calibration::Calibration(std::span<const std::filesystem::path> files, const model::Checkpoint& checkpoint,
                         const StatisticSet& limit)
    : model_(checkpoint.directory().string()), limit_(limit) {
  for (const auto& path : files) {
    files_.push_back(calib::StatsFile::open(path));
    const std::string& made_from = files_.back()->settings().model_hash;
    NIBBLE_REQUIRE(made_from == checkpoint.fingerprint(), InvalidArgument,
                   "calibration '{}' was made from another model (fingerprint {}) than '{}' ({}); calibrate this one",
                   path.string(), made_from, model_, checkpoint.fingerprint());
  }
  for (const auto& file : files_)
    NIBBLE_REQUIRE(calib::is_behind_bos(file->settings()) == calib::is_behind_bos(files_[0]->settings()),
                   InvalidArgument,
                   "calibration: of '{}' and '{}' windows begin with a BOS in one; collect both with --bos, or neither",
                   files_[0]->path().string(), file->path().string());
  // Both Hessians of a layer may come from different files, but not weigh tokens differently.
  const calib::StatsFile* weighed = nullptr;
  for (const auto& file : files_) {
    const calib::RunSettings& run = file->settings();
    if (!run.collected.is_guided()) continue;
    if (weighed == nullptr) weighed = file.get();
    NIBBLE_REQUIRE(
        run.guide == weighed->settings().guide, InvalidArgument,
        "calibration: '{}' has a guide that is {} and '{}' one that is {}; collect both with the same --guide",
        weighed->path().string(), calib::to_text(weighed->settings().guide), file->path().string(),
        calib::to_text(run.guide));
  }
}

void Calibration::require_alike(const CalibrationText& text) const {
  const auto behind = [](bool bos) { return bos ? "begin with a BOS" : "do not begin with a BOS"; };
  for (const auto& file : files_)
    NIBBLE_REQUIRE(calib::is_behind_bos(file->settings()) == text.behind_bos, InvalidArgument,
                   "calibration: windows of '{}' {}, those of the text {}; give --bos to both or to neither",
                   file->path().string(), behind(!text.behind_bos), behind(text.behind_bos));
}

const calib::StatsFile* Calibration::find(const std::string& layer, const StatisticSet& what) const {
  if (!limit_.includes(what)) return nullptr;
  const auto found = std::find_if(files_.begin(), files_.end(), [&](const auto& file) {
    return file->contains(layer) && file->layer(layer).holds.includes(what);
  });
  return found == files_.end() ? nullptr : found->get();
}

Calibration Calibration::with(LiveStatistics live) const {
  Calibration both = *this;
  both.live_ = std::move(live);
  return both;
}

const LayerStats* Calibration::live(const std::string& layer, const StatisticSet& what) const {
  const auto found = live_.layers.find(layer);
  return found != live_.layers.end() && found->second->holds().includes(what) ? found->second.get() : nullptr;
}

bool Calibration::holds(const std::string& layer, const StatisticSet& what) const {
  return live(layer, what) != nullptr || find(layer, what) != nullptr;
}

std::uint64_t Calibration::tokens(const std::string& layer, const StatisticSet& what) const {
  if (const LayerStats* newer = live(layer, what)) return newer->tokens;
  const calib::StatsFile* file = find(layer, what);
  NIBBLE_REQUIRE(file != nullptr, InvalidArgument, "no calibration file holds the statistics {} of layer '{}'",
                 calib::to_text(what), layer);
  return file->layer(layer).tokens;
}

LayerStats Calibration::read(const QuantizeItem& item, const StatisticSet& what) const {
  if (const LayerStats* newer = live(item.layer.module, what)) {
    NIBBLE_REQUIRE(newer->in == item.source->cols(), FormatError, "{}: statistics of {} inputs for a weight of {}",
                   item.identity.name, newer->in, item.source->cols());
    return *newer;
  }
  const calib::StatsFile* file = find(item.layer.module, what);
  NIBBLE_REQUIRE(file != nullptr, InvalidArgument, "{}: no calibration file holds the statistics {} of layer '{}'",
                 item.identity.name, calib::to_text(what), item.layer.module);
  const calib::LayerInfo& info = file->layer(item.layer.module);
  NIBBLE_REQUIRE(info.out == item.layer.out && info.in == item.source->cols(), FormatError,
                 "{}: layer '{}' is ({}, {}), but the model's is ({}, {})", file->path().string(), item.layer.module,
                 info.out, info.in, item.layer.out, item.source->cols());
  return file->read(item.layer.module, what);
}

void Calibration::require_for(const QuantizeItem& item) const {
  std::vector<Need> needs = needs_of(item.settings);
  std::erase_if(needs, [&](const Need& need) {
    return item.settings.sequential && item.identity.block_linear && kCollectedOnTheWay.includes(need.what);
  });
  StatisticSet missing;  // all of it, for one command
  for (const Need& need : needs)
    if (!holds(item.layer.module, need.what)) missing = calib::either(missing, need.what);
  for (const Need& need : needs) {
    const auto value = find_recipe_key(need.key).print(item.settings);
    require(item, fmt::format("{}: {}", need.key, value.is_string() ? value.get<std::string>() : value.dump()),
            need.what, missing);
  }
}

void Calibration::require(const QuantizeItem& item, std::string_view purpose, const StatisticSet& what) const {
  require(item, purpose, what, what);
}

void Calibration::require(const QuantizeItem& item, std::string_view purpose, const StatisticSet& what,
                          const StatisticSet& missing) const {
  if (holds(item.layer.module, what)) return;
  const bool head = item.layer.role == model::Role::kHead;
  NIBBLE_REQUIRE(item.identity.block_linear || head, InvalidArgument,
                 "{}: {} needs the statistic '{}', which there is of linear layers of the blocks and of the head, but "
                 "not of {}: by a rule say solver: nearest and weighting: none, and where the defaults have others, "
                 "search: none and outliers_sensitive: 0",
                 item.identity.name, purpose, calib::to_text(what),
                 item.layer.role == model::Role::kEmbedding ? "an embedding that is only looked up" : "this matrix");
  std::vector<std::string> names;
  std::string guide;  // as the files that are there have it, where it is not the default
  for (const auto& file : files_) {
    names.push_back(fmt::format("'{}'", file->path().string()));
    const calib::RunSettings& run = file->settings();
    if (missing.is_guided() && run.collected.is_guided() && run.guide != calib::default_guide(missing))
      guide = fmt::format(" --guide {}", calib::to_text(run.guide));
  }
  throw InvalidArgument(fmt::format(
      "{}: {} needs the statistic '{}' of layer '{}', which {}; collect it with\n"
      "  nibble calibrate {} --text FILE --collect {}{}{} -o {}\nand pass --calib {}{}",
      item.identity.name, purpose, calib::to_text(what), item.layer.module,
      names.empty() ? "only calibration gives (no --calib was given)"
                    : fmt::format("is not in {}", fmt::join(names, ", ")),
      model_, calib::to_text(missing), guide, head ? " --head" : "", names.empty() ? "calib.h5" : "more.h5",
      names.empty() ? "calib.h5" : "more.h5 too",
      item.settings.sequential && item.identity.block_linear ? ", beside the --text of sequential: true" : ""));
}

calib::FisherFlavour Calibration::flavour(const std::string& layer, const StatisticSet& what) const {
  return find(layer, what)->settings().flavour;
}

std::uint64_t Calibration::window_tokens(const std::string& layer, const StatisticSet& what) const {
  return find(layer, what)->settings().window_tokens;
}

std::vector<std::string> Calibration::fingerprints() const {
  std::vector<std::string> hashes;
  for (const auto& file : files_) {
    Hasher hasher;
    for (const auto& [name, value] : calib::describe(file->settings())) hasher.update(name).update(value);
    hashes.push_back(hasher.hex());
  }
  return hashes;
}

std::vector<std::string> Calibration::content_hashes() const {
  std::vector<std::string> hashes;
  for (const auto& file : files_) hashes.push_back(content_hash(file->path()));
  return hashes;
}

}  // namespace nibble::quant
