#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "datasets/token_file.h"
#include "eval/quality/perplexity.h"
#include "model/checkpoint/checkpoint.h"
#include "model/checkpoint/weights.h"
#include "model/transformer/transformer.h"
#include "tests/support/compare.h"
#include "tests/support/files.h"

namespace nibble::test {

/// Perplexities of the three protocols, against those of an independent implementation in `golden` (a perplexity.json
/// of ../shared/golden), over the first tokens of `tokens`. Tolerance as ../shared/golden/README.md states it.
inline void expect_golden_perplexities(const std::filesystem::path& model_directory,
                                       const std::filesystem::path& golden, const std::filesystem::path& tokens) {
  using datasets::Protocol;
  constexpr Bound kGolden{.abs = 0.0, .rel = 1e-5};
  const auto expected = nlohmann::json::parse(read_file(golden));
  const auto checkpoint = model::Checkpoint::open(model_directory);
  const auto config = model::parse_config(checkpoint->config_text(), "config.json");
  const auto model = model::make_model(config, *model::make_float_provider(checkpoint));
  std::vector<model::TokenId> text = datasets::read_token_file(tokens, config.vocabulary);
  text.resize(expected.at("text_tokens").get<std::size_t>());

  eval::PerplexityOptions options;
  options.context = expected.at("context").get<std::size_t>();
  const auto run = [&](Protocol protocol) {
    options.protocol = protocol;
    return eval::perplexity(*model, text, options);
  };

  const auto& sliding = expected.at("sliding");
  options.stride = sliding.at("stride").get<std::size_t>();
  const auto windows = run(Protocol::kSliding);
  EXPECT_EQ(windows.windows, sliding.at("windows").get<std::size_t>());
  EXPECT_EQ(windows.tokens_scored, sliding.at("scored").get<std::uint64_t>());
  EXPECT_TRUE(near(windows.perplexity, sliding.at("ppl_mean_of_windows").get<double>(), kGolden));
  const auto first = sliding.at("first_windows_mean_nll").get<std::vector<double>>();
  EXPECT_TRUE(all_near(std::span(windows.window_nll).first(first.size()), first, kGolden));
  double total = 0.0;  // the token-weighted mean needs no second run
  const auto cut = datasets::evaluation_windows(Protocol::kSliding, text.size(), options.context, options.stride);
  for (std::size_t i = 0; i < cut.size(); ++i)
    total += windows.window_nll[i] * static_cast<double>(cut[i].last_target - cut[i].first_target);
  EXPECT_TRUE(near(std::exp(total / static_cast<double>(windows.tokens_scored)),
                   sliding.at("ppl_token_weighted").get<double>(), kGolden));

  const auto blocks = run(Protocol::kBlocks);
  EXPECT_EQ(blocks.windows, expected.at("blocks").at("blocks").get<std::size_t>());
  EXPECT_EQ(blocks.tokens_scored, expected.at("blocks").at("scored").get<std::uint64_t>());
  EXPECT_TRUE(near(blocks.perplexity, expected.at("blocks").at("ppl").get<double>(), kGolden));

  const auto half = run(Protocol::kHalf);
  EXPECT_EQ(half.tokens_scored, expected.at("half").at("scored").get<std::uint64_t>());
  EXPECT_TRUE(near(half.perplexity, expected.at("half").at("ppl").get<double>(), kGolden));
  EXPECT_TRUE(near(half.perplexity_stderr, expected.at("half").at("stderr").get<double>(), kGolden));
}

}  // namespace nibble::test
