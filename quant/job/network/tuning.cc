#include "quant/job/network/tuning.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <numbers>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>

#include "calib/collect/residual_store.h"
#include "core/error.h"
#include "core/files/output_file.h"
#include "core/machine/thread_pool.h"
#include "core/matrix/copied.h"
#include "core/random.h"
#include "core/text/json.h"
#include "quant/job/network/tuned_network.h"
#include "quant/job/shards/kept_state.h"
#include "quant/job/statistics/weight_statistics.h"
#include "quant/store/quantization_config.h"
#include "quant/tensor/weight_errors.h"
#include "quant/tuning/distillation.h"

namespace nibble::quant {
namespace {

constexpr std::size_t kHoldOutEvery = 8;
// Work per token of a window, in forward passes.
constexpr std::uint64_t kForwardWork = 1, kStepWork = 4;

// The windows that are trained on, and those held out, which may be none.
std::pair<std::vector<std::size_t>, std::vector<std::size_t>> split_windows(std::size_t windows, const Tuning& tuning) {
  std::pair<std::vector<std::size_t>, std::vector<std::size_t>> split;
  const auto is_held_out = [&](std::size_t w) {
    if (tuning.held_out > 0) return w >= windows - tuning.held_out;
    return windows >= kHoldOutEvery && w % kHoldOutEvery == kHoldOutEvery - 1;
  };
  for (std::size_t w = 0; w < windows; ++w) (is_held_out(w) ? split.second : split.first).push_back(w);
  return split;
}

class TuningRun {
 public:
  TuningRun(const TuningJob& job, std::span<const Shard> shards)
      : job_(job),
        length_(job.text.window_tokens),
        windows_(job.text.tokens.size() / length_),
        teacher_(job.architecture, model::make_float_provider(job.checkpoint), {}),
        network_(job.checkpoint, job.architecture, job.plan, shards, job.tuning),
        boundaries_(job.architecture.blocks.size() + 1) {
    const calib::ResidualShape shape{job.text.tokens.size(), job.architecture.hidden, length_};
    states_ = shape.bytes() <= job.memory_bytes / 2 ? calib::make_memory_store(shape)
                                                    : calib::make_file_store(shape, job.scratch, job.identity);
    std::tie(trained_, held_out_) = split_windows(windows_, job.tuning);
    if (held_out_.empty()) held_out_ = trained_;
  }

  TuningResult run() {
    const Tuning& tuning = job_.tuning;
    job_.reporter.begin("tuning", tuning_work(tuning, windows_).passes() * length_, "tokens");
    if (tuning.loss == TuningLoss::kKl) teach();
    TuningResult result;
    result.held_out.push_back(loss_of(held_out_));
    LargeVector<float> best = network_.state();
    Random random(0);
    const std::size_t batch = std::min<std::size_t>(tuning.batch_windows, trained_.size());
    const std::size_t steps = (trained_.size() + batch - 1) / batch;
    for (std::uint64_t epoch = 0; epoch < tuning.epochs; ++epoch) {
      std::vector<std::size_t> order = trained_;
      for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
      double sum = 0.0;
      for (std::size_t step = 0; step < steps; ++step) {
        const std::size_t first = step * batch, count = std::min(batch, order.size() - first);
        sum += pass(std::span(order).subspan(first, count), true) * static_cast<double>(count);
        const double done = static_cast<double>(epoch * steps + step) / static_cast<double>(tuning.epochs * steps);
        const double share = 0.5 * (1.0 + std::cos(std::numbers::pi * done));  // sums to half the steps and a half
        const double all_shares = 0.5 * static_cast<double>(tuning.epochs * steps + 1);
        network_.step(tuning.learning_rate * share, tuning.code_travel * share / all_shares);
      }
      result.trained.push_back(sum / static_cast<double>(order.size()));
      result.held_out.push_back(loss_of(held_out_));
      if (result.held_out.back() < result.held_out[result.best_epoch]) {
        result.best_epoch = epoch + 1;
        best = network_.state();
      }
    }
    network_.restore(best);
    return result;
  }

  const TunedNetwork& network() const { return network_; }

