#include "cli/show/comparison_figures.h"

#include <fmt/format.h>

#include <cmath>

#include "core/text/json.h"

namespace nibble::cli {

std::string estimate_text(double value, double standard_error, int digits) {
  std::string text = fmt::format("{:.{}f}", value, digits);
  if (!std::isnan(standard_error)) text += fmt::format(" ± {:.{}f}", standard_error, digits);
  return text;
}

nlohmann::ordered_json comparison_json(const std::string& reference, const eval::ReferenceComparison& comparison) {
  return {{"model", reference},
          {"perplexity", comparison.reference.perplexity},
          {"perplexity_stderr", comparison.reference.perplexity_stderr},
          {"perplexity_ratio", comparison.perplexity_ratio},
          {"perplexity_ratio_stderr", comparison.perplexity_ratio_stderr},
          {"kl_nats_per_token", comparison.kl_mean},
          {"kl_stderr", comparison.kl_mean_stderr},
          {"kl_median", comparison.kl_median},
          {"kl_99", comparison.kl_99},
          {"kl_999", comparison.kl_999},
          {"kl_max", comparison.kl_max},
          {"top1_agreement", comparison.top1_agreement}};
}

std::vector<std::pair<std::string, std::string>> comparison_facts(const std::string& reference,
                                                                  const eval::ReferenceComparison& comparison) {
  return {
      {"reference",
       fmt::format("{}, perplexity {}", reference,
                   estimate_text(comparison.reference.perplexity, comparison.reference.perplexity_stderr, 4))},
      {"ratio", estimate_text(comparison.perplexity_ratio, comparison.perplexity_ratio_stderr, 5) +
                    (std::isnan(comparison.perplexity_ratio_stderr) ? "" : " (paired)")},
      {"KL divergence", fmt::format("{} nats per token; median {:.6f}, 99 % {:.4f}, 99.9 % {:.4f}",
                                    estimate_text(comparison.kl_mean, comparison.kl_mean_stderr, 6),
                                    comparison.kl_median, comparison.kl_99, comparison.kl_999)},
      {"same top token", fmt::format("{:.2f} %", 100.0 * comparison.top1_agreement)},
  };
}

}  // namespace nibble::cli
