#include "eval/quality/perplexity.h"

#include <chrono>
#include <limits>

#include "core/error.h"
#include "core/machine/thread_pool.h"
#include "eval/quality/log_sum_exp.h"
#include "eval/quality/protocol_run.h"
#include "eval/quality/window_batch.h"

namespace nibble::eval {
namespace {

constexpr std::size_t kRowTile = 8;  // rows of logits per piece of work

}  // namespace

double negative_log_likelihood(std::span<const float> logits, TokenId target) {
  NIBBLE_REQUIRE(target < logits.size(), InvalidArgument, "negative log-likelihood: target {} of {} logits", target,
                 logits.size());
  return log_sum_exp(logits) - static_cast<double>(logits[target]);
}

PerplexityResult perplexity(const model::Model& model, std::span<const TokenId> tokens,
                            const PerplexityOptions& options) {
  return perplexity(model.architecture(), logits_of(model, options.forward), tokens, options);
}

PerplexityResult perplexity(const model::Architecture& architecture, const LogitMaker& make,
                            std::span<const TokenId> tokens, const PerplexityOptions& options) {
  const ProtocolRun run(architecture, tokens, options);
  std::vector<double> nll(run.targets(), std::numeric_limits<double>::quiet_NaN());
  const auto start = std::chrono::steady_clock::now();
  run.for_each_batch([&](const WindowBatch& batch, std::size_t before) {
    make(batch, before, [&](std::size_t first, MatrixView<const float> logits) {
      parallel_for_tiles(logits.rows(), kRowTile, [&](std::size_t begin, std::size_t end) {
        for (std::size_t row = begin; row < end; ++row)
          nll[before + first + row] = negative_log_likelihood(logits.row(row), batch.targets[first + row]);
      });
    });
  });
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  return run.result(nll, seconds.count());
}

}  // namespace nibble::eval