 private:
  // A batch of windows, gathered.
  model::Batch gather(std::span<const std::size_t> windows) {
    tokens_.clear();
    starts_.assign(1, 0);
    for (const std::size_t w : windows) {
      const auto begin = job_.text.tokens.begin() + static_cast<std::ptrdiff_t>(w * length_);
      tokens_.insert(tokens_.end(), begin, begin + static_cast<std::ptrdiff_t>(length_));
      starts_.push_back(tokens_.size());
    }
    rows_.resize(tokens_.size());
    std::iota(rows_.begin(), rows_.end(), std::size_t{0});
    return {tokens_, starts_};
  }

  MatrixView<float> sized(Matrix<float>& matrix, std::size_t rows) const {
    if (matrix.rows() < rows) matrix = Matrix<float>(rows, job_.architecture.hidden);
    return matrix.view().rows_slice(0, rows);
  }

  // The float model's last hidden states of all windows.
  void teach() {
    if (states_->holds(kStates))
      return job_.reporter.advance(windows_ * length_ * kForwardWork, JobReporter::Work::kFound);
    for (std::size_t w = 0; w < windows_; ++w) {
      const model::Batch batch = gather({&w, 1});
      const MatrixView<float> x = sized(x_, length_);
      teacher_.model().embed(batch, x);
      for (std::size_t block = 0; block < job_.architecture.blocks.size(); ++block)
        teacher_.model().forward_block(block, batch, x, {}, nullptr);
      states_->write(kStates, w, x);
      job_.reporter.advance(length_ * kForwardWork);
    }
  }

  double loss_of(std::span<const std::size_t> windows) {
    double sum = 0.0;
    for (const std::size_t w : windows) sum += pass({&w, 1}, false);
    return sum / static_cast<double>(windows.size());
  }

  // Mean loss of the windows; with `backward` their gradient is left in the network.
  double pass(std::span<const std::size_t> windows, bool backward) {
    const model::Model& model = network_.model();
    const model::Batch batch = gather(windows);
    const std::size_t rows = batch.tokens.size(), layers = job_.architecture.blocks.size();
    model.embed(batch, sized(boundaries_[0], rows));
    for (std::size_t block = 0; block < layers; ++block) {
      const MatrixView<float> from = sized(boundaries_[block], rows), to = sized(boundaries_[block + 1], rows);
      std::copy_n(from.data(), rows * from.cols(), to.data());
      model.forward_block(block, batch, to, {}, nullptr);
    }
    losses_.assign(rows, 0.0);
    const MatrixView<float> teacher = sized(x_, rows), dx = sized(dx_, rows);
    if (job_.tuning.loss == TuningLoss::kKl)
      for (std::size_t i = 0; i < windows.size(); ++i)
        states_->read(kStates, windows[i], teacher.rows_slice(i * length_, length_));
    else
      drop_last_rows(windows.size());
    const float weight = 1.0f / static_cast<float>(rows_.size());
    const model::LogitGradient<float> gradient = [&](std::span<const std::size_t> chunk, MatrixView<float> logits) {
      if (job_.tuning.loss == TuningLoss::kKl)
        distil_rows(teacher_.model(), teacher, chunk, weight, logits, losses_);
      else
        predict(chunk, weight, logits);
    };
    if (backward) {
      model.backward_logits(sized(boundaries_[layers], rows), rows_, gradient, dx, nullptr);
      for (std::size_t block = layers; block-- > 0;)
        model.backward_block(block, batch, sized(boundaries_[block], rows), dx, &network_.hooks());
    } else {
      model.forward_head(sized(boundaries_[layers], rows), rows_,
                         [&](std::span<const std::size_t> chunk, MatrixView<const float> logits) {
                           Matrix<float> copy = copied(logits);
                           gradient(chunk, copy.view());
                         });
    }
    job_.reporter.advance(rows * (backward ? kStepWork : kForwardWork));
    const double loss = std::accumulate(losses_.begin(), losses_.end(), 0.0) / static_cast<double>(rows_.size());
    NIBBLE_REQUIRE(std::isfinite(loss), NumericalError,
                   "tuning: the loss is no longer finite; a lower learning_rate than {} may help",
                   job_.tuning.learning_rate);
    return loss;
  }

