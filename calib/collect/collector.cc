#include "calib/collect/collector.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "calib/collect/block_sums.h"
#include "calib/collect/head_pass.h"
#include "calib/collect/residual_store.h"
#include "calib/collect/token_metric.h"
#include "calib/collect/work_directory.h"
#include "calib/stats/derived.h"
#include "calib/stats/stats_writer.h"
#include "core/error.h"
#include "core/files/file_lock.h"
#include "core/files/hash.h"
#include "core/machine/program_identity.h"
#include "core/matrix/gemm.h"

namespace nibble::calib {
namespace {

Team& team_of(const CalibrationJob& job) {
  static Team alone;
  return job.team != nullptr ? *job.team : alone;
}

/// The windows [first, first + count) that this member of the team runs.
struct Share {
  std::size_t first = 0, count = 0;
};
Share share_of(std::size_t windows, const Team& team) {
  const std::size_t begin = windows * team.rank() / team.size();
  return {begin, windows * (team.rank() + 1) / team.size() - begin};
}

std::span<const TokenId> first_windows(const CalibrationJob& job, std::size_t windows) {
  return job.tokens.first(std::min(job.tokens.size(), windows * job.settings.window_tokens));
}

// Of an expert that no token chose, zeros: where there is no mean, nothing is taken off.
std::vector<double> mean_or_zeros(const LayerStats& layer) {
  return layer.tokens > 0 ? mean_input(layer) : std::vector<double>(layer.in);
}

InputMeans means_of_file(const CalibrationJob& job, const std::vector<CollectedLayer>& layers) {
  NIBBLE_REQUIRE(job.means != nullptr, InvalidArgument, "calibration: no file of means was given");
  const std::string& model = job.means->settings().model_hash;
  NIBBLE_REQUIRE(model == job.settings.model_hash, InvalidArgument,
                 "calibration: the means of '{}' are of another model ('{}' against '{}')", job.means->path().string(),
                 model, job.settings.model_hash);
  InputMeans means;
  for (const CollectedLayer& layer : layers)
    means.emplace(layer.module, mean_or_zeros(job.means->read(layer.module, {.activations = true})));
  return means;
}

std::string hash_of(const InputMeans& means) {
  Hasher hasher;
  for (const auto& [module, mean] : means) hasher.update(module).update(std::as_bytes(std::span(mean)));
  return hasher.hex();
}

std::string boundary_name(std::size_t block) { return fmt::format("boundary.{:04}", block); }
std::string gradient_name(std::size_t block) { return fmt::format("gradient.{:04}", block); }

std::filesystem::path work_path_of(const CalibrationJob& job, const Team& team) {
  const std::string suffix = team.rank() == 0 ? "" : fmt::format("-{}", team.rank());
  return job.output.string() + ".work" + suffix;
}

// What unfinished work, and the work of the others of a team, must agree in to go together.
std::vector<std::pair<std::string, std::string>> work_settings(const CalibrationJob& job, const RunSettings& settings) {
  auto list = describe(settings);
  list.emplace_back("processes", fmt::format("{}", team_of(job).size()));
  list.emplace_back("program", program_identity());
  list.emplace_back("metric", Hasher().update(std::as_bytes(job.metric_tokens)).hex());  // empty: the first windows
  return list;
}

// A whole number that doubles add up without rounding, over 8192 members.
double digest_of(const std::string& text) {
  return static_cast<double>(std::stoull(Hasher().update(text).hex().substr(0, 10), nullptr, 16));
}

// Each reads the model and the text for itself: a stale copy, or another processor, would go unseen into the sums.
void require_same_job(const CalibrationJob& job, const RunSettings& settings) {
  Team& team = team_of(job);
  if (team.size() == 1) return;
  const auto list = work_settings(job, settings);
  std::vector<double> own, sums;
  for (const auto& [name, value] : list) own.push_back(digest_of(value));
  sums = own;
  team.sum(sums);
  std::vector<std::string> differing;
  for (std::size_t i = 0; i < list.size(); ++i)
    if (sums[i] != own[i] * static_cast<double>(team.size())) differing.push_back(list[i].first);
  NIBBLE_REQUIRE(team.all(differing.empty()), InvalidArgument,
                 "calibration: the processes of this team do not do the same: some have another {}",
                 differing.empty() ? "job" : fmt::format("{}", fmt::join(differing, ", ")));
}

// Members of other thread counts have other limits; all walk the same groups of layers.
std::uint64_t least_of(Team& team, std::uint64_t bytes) {
  if (team.size() == 1) return bytes;
  // In two halves, of whole numbers that floats hold: a limit that is rounded would split a block that just fits.
  constexpr std::uint64_t kHalf = std::uint64_t{1} << 24;
  const std::uint64_t mine = std::min(bytes, kHalf * kHalf - 1);
  const std::uint64_t whole = mine / kHalf;
  auto high = static_cast<float>(whole);
  team.min({&high, 1});
  auto low = static_cast<float>(static_cast<std::uint64_t>(high) == whole ? mine % kHalf : kHalf - 1);
  team.min({&low, 1});
  return static_cast<std::uint64_t>(high) * kHalf + static_cast<std::uint64_t>(low);
}

/// One run over the windows of this process.
class Calibration {
 public:
  Calibration(const CalibrationJob& job, RunSettings settings, std::span<const CalibrationJob> parts)
      : job_(job),
        settings_(std::move(settings)),
        team_(team_of(job)),
        share_(share_of(settings_.windows, team_)),
        architecture_(job.model.architecture()),
        layers_(collected_layers(architecture_, settings_.head)),
        gradients_(settings_.collected.needs_gradients()),
        plan_(plan_job(job)),
        work_(work_path(), work_settings(job, settings_)),
        store_(make_store()) {
    plan_.accumulator_limit = least_of(team_, plan_.accumulator_limit);
    for (const CalibrationJob& part : parts) {
      if (std::filesystem::exists(part.output)) {
        WorkDirectory::remove_left(work_path_of(part, team_));  // of a run that was killed once it had its output
        continue;
      }
      const RunSettings of_part = complete_settings(part);
      auto work = std::make_unique<WorkDirectory>(work_path_of(part, team_), work_settings(part, of_part));
      plan_.disk_bytes += plan_calibration(architecture_, of_part, ~std::uint64_t{0}, {.has_metric = true}).disk_bytes;
      parts_.push_back({part.output, of_part, std::move(work)});
    }
  }

