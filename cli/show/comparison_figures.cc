#include "cli/show/comparison_figures.h"

#include <fmt/format.h>

#include <cmath>

#include "cli/terminal/human.h"
#include "core/text/estimate.h"
#include "core/text/json.h"

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
  const int digits = decimals_beside(comparison.kl_mean_stderr, 6);
  return {
      {"reference",
       fmt::format("{}, perplexity {}", reference,
                   estimate_text(comparison.reference.perplexity, comparison.reference.perplexity_stderr, 4))},
      {"ratio", estimate_text(comparison.perplexity_ratio, comparison.perplexity_ratio_stderr, 5) +
                    (std::isnan(comparison.perplexity_ratio_stderr) ? "" : " (paired)")},
      {"KL divergence",
       fmt::format("{} nats per token; median {:.{}f}, 99 % {:.{}f}, 99.9 % {:.{}f}",
                   estimate_text(comparison.kl_mean, comparison.kl_mean_stderr, 6), comparison.kl_median, digits,
                   comparison.kl_99, digits - 2, comparison.kl_999, digits - 2)},
      {"same top token", fmt::format("{:.2f} %", 100.0 * comparison.top1_agreement)},
  };
}

nlohmann::ordered_json texts_json(const TokenInput& input, const std::vector<eval::TextPart>& parts) {
  auto texts = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto& [path, text_hash] = input.files[i];
    const eval::TextPart& part = parts[i];
    const double perplexity = std::exp(part.nll.mean);
    nlohmann::ordered_json text = {{"file", path},
                                   {"text_hash", nullptr},
                                   {"tokens", part.tokens},
                                   {"tokens_scored", part.tokens_scored},
                                   {"windows", part.windows},
                                   {"perplexity", perplexity},
                                   {"perplexity_stderr", perplexity * part.nll.standard_error}};
    if (text_hash) text["text_hash"] = *text_hash;
    if (part.kl) {
      text["kl_nats_per_token"] = part.kl->mean;
      text["kl_stderr"] = part.kl->standard_error;
    }
    texts.push_back(std::move(text));
  }
  return texts;
}

std::vector<std::pair<std::string, std::string>> texts_facts(const TokenInput& input, const std::string& use,
                                                             const std::vector<eval::TextPart>& parts) {
  std::vector<std::pair<std::string, std::string>> facts;
  if (!use.empty()) facts.emplace_back("use", use);
  if (parts.size() < 2) return facts;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const double perplexity = std::exp(parts[i].nll.mean);
    std::string line = fmt::format("{}: perplexity {}", input.files[i].path,
                                   estimate_text(perplexity, perplexity * parts[i].nll.standard_error, 4));
    if (const auto& kl = parts[i].kl) line += fmt::format(", KL {}", estimate_text(kl->mean, kl->standard_error, 6));
    line += fmt::format(", {} tokens in {} window{}", with_separators(parts[i].tokens_scored),
                        with_separators(parts[i].windows), parts[i].windows == 1 ? "" : "s");
    facts.emplace_back(i == 0 ? "texts" : "", line);
  }
  return facts;
}

}  // namespace nibble::cli
