#include "eval/quality/reference_comparison.h"

#include <chrono>
#include <cmath>

#include "core/error.h"
#include "core/machine/thread_pool.h"
#include "eval/quality/logit_stream.h"
#include "eval/quality/protocol_run.h"
#include "eval/quality/softmax_comparison.h"
#include "eval/quality/statistics.h"

namespace nibble::eval {
namespace {

constexpr std::size_t kComparedRows = 4;  // rows of logits per piece of work

// What is found for each target.
struct Findings {
  explicit Findings(std::size_t targets)
      : nll(targets), reference_nll(targets), divergence(targets), same_top(targets) {}
  std::vector<double> nll, reference_nll, divergence;
  std::vector<unsigned char> same_top;  // not bool: threads write neighbours

  void add(std::size_t target, TokenId token, std::span<const float> reference, std::span<const float> logits) {
    const SoftmaxComparison row = compare_softmax(reference, logits);
    nll[target] = row.log_sum - static_cast<double>(logits[token]);
    reference_nll[target] = row.reference_log_sum - static_cast<double>(reference[token]);
    divergence[target] = row.divergence;
    same_top[target] = row.same_top;
  }
};

using Clock = std::chrono::steady_clock;

// Returns how long the reference and the comparison took.
Clock::duration compare_batch(const model::Model& model, const LogitMaker& reference, const WindowBatch& batch,
                              const model::ForwardOptions& options, std::size_t before, Findings& findings) {
  const auto opened = Clock::now();
  LogitStream stream(reference, batch, before);  // runs the reference as far as its first logits
  Clock::duration beside = Clock::now() - opened;
  visit_scored_logits(model, batch, options, [&](std::size_t first, MatrixView<const float> logits) {
    const auto start = Clock::now();
    for (std::size_t done = 0; done < logits.rows();) {
      const MatrixView<const float> expected = stream.next(logits.rows() - done);
      NIBBLE_REQUIRE(expected.rows() > 0, InvalidArgument, "comparing models: the reference gave too few logits");
      parallel_for_tiles(expected.rows(), kComparedRows, [&](std::size_t begin, std::size_t end) {
        for (std::size_t row = begin; row < end; ++row) {
          const std::size_t target = first + done + row;
          findings.add(before + target, batch.targets[target], expected.row(row), logits.row(done + row));
        }
      });
      done += expected.rows();
    }
    beside += Clock::now() - start;
  });
  return beside;
}

}  // namespace

ReferenceComparison compare_with_reference(const model::Model& model, const model::Model& reference,
                                           std::span<const TokenId> tokens, const PerplexityOptions& options) {
  NIBBLE_REQUIRE(model.architecture().vocabulary == reference.architecture().vocabulary, InvalidArgument,
                 "comparing models: expected one vocabulary, got {} tokens and {} for the reference",
                 model.architecture().vocabulary, reference.architecture().vocabulary);
  return compare_with_reference(model, logits_of(reference, options.forward), tokens, options);
}

ReferenceComparison compare_with_reference(const model::Model& model, const LogitMaker& reference,
                                           std::span<const TokenId> tokens, const PerplexityOptions& options) {
  PerplexityOptions resolved = options;  // where the defaults come from the model, both models run with the same
  if (resolved.context == 0) resolved.context = model.architecture().max_positions;
  const ProtocolRun run(model.architecture(), tokens, resolved);
  Findings findings(run.targets());
  const auto start = Clock::now();
  Clock::duration beside{};
  run.for_each_batch([&](const WindowBatch& batch, std::size_t before) {
    beside += compare_batch(model, reference, batch, resolved.forward, before, findings);
  });
  const double seconds = std::chrono::duration<double>(Clock::now() - start - beside).count();

  ReferenceComparison result;
  result.model = run.result(findings.nll, seconds);
  result.reference = run.result(findings.reference_nll, seconds);
  std::vector<double> difference(run.targets());
  std::size_t agreeing = 0;
  for (std::size_t i = 0; i < difference.size(); ++i) {
    difference[i] = findings.nll[i] - findings.reference_nll[i];
    agreeing += findings.same_top[i];
  }
  const Estimate log_ratio = run.estimate(difference);
  result.perplexity_ratio = std::exp(log_ratio.mean);
  result.perplexity_ratio_stderr = result.perplexity_ratio * log_ratio.standard_error;
  result.top1_agreement = static_cast<double>(agreeing) / static_cast<double>(run.targets());
  result.window_kl = run.window_means(findings.divergence);
  const Estimate divergence = run.estimate_over_targets(findings.divergence);
  result.kl_mean = divergence.mean;
  result.kl_mean_stderr = divergence.standard_error;
  constexpr double kShares[] = {0.5, 0.99, 0.999, 1.0};
  const std::vector<double> at = quantiles(std::move(findings.divergence), kShares);
  result.kl_median = at[0];
  result.kl_99 = at[1];
  result.kl_999 = at[2];
  result.kl_max = at[3];
  return result;
}

}  // namespace nibble::eval