  // Takes away what the constructor made, where there is nothing to do.
  void abandon() {
    for (const Part& part : parts_) part.work->remove();
    work_.remove();
  }

  // The share of the whole run that this one did.
  double run() {
    std::uint64_t present = work_.bytes();
    for (const Part& part : parts_) present += part.work->bytes();
    require_disk_space(plan_, job_.output, present);
    if (job_.centre == Centre::kFile) means_ = means_of_file(job_, layers_);
    if (!complete(work_)) {
      if (settings_.guide == Guide::kWhitened) collect_metric();
      walk(done(work_, 0, blocks(), Pass::kForward));
    }
    for (const Part& part : parts_) {
      if (complete(*part.work) && !std::filesystem::exists(part.output))
        assemble(*part.work, part.settings, part.output);
      part.work->remove();
    }
    if (team_.rank() == 0) assemble(work_, settings_, job_.output);
    team_.all(true);  // nobody leaves before the output is complete
    work_.remove();
    return metric_share_ * metric_done_ + (1.0 - metric_share_) * share_done();
  }

 private:
  // First windows of the job that have an output of their own.
  struct Part {
    std::filesystem::path output;
    RunSettings settings;
    std::unique_ptr<WorkDirectory> work;
  };

  std::size_t blocks() const { return architecture_.blocks.size(); }

  std::filesystem::path work_path() const { return work_path_of(job_, team_); }

  std::unique_ptr<ResidualStore> make_store() const {
    const std::size_t length = settings_.window_tokens;
    const ResidualShape shape{share_.count * length, architecture_.hidden, plan_.windows_per_batch * length};
    if (!plan_.residuals_on_disk) return make_memory_store(shape);
    return make_file_store(shape, work_.path(), work_.identity());
  }

  // The layers of the blocks [first_block, end_block), as [begin, end) of layers_.
  std::pair<std::size_t, std::size_t> range(std::size_t first_block, std::size_t end_block) const {
    const auto at = [&](std::size_t block) {
      const auto found =
          std::find_if(layers_.begin(), layers_.end(), [&](const CollectedLayer& l) { return l.block >= block; });
      return static_cast<std::size_t>(found - layers_.begin());
    };
    return {at(first_block), at(end_block)};
  }

