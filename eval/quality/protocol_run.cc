#include "eval/quality/protocol_run.h"

#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>

#include "core/error.h"
#include "core/weighted_mean.h"
#include "eval/quality/statistics.h"

namespace nibble::eval {
namespace {

using datasets::Protocol;
using datasets::Window;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr std::size_t kMostProgressReports = 1000;

void check_ids(std::span<const TokenId> tokens, const PerplexityOptions& options, std::size_t vocabulary) {
  for (std::size_t i = 0; i < tokens.size(); ++i)
    NIBBLE_REQUIRE(tokens[i] < vocabulary, InvalidArgument,
                   "perplexity: token id {} at index {} is outside the model's vocabulary of {}", tokens[i], i,
                   vocabulary);
  NIBBLE_REQUIRE(!options.bos || *options.bos < vocabulary, InvalidArgument,
                 "perplexity: the BOS id {} is outside the model's vocabulary of {}", options.bos.value_or(0),
                 vocabulary);
}

}  // namespace

std::vector<Window> protocol_windows(const PerplexityOptions& options, std::size_t tokens, std::size_t max_positions) {
  const std::size_t context = options.context != 0 ? options.context : max_positions;
  const std::size_t stride = options.stride != 0 ? options.stride : context / 2;
  if (options.text_ends.empty()) return datasets::evaluation_windows(options.protocol, tokens, context, stride);
  std::vector<Window> windows;
  std::size_t begin = 0, texts = 0;
  for (const std::size_t end : options.text_ends) {
    NIBBLE_REQUIRE(end > begin && end <= tokens, InvalidArgument,
                   "perplexity: expected the ends of texts to ascend to {} tokens, got {} after {}", tokens, end,
                   begin);
    std::vector<Window> own;
    try {
      own = datasets::evaluation_windows(options.protocol, end - begin, context, stride);
    } catch (const InvalidArgument& error) {
      throw InvalidArgument(fmt::format("text {} of {}: {}", ++texts, options.text_ends.size(), error.what()));
    }
    for (Window window : own) {
      for (std::size_t* place : {&window.begin, &window.end, &window.first_target, &window.last_target})
        *place += begin;
      windows.push_back(window);
    }
    begin = end;
    ++texts;
  }
  NIBBLE_REQUIRE(begin == tokens, InvalidArgument, "perplexity: expected the last text to end at {} tokens, got {}",
                 tokens, begin);
  return windows;
}

ProtocolRun::ProtocolRun(const model::Architecture& architecture, std::span<const TokenId> tokens,
                         const PerplexityOptions& options)
    : tokens_(tokens), options_(options) {
  check_ids(tokens, options, architecture.vocabulary);
  windows_ = protocol_windows(options, tokens.size(), architecture.max_positions);
  for (const Window& window : windows_) {
    targets_ += window.last_target - window.first_target;
    tokens_run_ += window.end - window.begin;
  }
}

void ProtocolRun::for_each_batch(const std::function<void(const WindowBatch&, std::size_t)>& body) const {
  std::size_t first = 0, run = 0, reported = 0;
  for (const auto group : group_windows(windows_, options_.batch_tokens)) {
    const WindowBatch batch = make_window_batch(tokens_, group, options_.bos);
    body(batch, first);
    first += batch.targets.size();
    run += batch.tokens.size();
    if (options_.progress && (run == tokens_run_ || run - reported >= tokens_run_ / kMostProgressReports)) {
      options_.progress({"perplexity", static_cast<double>(run), static_cast<double>(tokens_run_), "tokens"});
      reported = run;
    }
  }
}

std::vector<double> ProtocolRun::window_means(std::span<const double> per_target) const {
  std::vector<double> means;
  means.reserve(windows_.size());
  std::size_t first = 0;
  for (const Window& window : windows_) {
    const std::size_t count = window.last_target - window.first_target;
    means.push_back(mean(per_target.subspan(first, count)));
    first += count;
  }
  return means;
}

std::vector<std::uint64_t> ProtocolRun::window_targets() const {
  std::vector<std::uint64_t> targets;
  for (const Window& window : windows_) targets.push_back(window.last_target - window.first_target);
  return targets;
}

Estimate ProtocolRun::estimate_over_targets(std::span<const double> per_target) const {
  return {mean(per_target), weighted_mean(window_means(per_target), window_targets()).standard_error};
}

Estimate ProtocolRun::estimate(std::span<const double> per_target) const {
  if (options_.protocol == Protocol::kHalf)
    return {mean(per_target), sample_deviation(per_target) / std::sqrt(static_cast<double>(per_target.size()) - 1.0)};
  if (options_.average == Average::kTokens) return estimate_over_targets(per_target);
  const std::vector<double> means = window_means(per_target);
  return {mean(means), standard_error(means)};
}

double ProtocolRun::bits_per_byte(std::span<const double> nll) const {
  if (!options_.byte_length) return kNaN;
  std::uint64_t bytes = 0;
  for (const Window& window : windows_)
    for (std::size_t target = window.first_target; target < window.last_target; ++target)
      bytes += options_.byte_length(tokens_[target]);
  if (bytes == 0) return kNaN;
  return std::accumulate(nll.begin(), nll.end(), 0.0) / std::numbers::ln2 / static_cast<double>(bytes);
}

PerplexityResult ProtocolRun::result(std::span<const double> nll, double seconds) const {
  const Estimate loss = estimate(nll);
  PerplexityResult result;
  result.perplexity = std::exp(loss.mean);
  result.perplexity_stderr = result.perplexity * loss.standard_error;
  result.nll_nats_per_token = loss.mean;
  result.bits_per_byte = bits_per_byte(nll);
  result.tokens_scored = nll.size();
  result.tokens_run = tokens_run_;
  result.tokens_per_second = static_cast<double>(tokens_run_) / seconds;
  result.windows = windows_.size();
  result.window_nll = window_means(nll);
  result.window_tokens = window_targets();
  return result;
}

}  // namespace nibble::eval
