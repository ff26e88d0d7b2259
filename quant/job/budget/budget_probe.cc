#include "quant/job/budget/budget_probe.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <string>
#include <utility>

#include "calib/collect/block_sums.h"
#include "core/error.h"
#include "core/files/output_file.h"
#include "core/matrix/copied.h"
#include "core/text/json.h"
#include "quant/job/network/growing_model.h"
#include "quant/job/network/shifted_bias.h"
#include "quant/job/shards/kept_state.h"
#include "quant/job/shards/shard_source.h"
#include "quant/tuning/distillation.h"

namespace nibble::quant {
namespace {

class ProbeRun {
 public:
  ProbeRun(const ProbeJob& job, const Plan& plan, std::span<const Probe> probes)
      : job_(job),
        plan_(plan),
        probes_(probes),
        teacher_(job.architecture, model::make_float_provider(job.checkpoint), {}),
        probed_(job.architecture, model::make_float_provider(job.checkpoint), {}),
        shards_(plan.items.size()),
        sums_(probes.size(), 0.0),
        starts_{0, job.text.window_tokens},
        rows_(job.text.window_tokens),
        losses_(job.text.window_tokens),
        x_(job.text.window_tokens, job.architecture.hidden) {
    for (const Probe& probe : probes) shards_[probe.item] = *probe.shard;
    for (const calib::CollectedLayer& layer : calib::collected_layers(job.architecture, false))
      block_of_[layer.module] = layer.block;
    std::iota(rows_.begin(), rows_.end(), std::size_t{0});
    for (std::size_t block = 0; block <= job.architecture.blocks.size(); ++block)
      boundaries_.emplace_back(x_.rows(), x_.cols());
  }

  std::vector<double> run() {
    const std::uint64_t tokens = job_.text.window_tokens;
    job_.reporter.begin("probing the budget's estimates", job_.windows * probes_.size() * tokens, "tokens");
    std::size_t first = find_sums();
    job_.reporter.advance(first * probes_.size() * tokens, JobReporter::Work::kFound);
    for (std::size_t window = first; window < job_.windows; ++window) {
      probe(window);
      const nlohmann::json sums{{"windows", window + 1}, {"divergence_sums", sums_}};
      write_file(file(), sums.dump());
    }
    std::vector<double> means = sums_;
    for (double& mean : means) mean /= static_cast<double>(job_.windows * tokens);
    return means;
  }

 private:
  std::filesystem::path file() const { return job_.scratch / "probes.json"; }

  // Takes the sums of a run that was killed, and returns the window that comes next. The directory is this job's alone.
  std::size_t find_sums() {
    auto kept = kept_state(file(), 1 << 26, [](const nlohmann::json& json) {
      return std::pair(json.at("windows").get<std::size_t>(), json.at("divergence_sums").get<std::vector<double>>());
    });
    if (!kept || kept->second.size() != probes_.size() || kept->first > job_.windows) return 0;
    sums_ = std::move(kept->second);
    return kept->first;
  }

  void probe(std::size_t window) {
    const std::size_t length = job_.text.window_tokens, blocks = job_.architecture.blocks.size();
    const model::Batch batch{std::span(job_.text.tokens).subspan(window * length, length), starts_};
    teacher_.model().embed(batch, boundaries_[0].view());
    for (std::size_t block = 0; block < blocks; ++block) {
      std::copy_n(boundaries_[block].data(), length * x_.cols(), boundaries_[block + 1].data());
      teacher_.model().forward_block(block, batch, boundaries_[block + 1].view(), {}, nullptr);
    }
    for (std::size_t p = 0; p < probes_.size(); ++p) {
      QuantizeItem item = plan_.items[probes_[p].item];
      item.settings = probes_[p].settings;
      auto former = probed_.replace(item.layer.module, shard_source(item, *probes_[p].shard),
                                    bias_beside(item.layer, plan_, shards_, *job_.checkpoint, probed_.weights()));
      const std::size_t from = block_of_.at(item.layer.module);
      std::copy_n(boundaries_[from].data(), length * x_.cols(), x_.data());
      for (std::size_t block = from; block < blocks; ++block)
        probed_.model().forward_block(block, batch, x_.view(), {}, nullptr);
      const double sum = divergence_sum();
      NIBBLE_REQUIRE(std::isfinite(sum), NumericalError, "{}: the model's divergence with it quantized is not finite",
                     item.identity.name);
      sums_[p] += sum;
      probed_.put_back(item.layer.module, std::move(former));
      job_.reporter.advance(length);
    }
  }

  // Of x_ from the float model's last states, over the window.
  double divergence_sum() {
    probed_.model().forward_head(
        x_.view(), rows_, [&](std::span<const std::size_t> chunk, MatrixView<const float> logits) {
          Matrix<float> copy = copied(logits);
          distil_rows(teacher_.model(), boundaries_.back().view(), chunk, 1.0f, copy.view(), losses_);
        });
    return std::accumulate(losses_.begin(), losses_.end(), 0.0);
  }

  const ProbeJob& job_;
  const Plan& plan_;
  std::span<const Probe> probes_;
  GrowingModel teacher_, probed_;
  std::vector<Shard> shards_;  // of what is probed, in the order of plan_.items: their corrections of biases
  std::map<std::string, std::size_t> block_of_;
  std::vector<double> sums_;
  std::vector<std::size_t> starts_, rows_;
  std::vector<double> losses_;
  Matrix<float> x_;
  std::vector<Matrix<float>> boundaries_;
};

}  // namespace

std::vector<double> probe_divergences(const ProbeJob& job, const Plan& plan, std::span<const Probe> probes) {
  return ProbeRun(job, plan, probes).run();
}

double probe_factor(double measured, double predicted) {
  constexpr double kMost = 16.0;  // what is further off is a tensor that hardly matters, or noise
  if (!(measured > 0.0 && predicted > 0.0 && std::isfinite(predicted))) return 1.0;
  return std::clamp(measured / predicted, 1.0 / kMost, kMost);
}

}  // namespace nibble::quant