  std::span<const CollectedLayer> slice(std::size_t begin, std::size_t end) const {
    return {layers_.data() + begin, end - begin};
  }

  // Whether all layers of the blocks [first, end) have their shard of this pass. Rank 0 keeps the shards.
  bool done(const WorkDirectory& work, std::size_t first_block, std::size_t end_block, Pass pass) const {
    const auto [begin, end] = range(first_block, end_block);
    bool all = true;
    for (std::size_t i = begin; i < end && team_.rank() == 0; ++i) all = all && work.has(i, pass);
    return team_.all(all);
  }

  // Whether nothing is missing but the output. Not of a part where the run that did some layers did not have that part.
  bool complete(const WorkDirectory& work) const {
    return done(work, 0, blocks(), Pass::kForward) &&
           done(work, gradients_ ? 0 : blocks(), blocks() + 1, Pass::kBackward);
  }

  // What the first windows give without weights, into the working directory of the first member.
  void collect_metric() {
    CalibrationJob metric = job_;
    metric.tokens = job_.metric_tokens.empty() ? first_windows(job_, kGuideWindows) : job_.metric_tokens;
    metric.settings.collected = metric_statistics(settings_.collected);
    metric.settings.guide = Guide::kPlain;
    if (!metric.settings.collected.needs_gradients()) metric.settings.labels = Labels::kData;
    metric.settings.flavour = FisherFlavour::kSequence;
    metric.settings.head = false;
    metric.centre = Centre::kNone;
    metric.output = work_.metric_path();
    if (job_.progress)
      metric.progress = [this](const ProgressUpdate& progress) {
        say(progress.stage, metric_share_ * progress.done / progress.total);
      };
    metric_done_ = calibrate(metric);
    if (team_.rank() == 0) metric_ = StatsFile::open(metric.output);
  }

  bool holds(const std::string& name) { return team_.all(store_->holds(name)); }

  void walk(bool forward_done) {
    std::optional<std::size_t> start;
    if (forward_done && gradients_) start = backward_start();
    if (!start) forward_pass();
    if (job_.centre == Centre::kOwn) load_means();
    if (!start && (gradients_ || settings_.head)) head_pass();
    if (gradients_) backward_pass(start.value_or(blocks()));
  }

  // The lowest block whose output gradient an earlier run left, with everything that the blocks below it need.
  std::optional<std::size_t> backward_start() {
    for (std::size_t block = 0; block <= blocks(); ++block) {
      if (!holds(gradient_name(block)) || !done(work_, block, blocks() + 1, Pass::kBackward)) continue;
      bool boundaries = true;
      for (std::size_t b = 0; b < block; ++b) boundaries = boundaries && holds(boundary_name(b));
      if (boundaries) return block;
    }
    return std::nullopt;
  }

  // The highest boundary that an earlier run left, all before it done.
  std::optional<std::size_t> forward_start() {
    std::optional<std::size_t> start;
    for (std::size_t block = 0; block <= blocks() && done(work_, 0, block, Pass::kForward); ++block) {
      if (holds(boundary_name(block))) {
        start = block;
      } else if (gradients_) {
        break;  // the way back needs them all
      }
    }
    return start;
  }

  // Calls body(batch number, windows before it, the batch, one row per token).
  template <class Body>
  void for_batches(const char* stage, double weight, const Body& body) {
    const std::size_t length = settings_.window_tokens;
    std::vector<std::size_t> starts;
    for (std::size_t w = 0; w <= plan_.windows_per_batch; ++w) starts.push_back(w * length);
    for (std::size_t first = 0, batch = 0; first < share_.count; first += plan_.windows_per_batch, ++batch) {
      const std::size_t windows = std::min(plan_.windows_per_batch, share_.count - first);
      const auto tokens = job_.tokens.subspan((share_.first + first) * length, windows * length);
      body(batch, share_.first + first, model::Batch{tokens, std::span(starts).first(windows + 1)});
      report(stage, weight * static_cast<double>(tokens.size()));
    }
  }

  void report(const char* stage, double work) {
    work_done_ += work;
    say(stage, metric_share_ + (1.0 - metric_share_) * share_done());
  }

