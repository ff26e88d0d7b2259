#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "core/text/json.h"
#include "datasets/token_file.h"
#include "eval/quality/perplexity.h"
#include "model/checkpoint/checkpoint.h"
#include "model/checkpoint/weights.h"
#include "model/transformer/transformer.h"
#include "tests/support/compare.h"
#include "tests/support/files.h"

namespace nibble::test {

/// Perplexities against those that an independent implementation found, which are in a perplexity.json of
/// ../shared/golden, over the first tokens of `tokens`. Tolerance as ../shared/golden/README.md states it.
class GoldenPerplexity {
 public:
  GoldenPerplexity(const std::filesystem::path& model_directory, const std::filesystem::path& golden,
                   const std::filesystem::path& tokens)
      : golden_(nlohmann::json::parse(read_file(golden))) {
    const auto checkpoint = model::Checkpoint::open(model_directory);
    const auto architecture = checkpoint->architecture();
    model_ = model::make_model(architecture, *model::make_float_provider(checkpoint));
    text_ = datasets::read_token_file(tokens, architecture.vocabulary, count(golden_, "text_tokens"));
    options_.context = count(golden_, "context");
    options_.stride = count(golden_.at("sliding"), "stride");
  }

  void check_sliding() {
    const auto& expected = golden_.at("sliding");
    const auto result = run(datasets::Protocol::kSliding, expected);
    EXPECT_EQ(result.windows, count(expected, "windows"));
    EXPECT_TRUE(near(result.perplexity, value(expected, "ppl_mean_of_windows"), kGolden));
    const auto first = expected.at("first_windows_mean_nll").get<std::vector<double>>();
    EXPECT_TRUE(all_near(std::span(result.window_nll).first(first.size()), first, kGolden));
    // The token-weighted mean needs no second run.
    double nll = 0.0;
    const auto windows =
        datasets::evaluation_windows(options_.protocol, text_.size(), options_.context, options_.stride);
    for (std::size_t i = 0; i < windows.size(); ++i)
      nll += result.window_nll[i] * static_cast<double>(windows[i].last_target - windows[i].first_target);
    nll /= static_cast<double>(result.tokens_scored);
    EXPECT_TRUE(near(std::exp(nll), value(expected, "ppl_token_weighted"), kGolden));
  }

  void check_blocks() {
    const auto& expected = golden_.at("blocks");
    const auto result = run(datasets::Protocol::kBlocks, expected);
    EXPECT_EQ(result.windows, count(expected, "blocks"));
    EXPECT_TRUE(near(result.perplexity, value(expected, "ppl"), kGolden));
  }

  void check_half() {
    const auto& expected = golden_.at("half");
    const auto result = run(datasets::Protocol::kHalf, expected);
    EXPECT_TRUE(near(result.perplexity, value(expected, "ppl"), kGolden));
    EXPECT_TRUE(near(result.perplexity_stderr, value(expected, "stderr"), kGolden));
  }

 private:
  static constexpr Bound kGolden{.abs = 0.0, .rel = 1e-5};
  static std::size_t count(const nlohmann::json& of, const char* key) { return of.at(key).get<std::size_t>(); }
  static double value(const nlohmann::json& of, const char* key) { return of.at(key).get<double>(); }

  eval::PerplexityResult run(datasets::Protocol protocol, const nlohmann::json& expected) {
    options_.protocol = protocol;
    const auto result = eval::perplexity(*model_, text_, options_);
    EXPECT_EQ(result.tokens_scored, count(expected, "scored"));
    return result;
  }

  nlohmann::json golden_;
  std::unique_ptr<model::Model> model_;
  std::vector<TokenId> text_;
  eval::PerplexityOptions options_;
};

}  // namespace nibble::test