  // A window's last position has no next token.
  void drop_last_rows(std::size_t windows) {
    rows_.clear();
    for (std::size_t r = 0; r < windows * length_; ++r)
      if ((r + 1) % length_ != 0) rows_.push_back(r);
  }

  // The loss of the tokens that come next, `weight` times its gradient in place of the logits.
  void predict(std::span<const std::size_t> chunk, float weight, MatrixView<float> logits) {
    parallel_for(chunk.size(), [&](std::size_t i) {
      losses_[chunk[i]] = next_token_row(logits.row(i), tokens_[chunk[i] + 1], weight);
    });
  }

  static constexpr const char* kStates = "teacher";

  const TuningJob& job_;
  std::size_t length_, windows_;
  GrowingModel teacher_;
  TunedNetwork network_;
  std::unique_ptr<calib::ResidualStore> states_;
  std::vector<std::size_t> trained_, held_out_;
  std::vector<Matrix<float>> boundaries_;
  Matrix<float> x_, dx_;
  std::vector<TokenId> tokens_;
  std::vector<std::size_t> starts_, rows_;
  std::vector<double> losses_;
};

std::filesystem::path file_of(const TuningJob& job, std::size_t item) {
  return job.scratch / (job.plan.items[item].identity.name + ".tuned.safetensors");
}
std::filesystem::path result_file(const TuningJob& job) { return job.scratch / "tuning.json"; }

Shard tuned_shard(const TuningJob& job, const TunedNetwork& network, std::size_t index, const Shard& before) {
  const QuantizeItem& item = job.plan.items[index];
  const auto tensor = network.tensor(index);
  if (!tensor) return before;
  Matrix<float> w(item.source->rows(), item.source->cols());
  item.source->decode_rows(0, w.rows(), w.data());
  WeightParts made;
  made.parts = tensor->parts();
  const WeightStatistics statistics = error_statistics_for(item, job.calibration);
  WeightErrors errors;
  add_errors(w, *tensor, statistics, false, errors, made.bias_correction);
  errors.report(statistics, made);
  made.bias_correction = network.bias_correction(index);
  if (made.bias_correction.empty()) made.bias_correction = before.bias_correction;
  TensorResult result = before.result;
  result.relative_weight_error = made.relative_error;
  result.output_error = made.output_error;
  result.fisher_error = made.fisher_error;
  return write_shard(file_of(job, index), result, std::move(made));
}

TuningResult tuning_of(const nlohmann::json& json) {
  TuningResult result;
  result.held_out = json.at("held_out_loss").get<std::vector<double>>();
  result.trained = json.at("trained_loss").get<std::vector<double>>();
  result.best_epoch = json.at("best_epoch").get<std::size_t>();
  NIBBLE_REQUIRE(result.best_epoch < result.held_out.size(), FormatError,
                 "expected a loss of each epoch, got {} and epoch {} as the best", result.held_out.size(),
                 result.best_epoch);
  return result;
}

// What an earlier run finished: the result, written last, says that all shards are there.
bool find_tuned(const TuningJob& job, std::vector<Shard>& shards, TuningResult& result) {
  auto kept = kept_state(result_file(job), 1 << 20, tuning_of);
  if (!kept) return false;
  std::vector<Shard> found = shards;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const QuantizeItem& item = job.plan.items[i];
    if (!item.identity.block_linear || !item.settings.coded()) continue;  // none of TunedNetwork's
    auto shard = find_shard(file_of(job, i), shards[i].result.name);
    if (!shard) return false;
    found[i] = std::move(*shard);
  }
  result = std::move(*kept);
  shards = std::move(found);
  return true;
}

// What training can change of the weights and biases of the blocks, with what a message calls it.
struct Trainable {
  bool Tuning::*named;
  std::string_view what;
  bool (*in)(const TensorSettings& settings);
};
constexpr std::array<Trainable, 3> kTrainable{
    {{&Tuning::palettes, "a palette of its own",
      [](const TensorSettings& s) { return s.has_palette() || s.learns_block_palette(); }},
     {&Tuning::scales, "scales in float16",
      [](const TensorSettings& s) {
        if (s.super_block != 0) return false;  // training would not keep them multiples of a step
        return s.has_palette() ? s.scaling != Scaling::kNone
                               : !s.has_block_palette() || s.block_scale == ScaleType::kFloat16;
      }},
     {&Tuning::biases, "a bias that shifting makes", [](const TensorSettings& s) { return s.shifting; }}}};

// Whether a quantized layer of the blocks is such.
bool any_coded(const Plan& plan, const std::function<bool(const QuantizeItem&)>& is_such) {
  return std::any_of(plan.items.begin(), plan.items.end(), [&](const QuantizeItem& item) {
    return item.identity.block_linear && item.settings.coded() && is_such(item);
  });
}

bool codes_can_move(const QuantizeItem& item) {
  return TunableTensor::codes_can_move(stored_tensor(item.settings, item.source->rows(), item.source->cols()).spec);
}

}  // namespace