  double share_done() const {
    const auto layers = static_cast<double>(blocks());
    const double tokens = static_cast<double>(share_.count * settings_.window_tokens);
    const double head = gradients_ || settings_.head ? kHeadWork : 0.0;
    const double total = tokens * (layers * (gradients_ ? kForwardWork + kBackwardWork : kForwardWork) + head);
    return std::min(1.0, work_done_ / total);
  }

  // A share of the run, the metric's included.
  void say(std::string_view stage, double share) {
    const double tokens = static_cast<double>(share_.count * settings_.window_tokens);
    if (job_.progress) job_.progress({stage, share * tokens, tokens, "tokens"});
  }

  Matrix<float>& sized(Matrix<float>& matrix, std::size_t rows) const {
    if (matrix.rows() != rows) matrix = Matrix<float>(rows, architecture_.hidden);
    return matrix;
  }

  void forward_pass() {
    const std::optional<std::size_t> start = forward_start();
    if (!start) embed();
    const bool output_needed = gradients_ || settings_.head;
    for (std::size_t block = start.value_or(0); block < blocks(); ++block) {
      const StatisticSet what = {.activations = true, .hessian = settings_.collected.hessian};
      const std::vector<Group> groups = groups_left(block, Pass::kForward);
      for (std::size_t g = 0; g < groups.size(); ++g) {
        const Group layers = groups[g];
        const auto [begin, end] = layers;
        const bool goes_on = g + 1 == groups.size() && (output_needed || block + 1 < blocks());
        BlockSums sums(slice(begin, end), what, settings_, means_);
        const model::Hooks<float> hooks = begin == end ? model::Hooks<float>{} : sums.forward_hooks();
        for_batches("calibrate, forward", kForwardWork / static_cast<double>(groups.size()),
                    [&](std::size_t batch, std::size_t first, model::Batch input) {
                      const MatrixView<float> x = sized(x_, input.tokens.size());
                      store_->read(boundary_name(block), batch, x);
                      store_parts(first, sums, layers, Pass::kForward);
                      sums.begin_batch(first, input.starts.size() - 1);
                      job_.model.forward_block(block, input, x, {}, &hooks);
                      if (goes_on) store_->write(boundary_name(block + 1), batch, x);
                    });
        store_shards(sums, begin, end, Pass::kForward);
      }
      if (!gradients_) store_->drop(boundary_name(block));
      job_.model.release_block(block);
    }
  }

  void embed() {
    for_batches("calibrate, forward", 0.0, [&](std::size_t batch, std::size_t, model::Batch input) {
      const MatrixView<float> x = sized(x_, input.tokens.size());
      job_.model.embed(input, x);
      store_->write(boundary_name(0), batch, x);
    });
  }

  // Rank 0 reads them from its shards; a sum with the others' zeros tells them.
  void load_means() {
    const auto [begin, end] = range(0, blocks());
    for (std::size_t i = begin; i < end; ++i) {
      std::vector<double> mean(layers_[i].in);
      if (team_.rank() == 0) mean = mean_or_zeros(work_.load(i, Pass::kForward, expected(i)));
      team_.sum(mean);
      means_.emplace(layers_[i].module, std::move(mean));
    }
  }

  void head_pass() {
    const Group layers = range(blocks(), blocks() + 1);
    const auto [begin, end] = layers;
    StatisticSet what = settings_.collected;
    what.activations = true;
    BlockSums sums(slice(begin, end), what, settings_, means_);
    HeadPass head(job_.model, settings_, sums);
    for_batches("calibrate, head", kHeadWork, [&](std::size_t batch, std::size_t first, model::Batch input) {
      const MatrixView<float> x = sized(x_, input.tokens.size()), dx = sized(dx_, input.tokens.size());
      store_->read(boundary_name(blocks()), batch, x);
      store_parts(first, sums, layers, Pass::kBackward);
      head.run(first, input, x, dx);
      if (gradients_) store_->write(gradient_name(blocks()), batch, dx);
    });
    store_shards(sums, begin, end, Pass::kBackward);
    store_->drop(boundary_name(blocks()));
    job_.model.release_block(blocks());
  }

