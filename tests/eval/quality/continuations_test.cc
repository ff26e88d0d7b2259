#include "eval/quality/continuations.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "tests/model/transformer/logits_of.h"
#include "tests/model/transformer/toy_weights.h"
#include "tests/support/compare.h"
#include "tests/support/throws.h"

namespace nibble::test {
namespace {

using eval::Continuation;
using eval::ContinuationResult;

// Logits of a few units in float32 differ in their last digits by how tokens are cut into calls; a score adds up to 12.
constexpr double kTolerance = 1e-4;

std::vector<TokenId> part(const std::vector<TokenId>& tokens, std::size_t begin, std::size_t end) {
  return {tokens.begin() + static_cast<std::ptrdiff_t>(begin), tokens.begin() + static_cast<std::ptrdiff_t>(end)};
}

class Continuations : public testing::TestWithParam<std::string> {
 protected:
  // Each question by itself, in plain loops over the logits of one forward pass.
  eval::ContinuationScore plain(const Continuation& asked, std::size_t max_tokens) const {
    std::vector<TokenId> text = asked.context;
    text.insert(text.end(), asked.continuation.begin(), asked.continuation.end());
    text.pop_back();
    if (text.size() > max_tokens) text = part(text, text.size() - max_tokens, text.size());
    const Matrix<float> logits = logits_of(*network, text);
    eval::ContinuationScore score{.log_likelihood = 0.0, .greedy = true};
    for (std::size_t i = 0; i < asked.continuation.size(); ++i) {
      const auto row = logits.row(text.size() - asked.continuation.size() + i);
      double sum = 0.0;
      std::size_t largest = 0;
      for (std::size_t v = 0; v < row.size(); ++v) {
        sum += std::exp(static_cast<double>(row[v]));
        if (row[v] > row[largest]) largest = v;
      }
      score.log_likelihood += static_cast<double>(row[asked.continuation[i]]) - std::log(sum);
      score.greedy = score.greedy && largest == asked.continuation[i];
    }
    return score;
  }
  void expect_scores(const std::vector<Continuation>& questions, const eval::ContinuationOptions& options) const {
    const ContinuationResult result = eval::score_continuations(*network, questions, options);
    ASSERT_EQ(result.scores.size(), questions.size());
    for (std::size_t i = 0; i < questions.size(); ++i) {
      const auto expected = plain(questions[i], options.max_tokens > 0 ? options.max_tokens : 1024);
      EXPECT_TRUE(near(result.scores[i].log_likelihood, expected.log_likelihood, {.abs = kTolerance})) << i;
      EXPECT_EQ(result.scores[i].greedy, expected.greedy) << i;
    }
  }

  const model::Architecture architecture = toy_architecture(GetParam());
  const ToyWeights weights{architecture, 7};
  const std::unique_ptr<model::Model> network = model::make_model(architecture, weights);
  const std::vector<TokenId> tokens = toy_tokens(architecture, 200, 1), others = toy_tokens(architecture, 200, 2);

