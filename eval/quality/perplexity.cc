#include "eval/quality/perplexity.h"

#include <chrono>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>

#include "core/error.h"
#include "core/thread_pool.h"
#include "eval/quality/log_sum_exp.h"
#include "eval/quality/window_batch.h"

namespace nibble::eval {
namespace {

using datasets::Protocol;
using datasets::Window;
using model::TokenId;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr std::size_t kRowTile = 8;  // rows of logits per piece of work
constexpr std::size_t kMostProgressReports = 1000;

double mean(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// The sample's standard deviation (n - 1); NaN for a single value.
double deviation(std::span<const double> values) {
  if (values.size() < 2) return kNaN;
  const double centre = mean(values);
  double squares = 0.0;
  for (const double value : values) squares += (value - centre) * (value - centre);
  return std::sqrt(squares / static_cast<double>(values.size() - 1));
}

void check_ids(std::span<const TokenId> tokens, const PerplexityOptions& options, std::size_t vocabulary) {
  for (std::size_t i = 0; i < tokens.size(); ++i)
    NIBBLE_REQUIRE(tokens[i] < vocabulary, InvalidArgument,
                   "perplexity: token id {} at index {} is outside the model's vocabulary of {}", tokens[i], i,
                   vocabulary);
  NIBBLE_REQUIRE(!options.bos || *options.bos < vocabulary, InvalidArgument,
                 "perplexity: the BOS id {} is outside the model's vocabulary of {}", options.bos.value_or(0),
                 vocabulary);
}

std::vector<Window> cut_windows(std::size_t tokens, std::size_t max_positions, const PerplexityOptions& options) {
  const std::size_t context = options.context != 0 ? options.context : max_positions;
  const std::size_t stride = options.stride != 0 ? options.stride : context / 2;
  return datasets::evaluation_windows(options.protocol, tokens, context, stride);
}

// NLLs of all targets of `windows`, in nats, window after window.
std::vector<double> score(const model::Model& model, std::span<const TokenId> text, std::span<const Window> windows,
                          const PerplexityOptions& options) {
  std::size_t total = 0;
  for (const Window& window : windows) total += window.end - window.begin;
  const std::optional<TokenId> bos = options.protocol == Protocol::kHalf ? options.bos : std::nullopt;
  std::vector<double> nll;
  std::size_t run = 0, reported = 0;
  for (const auto group : group_windows(windows, options.batch_tokens)) {
    const WindowBatch batch = make_window_batch(text, group, bos);
    const std::size_t before = nll.size();
    nll.resize(before + batch.targets.size(), kNaN);
    visit_scored_logits(model, batch, options.forward, [&](std::size_t first, MatrixView<const float> logits) {
      parallel_for_tiles(logits.rows(), kRowTile, [&](std::size_t begin, std::size_t end) {
        for (std::size_t row = begin; row < end; ++row)
          nll[before + first + row] = negative_log_likelihood(logits.row(row), batch.targets[first + row]);
      });
    });
    run += batch.tokens.size();
    if (options.progress && (run == total || run - reported >= total / kMostProgressReports)) {
      options.progress({"perplexity", static_cast<double>(run), static_cast<double>(total), "tokens"});
      reported = run;
    }
  }
  return nll;
}

std::vector<double> window_means(std::span<const Window> windows, std::span<const double> nll) {
  std::vector<double> means;
  means.reserve(windows.size());
  std::size_t first = 0;
  for (const Window& window : windows) {
    const std::size_t count = window.last_target - window.first_target;
    means.push_back(mean(nll.subspan(first, count)));
    first += count;
  }
  return means;
}

double bits_per_byte(std::span<const TokenId> text, std::span<const Window> windows, std::span<const double> nll,
                     const std::function<std::size_t(TokenId)>& byte_length) {
  if (!byte_length) return kNaN;
  std::uint64_t bytes = 0;
  for (const Window& window : windows)
    for (std::size_t target = window.first_target; target < window.last_target; ++target)
      bytes += byte_length(text[target]);
  if (bytes == 0) return kNaN;
  return std::accumulate(nll.begin(), nll.end(), 0.0) / std::numbers::ln2 / static_cast<double>(bytes);
}

}  // namespace

double negative_log_likelihood(std::span<const float> logits, TokenId target) {
  NIBBLE_REQUIRE(target < logits.size(), InvalidArgument, "negative log-likelihood: target {} of {} logits", target,
                 logits.size());
  return log_sum_exp(logits) - static_cast<double>(logits[target]);
}

PerplexityResult perplexity(const model::Model& model, std::span<const TokenId> tokens,
                            const PerplexityOptions& options) {
  check_ids(tokens, options, model.config().vocabulary);
  const std::vector<Window> windows = cut_windows(tokens.size(), model.config().max_positions, options);

  const auto start = std::chrono::steady_clock::now();
  const std::vector<double> nll = score(model, tokens, windows, options);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;

  PerplexityResult result;
  result.window_nll = window_means(windows, nll);
  if (options.protocol == Protocol::kHalf) {
    result.nll_nats_per_token = mean(nll);
    result.perplexity_stderr = deviation(nll) / std::sqrt(static_cast<double>(nll.size()) - 1.0);
  } else {
    result.nll_nats_per_token = mean(options.average == Average::kTokens ? nll : result.window_nll);
    result.perplexity_stderr = deviation(result.window_nll) / std::sqrt(static_cast<double>(windows.size()));
  }
  result.perplexity = std::exp(result.nll_nats_per_token);
  result.perplexity_stderr *= result.perplexity;
  result.bits_per_byte = bits_per_byte(tokens, windows, nll, options.byte_length);
  result.tokens_scored = nll.size();
  for (const Window& window : windows) result.tokens_run += window.end - window.begin;
  result.tokens_per_second = static_cast<double>(result.tokens_run) / seconds.count();
  result.windows = windows.size();
  return result;
}

}  // namespace nibble::eval