  void backward_pass(std::size_t start) {
    const StatisticSet what = {.fisher = settings_.collected.fisher,
                               .guided_hessian = settings_.collected.guided_hessian,
                               .output_hessian = settings_.collected.output_hessian};
    for (std::size_t block = start; block-- > 0;) {
      const std::vector<Group> groups = groups_left(block, Pass::kBackward);
      for (std::size_t g = 0; g < groups.size(); ++g) {
        const Group layers = groups[g];
        const auto [begin, end] = layers;
        const bool goes_on = g + 1 == groups.size() && block > 0;
        BlockSums sums(slice(begin, end), what, settings_, means_);
        for (std::size_t i = begin; i < end && settings_.guide == Guide::kWhitened; ++i)
          sums.set_metric(i - begin, metric_of(i));
        const model::Hooks<float> hooks = begin == end ? model::Hooks<float>{} : sums.backward_hooks();
        for_batches("calibrate, backward", kBackwardWork / static_cast<double>(groups.size()),
                    [&](std::size_t batch, std::size_t first, model::Batch input) {
                      const MatrixView<float> x = sized(x_, input.tokens.size()), dx = sized(dx_, input.tokens.size());
                      store_->read(boundary_name(block), batch, x);
                      store_->read(gradient_name(block + 1), batch, dx);
                      store_parts(first, sums, layers, Pass::kBackward);
                      sums.begin_batch(first, input.starts.size() - 1);
                      job_.model.backward_block(block, input, x, dx, &hooks);
                      if (goes_on) store_->write(gradient_name(block), batch, dx);
                    });
        store_shards(sums, begin, end, Pass::kBackward);
      }
      store_->drop(gradient_name(block + 1));
      store_->drop(boundary_name(block));
      job_.model.release_block(block);
    }
  }

  // The first member reads it; sums with the others' zeros tell them.
  TokenMetric metric_of(std::size_t i) {
    const CollectedLayer& layer = layers_[i];
    TokenMetric metric;
    StatisticSet what = metric_statistics(settings_.collected);
    if (!layer.input_of.empty()) what.activations = what.hessian = false;  // the other layer's inputs
    if (team_.rank() == 0) metric = token_metric(metric_->read(layer.module, what));
    if (team_.size() == 1) return metric;
    const auto told = [&](Matrix<float>& matrix, std::size_t size) {
      std::vector<double> values(1 + size * size);
      values[0] = matrix.rows() != 0 ? 1.0 : 0.0;
      std::copy(matrix.values().begin(), matrix.values().end(), values.begin() + 1);
      team_.sum(values);
      if (values[0] == 0.0) return;
      matrix = Matrix<float>(size, size);
      std::transform(values.begin() + 1, values.end(), matrix.values().begin(),
                     [](double value) { return static_cast<float>(value); });
    };
    told(metric.gradients, layer.out);
    told(metric.inputs, layer.in);
    if (metric.inputs.rows() == 0) return metric;
    metric.mean.resize(layer.in);
    team_.sum(metric.mean);
    return metric;
  }

  // The layers of a block whose shards are missing, in runs that are summed in one walk each; one empty run, for a walk
  // that sums nothing, where none is.
  using Group = std::pair<std::size_t, std::size_t>;
  std::vector<Group> groups_left(std::size_t block, Pass pass) const {
    const auto [first, last] = range(block, block + 1);
    std::vector<Group> groups;
    for (const auto& [begin, end] :
         layer_groups(slice(first, last), settings_.collected, settings_.guide, plan_.accumulator_limit)) {
      bool all = true;
      for (std::size_t i = first + begin; i < first + end && team_.rank() == 0; ++i) all = all && work_.has(i, pass);
      if (!team_.all(all)) groups.emplace_back(first + begin, first + end);
    }
    if (groups.empty()) groups.emplace_back(first, first);
    return groups;
  }

  // The shards of a part that ends with the first `windows`; before the job's own, which tell that nothing is missing.
  void store_parts(std::size_t windows, BlockSums& sums, Group layers, Pass pass) {
    const auto [begin, end] = layers;
    for (const Part& part : parts_) {
      if (part.settings.windows != windows) continue;
      sums.reduce(team_);
      for (std::size_t i = begin; i < end; ++i) part.work->store(i, pass, sums.rounded(i - begin));
    }
  }

  void store_shards(BlockSums& sums, std::size_t begin, std::size_t end, Pass pass) {
    sums.reduce(team_);
    for (std::size_t i = begin; i < end && team_.rank() == 0; ++i) work_.store(i, pass, sums.take(i - begin));
  }

  LayerStats expected(std::size_t i) const {
    return {.module = layers_[i].module, .out = layers_[i].out, .in = layers_[i].in};
  }