  // Endings of one context, texts that begin others, the same question twice, and some of their own.
  std::vector<Continuation> mixture() const {
    std::vector<Continuation> questions;
    for (std::size_t ending = 0; ending < 4; ++ending)
      questions.push_back({part(tokens, 0, 80), part(others, 20 * ending, 20 * ending + 3 * ending + 1)});
    questions.push_back({part(tokens, 0, 60), part(tokens, 60, 70)});
    questions.push_back({part(tokens, 0, 40), part(tokens, 40, 41)});
    questions.push_back(questions[1]);
    for (std::size_t begin = 100; begin < 180; begin += 13)
      questions.push_back({part(others, begin, begin + begin % 7 + 1), part(others, begin + 8, begin + 10)});
    return questions;
  }
};

TEST_P(Continuations, ScoresAreThoseOfEachQuestionByItself) {
  for (const std::size_t batch_tokens : {1u, 100u, 2048u}) expect_scores(mixture(), {.batch_tokens = batch_tokens});
}

TEST_P(Continuations, GreedyIsWhatGenerationWouldWrite) {
  std::vector<TokenId> text = part(tokens, 0, 10);
  for (int step = 0; step < 5; ++step) {
    const Matrix<float> logits = logits_of(*network, text);
    const auto last = logits.row(text.size() - 1);
    text.push_back(static_cast<TokenId>(std::max_element(last.begin(), last.end()) - last.begin()));
  }
  std::vector<TokenId> wrong = part(text, 10, 15);
  wrong[3] = wrong[3] == 0 ? 1 : 0;
  const std::vector<Continuation> questions{{part(text, 0, 10), part(text, 10, 15)}, {part(text, 0, 10), wrong}};
  const auto scores = eval::score_continuations(*network, questions, {}).scores;
  EXPECT_TRUE(scores[0].greedy);
  EXPECT_FALSE(scores[1].greedy);
}

TEST_P(Continuations, WhatIsTooLongLosesItsBeginning) {
  expect_scores({{part(tokens, 0, 100), part(tokens, 100, 105)}, {part(tokens, 3, 9), part(tokens, 9, 12)}},
                {.max_tokens = 20});
}

TEST_P(Continuations, CommonBeginningsRunOnce) {
  std::vector<Continuation> questions;
  for (std::size_t ending = 0; ending < 4; ++ending)
    questions.push_back({part(tokens, 0, 80), {ending < 2 ? 1u : 2u, static_cast<TokenId>(ending), 3}});
  const ContinuationResult shared = eval::score_continuations(*network, questions, {});
  // The context but for its last token, which already answers, and of each ending that token and two more.
  EXPECT_EQ(shared.tokens_run, model::frequencies_follow_length(architecture) ? 4u * 82 : 79u + 4u * 3);
  const std::vector<Continuation> nested{{part(tokens, 0, 30), part(tokens, 30, 31)},
                                         {part(tokens, 0, 10), part(tokens, 10, 12)},
                                         {part(tokens, 0, 30), {tokens[30] == 0 ? 1u : 0u}}};
  EXPECT_EQ(eval::score_continuations(*network, nested, {}).tokens_run, 30u);
}

INSTANTIATE_TEST_SUITE_P(Families, Continuations, testing::ValuesIn([] {
                           std::vector<std::string> names{"gpt2", "llama"};
                           for (const std::string& knob : knobs()) names.push_back(knob);
                           return names;
                         }()),
                         [](const auto& instance) { return test_name(instance.param); });

TEST(ContinuationArguments, WrongOnesAreNamed) {
  const model::Architecture architecture = toy_gpt2();
  const ToyWeights weights{architecture, 7};
  const auto network = model::make_model(architecture, weights);
  const auto score = [&](const Continuation& asked, std::size_t max_tokens = 0) {
    return [&network, asked, max_tokens] {
      (void)eval::score_continuations(*network, {&asked, 1}, {.max_tokens = max_tokens});
    };
  };
  EXPECT_TRUE(throws_with<InvalidArgument>(score({{}, {1}}), "continuation 0: expected at least one token of context"));
  EXPECT_TRUE(throws_with<InvalidArgument>(score({{1}, {}}), "got 1 and 0"));
  EXPECT_TRUE(throws_with<InvalidArgument>(score({{1}, {50}}), "token id 50 is outside the vocabulary of 50"));
  EXPECT_TRUE(throws_with<InvalidArgument>(score({{1}, {1, 2, 3}}, 2), "3 tokens to score do not fit into 2"));
  EXPECT_TRUE(throws_with<InvalidArgument>(score({{1}, {2}}, 2000), "the model has learned 1024 positions"));
  EXPECT_TRUE(eval::score_continuations(*network, {}, {}).scores.empty());
}

}  // namespace
}  // namespace nibble::test