void check_tuning(const Plan& plan, const model::Architecture& architecture, const Tuning& tuning,
                  const CalibrationText* text) {
  NIBBLE_REQUIRE(text != nullptr, InvalidArgument,
                 "tuning runs text through the model: give --text FILE, or token ids with --tokens FILE (or leave it "
                 "out: --set tuning.epochs=0)");
  check_windows(*text, architecture, "tuning");
  NIBBLE_REQUIRE(tuning.held_out < text->windows(), InvalidArgument,
                 "tuning: held_out: {} of a text of {} windows leaves none to train on", tuning.held_out,
                 text->windows());
  NIBBLE_REQUIRE(tuning.windows <= text->windows() - tuning.held_out, InvalidArgument,
                 "tuning: windows: {} of a text of {} windows{}; give it a text of more (--samples)", tuning.windows,
                 text->windows(),
                 tuning.held_out > 0 ? fmt::format(", of which {} are held out", tuning.held_out) : "");
  NIBBLE_REQUIRE(
      !tuning.codes || any_coded(plan, codes_can_move), InvalidArgument,
      "tuning: codes can be trained of scalar palettes, uniform grids and int4 blocks, of which there are none "
      "here; leave codes out of `train`");
  constexpr std::string_view kNothing = "tuning: the recipe leaves nothing to train: no quantized layer of the blocks";
  NIBBLE_REQUIRE(any_coded(plan, [](const QuantizeItem&) { return true; }), InvalidArgument, "{}", kNothing);
  std::vector<std::string_view> named;
  bool trains = tuning.codes;
  for (const Trainable& kind : kTrainable) {
    if (!(tuning.*kind.named)) continue;
    named.push_back(kind.what);
    trains = trains || any_coded(plan, [&](const QuantizeItem& item) { return kind.in(item.settings); });
  }
  NIBBLE_REQUIRE(trains, InvalidArgument, "{} has {}", kNothing, fmt::join(named, " or "));
}

TuningWork tuning_work(const Tuning& tuning, std::size_t windows) {
  if (tuning.windows > 0) windows = tuning.windows + tuning.held_out;
  const auto [trained, held_out] = split_windows(windows, tuning);
  const std::size_t measured = held_out.empty() ? trained.size() : held_out.size();
  return {.taught = tuning.loss == TuningLoss::kKl ? windows * kForwardWork : 0,
          .measured = (tuning.epochs + 1) * measured * kForwardWork,
          .trained = tuning.epochs * trained.size() * kStepWork};
}

nlohmann::ordered_json tuning_json(const TuningResult& result) {
  return {{"held_out_loss", result.held_out}, {"trained_loss", result.trained}, {"best_epoch", result.best_epoch}};
}

std::vector<Shard> tune(const TuningJob& job, const std::vector<Shard>& shards, TuningResult& result) {
  std::vector<Shard> tuned = shards;
  const auto [trained, held_out] = split_windows(job.text.windows(), job.tuning);
  const double repeated = repeated_share(job.text, held_out, trained);
  if (find_tuned(job, tuned, result)) {
    result.repeated = repeated;
    return tuned;
  }
  TuningRun run(job, shards);
  result = run.run();
  result.repeated = repeated;
  for (std::size_t i = 0; i < shards.size(); ++i) tuned[i] = tuned_shard(job, run.network(), i, shards[i]);
  write_file(result_file(job), tuning_json(result).dump());
  return tuned;
}

}  // namespace nibble::quant