  // What both passes have of a layer, without what was not asked for.
  LayerStats joined(const WorkDirectory& work, std::size_t i) const {
    const bool head = layers_[i].block == blocks();
    LayerStats layer = work.load(i, head ? Pass::kBackward : Pass::kForward, expected(i));
    if (!head && gradients_) {
      LayerStats back = work.load(i, Pass::kBackward, expected(i));
      layer.fisher = std::move(back.fisher);
      layer.sum_s = back.sum_s;
      layer.sum_s2 = back.sum_s2;
      layer.sum_s_x = std::move(back.sum_s_x);
      layer.sum_s_xxt = std::move(back.sum_s_xxt);
      layer.sum_dydyt = std::move(back.sum_dydyt);
    }
    if (!settings_.collected.activations) {
      layer.sum_x = layer.sum_x2 = layer.sum_abs_x = {};
      layer.min_x = layer.max_x = {};
    }
    return layer;
  }

  void assemble(const WorkDirectory& work, const RunSettings& settings, const std::filesystem::path& output) const {
    StatsWriter writer(output, settings, Replace::kNo);  // it may have come since is_missing() looked
    for (std::size_t i = 0; i < layers_.size(); ++i) writer.add(joined(work, i));
    writer.commit();
  }

  // Work per token and block, in forward passes, for the progress report.
  static constexpr double kForwardWork = 1.0, kBackwardWork = 3.0, kHeadWork = 2.0;

