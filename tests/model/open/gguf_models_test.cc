#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "core/text/json.h"
#include "model/checkpoint/weights.h"
#include "model/open/open_model.h"
#include "model/transformer/build.h"
#include "tests/model/transformer/logits_of.h"
#include "tests/support/compare.h"
#include "tests/support/files.h"

// Small random models of five families with vocabularies of their own, laid out by the `gguf` package as llama.cpp's
// converter does, against transformers, tokenizers and sentencepiece (tests/data/gguf/make_models.py).

namespace nibble::test {
namespace {

// About a hundred roundings of the logits' own size: what two orders of summation over a few blocks differ by.
constexpr double kLogits = 2e-5;

class GgufModels : public testing::TestWithParam<const char*> {
 protected:
  std::filesystem::path file = source_path("tests/data/gguf/" + std::string(GetParam()) + ".gguf");
  nlohmann::json golden =
      nlohmann::json::parse(read_file(source_path("tests/data/gguf/" + std::string(GetParam()) + ".json")));
};

TEST_P(GgufModels, ComputeTheLogitsOfTheirFamily) {
  const auto checkpoint = model::open_checkpoint(file);
  const auto weights = model::make_float_provider(checkpoint);
  const auto network = model::build_transformer<float>(
      checkpoint->architecture(), *weights, [&](const model::Parameter& layer) { return weights->linear(layer); });
  const auto prompt = golden["prompt"].get<std::vector<TokenId>>();
  const Matrix<float> logits = logits_of<float>(*network, prompt);
  std::vector<float> expected;
  for (const auto& row : golden["logits"])
    for (const auto& value : row) expected.push_back(value.get<float>());
  std::vector<float> got;
  for (const std::size_t row : {std::size_t{11}, std::size_t{23}})
    got.insert(got.end(), logits.row(row).data(), logits.row(row).data() + logits.cols());
  EXPECT_TRUE(relative_error_within(got, expected, kLogits));
}

TEST_P(GgufModels, GiveTheIdsOfTheirTokenizer) {
  const auto tokenizer = model::open_tokenizer(file);
  ASSERT_EQ(golden["texts"].size(), golden["ids"].size());
  EXPECT_GE(golden["texts"].size(), 10u);
  for (std::size_t i = 0; i < golden["texts"].size(); ++i)
    EXPECT_EQ(tokenizer->encode(golden["texts"][i].get<std::string>()), golden["ids"][i].get<std::vector<TokenId>>())
        << golden["texts"][i];
}

INSTANTIATE_TEST_SUITE_P(, GgufModels, testing::Values("gemma2", "phi3", "mixtral", "gptneox", "qwen3"));

}  // namespace
}  // namespace nibble::test
