#include "cli/show/comparison_figures.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace nibble::cli {

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
      {"reference", fmt::format("{}, perplexity {:.4f} ± {:.4f}", reference, comparison.reference.perplexity,
                                comparison.reference.perplexity_stderr)},
      {"ratio",
       fmt::format("{:.5f} ± {:.5f} (paired)", comparison.perplexity_ratio, comparison.perplexity_ratio_stderr)},
      {"KL divergence",
       fmt::format("{:.6f} ± {:.6f} nats per token; median {:.6f}, 99 % {:.4f}, 99.9 % {:.4f}", comparison.kl_mean,
                   comparison.kl_mean_stderr, comparison.kl_median, comparison.kl_99, comparison.kl_999)},
      {"same top token", fmt::format("{:.2f} %", 100.0 * comparison.top1_agreement)},
  };
}

}  // namespace nibble::cli