  const CalibrationJob& job_;
  RunSettings settings_;
  Team& team_;
  Share share_;
  const model::Architecture& architecture_;
  std::vector<CollectedLayer> layers_;
  bool gradients_;
  CalibrationPlan plan_;
  WorkDirectory work_;
  std::unique_ptr<ResidualStore> store_;
  std::vector<Part> parts_;
  InputMeans means_;
  std::shared_ptr<const StatsFile> metric_;
  Matrix<float> x_, dx_;
  double work_done_ = 0.0;
  double metric_share_ = plan_.metric_operations / plan_.operations;
  double metric_done_ = 0.0;  // of it, by this run
};

// Rank 0 looks: the others may not see its files.
bool is_missing(const CalibrationJob& job, const RunSettings& settings) {
  if (team_of(job).rank() != 0 || !std::filesystem::exists(job.output)) return true;
  const RunSettings present = StatsFile::open(job.output)->settings();
  const std::string differing = differences(present, settings);
  NIBBLE_REQUIRE(differing.empty(), InvalidArgument,
                 "'{}' is there already, of other settings ({}); remove it or choose another -o{}", job.output.string(),
                 differing, hint_of_plain_guide(present.guide, settings.guide));
  return false;
}

void require_part(const CalibrationJob& part, const CalibrationJob& job, const RunSettings& settings) {
  const std::size_t batch = windows_per_batch(job.model.architecture(), settings.window_tokens);
  RunSettings alike = complete_settings(part);
  NIBBLE_REQUIRE(alike.windows < settings.windows && alike.windows % batch == 0, InvalidArgument,
                 "calibration: a part of {} of {} windows does not end with a batch of {}", alike.windows,
                 settings.windows, batch);
  NIBBLE_REQUIRE(team_of(job).size() == 1 && settings.centre != kCentreOwn, InvalidArgument,
                 "calibration: no parts with a team, or where gradients are centred with the run's own means");
  alike.windows = settings.windows;
  alike.text_hash = settings.text_hash;  // of a token file, the windows'
  alike.windows_hash = settings.windows_hash;
  NIBBLE_REQUIRE(settings.guide == Guide::kPlain || part.tokens.size() >= kGuideWindows * settings.window_tokens,
                 InvalidArgument, "calibration: a part with a whitened guide has {} windows or more, got {}",
                 kGuideWindows, part.tokens.size() / settings.window_tokens);
  const std::string differing = differences(alike, settings);
  NIBBLE_REQUIRE(differing.empty() && std::equal(part.tokens.begin(), part.tokens.end(), job.tokens.begin()),
                 InvalidArgument, "calibration: '{}' is no part of '{}' ({})", part.output.string(),
                 job.output.string(), differing.empty() ? "other windows" : differing);
}

}  // namespace

void require_window_length(const model::Architecture& architecture, std::size_t tokens) {
  NIBBLE_REQUIRE(tokens <= architecture.position_limit(), InvalidArgument,
                 "calibration: windows of {} tokens, but the model has learned {} positions; make them shorter "
                 "(--length)",
                 tokens, architecture.max_positions);
}

RunSettings complete_settings(const CalibrationJob& job) {
  RunSettings settings = job.settings;
  const std::size_t length = settings.window_tokens;
  NIBBLE_REQUIRE(length >= 2, InvalidArgument, "calibration: windows need 2 tokens or more for a next token, got {}",
                 length);
  NIBBLE_REQUIRE(!job.tokens.empty() && job.tokens.size() % length == 0, InvalidArgument,
                 "calibration: {} tokens are no whole number of windows of {}", job.tokens.size(), length);
  settings.windows = job.tokens.size() / length;
  require_window_length(job.model.architecture(), length);
  const std::size_t processes = team_of(job).size();
  NIBBLE_REQUIRE(settings.windows >= processes, InvalidArgument, "calibration: {} windows for {} processes",
                 settings.windows, processes);
  settings.windows_hash = Hasher().update(fmt::format("{}", length)).update(std::as_bytes(std::span(job.tokens))).hex();
  settings.kernels = gemm_identity();
  settings.program = program_identity();
  NIBBLE_REQUIRE(settings.guide == Guide::kPlain || settings.collected.is_guided(), InvalidArgument,
                 "calibration: the guide concerns guided-hessian and output-hessian, which are not collected");
  const std::size_t first = std::min<std::size_t>(kGuideWindows, settings.windows);
  NIBBLE_REQUIRE(
      settings.guide == Guide::kPlain || first >= processes, InvalidArgument,
      "calibration: a whitened guide comes from the first {} windows, too few for {} processes; use fewer, or "
      "--guide plain",
      first, processes);
  NIBBLE_REQUIRE(!settings.seeds.empty() || settings.labels == Labels::kData, InvalidArgument,
                 "calibration: sampled labels need a seed");
  NIBBLE_REQUIRE(
      settings.labels == Labels::kData || settings.collected.needs_gradients(), InvalidArgument,
      "calibration: labels concern gradients (fisher, guided-hessian, output-hessian), which are not collected");
  NIBBLE_REQUIRE(settings.flavour == FisherFlavour::kSequence || settings.collected.fisher, InvalidArgument,
                 "calibration: position concerns the gradients of `fisher`, which is not collected");
  if (job.centre == Centre::kOwn) {
    NIBBLE_REQUIRE(!settings.head, InvalidArgument,
                   "calibration: the head's mean input is known only after the run; to centre with the head, give a "
                   "file of means that was collected with it");
    settings.centre = kCentreOwn;
  } else if (job.centre == Centre::kFile) {
    settings.centre = hash_of(means_of_file(job, collected_layers(job.model.architecture(), settings.head)));
  }
  NIBBLE_REQUIRE(job.centre == Centre::kNone || settings.collected.fisher, InvalidArgument,
                 "calibration: centring concerns the gradients of `fisher`, which is not collected");
  return settings;
}

CalibrationPlan plan_job(const CalibrationJob& job) {
  RunSettings settings = complete_settings(job);
  settings.windows = share_of(settings.windows, team_of(job)).count;
  return plan_calibration(
      job.model.architecture(), settings, job.memory_bytes,
      {.processes = team_of(job).size(), .disk = disk_for_scratch(work_path_of(job, team_of(job)))});
}

double calibrate(const CalibrationJob& job, std::span<const CalibrationJob> parts) {
  NIBBLE_REQUIRE(!job.output.empty(), InvalidArgument, "calibration: output: expected a path, got ''");
  const RunSettings settings = complete_settings(job);
  for (const CalibrationJob& part : parts) require_part(part, job, settings);
  require_same_job(job, settings);
  Team& team = team_of(job);
  if (team.all(is_missing(job, settings))) {
    Calibration calibration(job, settings, parts);
    // Under the lock of the working directory: whoever had it may have made the output meanwhile.
    if (team.all(is_missing(job, settings))) return calibration.run();
    calibration.abandon();
    return 0.0;
  }
  // Of a run that was killed once its output had its name.
  WorkDirectory::remove_left(work_path_of(job, team));
  if (team.rank() == 0) remove_left_lock(job.output);
  return 0.0;
}

}  // namespace nibble::calib
