#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>

#include "model/architecture/text_part.h"
#include "model/transformer/row_ops.h"
#include "tests/model/transformer/golden_files.h"
#include "tests/model/transformer/gradients_of.h"
#include "tests/model/transformer/logits_of.h"
#include "tests/support/compare.h"
#include "tests/support/golden_families.h"

// A small model of every family against the transformers library in float32: two windows of 48 tokens.

namespace nibble::test {
namespace {

using model::Attention;
using model::CacheKind;
using model::CacheOptions;

constexpr std::size_t kWindows = 2, kLength = 48, kPrompt = 8;
// About a hundred roundings of the logits' own size: what two orders of summation over four blocks differ by.
constexpr double kLogits = 2e-5;

// The sliding cache does not slide within kLength; nor do its chunks divide it.
const std::vector<std::pair<std::string, CacheOptions>> kKinds = {
    {"none", {.kind = CacheKind::kNone, .capacity = kLength + 3}},
    {"io", {.kind = CacheKind::kIo, .capacity = kLength}},
    {"state", {.kind = CacheKind::kState, .capacity = kLength}},
    {"window", {.kind = CacheKind::kWindow, .chunk = 7, .context = 64}}};

class FamiliesGolden : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    NIBBLE_NEEDS_FAMILY(GetParam());
    loaded_ = load(golden_family(GetParam()));
    golden_ = std::make_unique<GoldenTensors>(golden_family(GetParam()) / "golden.safetensors");
    tokens_ = golden_->ids("tokens");
    ASSERT_EQ(tokens_.size(), kWindows * kLength);
  }

  std::span<const TokenId> window(std::size_t w) const { return std::span(tokens_).subspan(w * kLength, kLength); }
  std::vector<float> expected_logits(std::size_t w) const {
    const Matrix<float> all = golden_->matrix("logits");
    const std::size_t size = kLength * all.cols();
    const auto part = all.values().subspan(w * size, size);
    return {part.begin(), part.end()};
  }
  const model::Model& network() const { return *loaded_.model; }

  LoadedModel loaded_;
  std::unique_ptr<GoldenTensors> golden_;
  std::vector<TokenId> tokens_;
};

TEST_P(FamiliesGolden, LogitsAgreeForBothAttentions) {
  for (const Attention attention : {Attention::kFused, Attention::kDecomposed})
    for (std::size_t w = 0; w < kWindows; ++w)
      EXPECT_TRUE(
          relative_error_within(logits_of(network(), window(w), {attention}).values(), expected_logits(w), kLogits))
          << "window " << w;
}

TEST_P(FamiliesGolden, SequencesOfABatchDoNotSeeEachOther) {
  const Matrix<float> both = logits_of<float>(network(), tokens_, {kLength, kLength});
  EXPECT_TRUE(relative_error_within(both.values(), golden_->matrix("logits").values(), kLogits));
}

// A mean over 47 targets of losses near 6, each off by about the logits' bound: 1e-6 of it.
TEST_P(FamiliesGolden, LossesAgree) {
  for (std::size_t w = 0; w < kWindows; ++w) {
    const Matrix<float> logits = logits_of(network(), window(w));
    double sum = 0.0;
    for (std::size_t r = 0; r + 1 < kLength; ++r) {
      const auto row = logits.row(r);
      sum += model::log_sum_exp(row.data(), row.size()) - static_cast<double>(row[window(w)[r + 1]]);
    }
    EXPECT_TRUE(near(sum / (kLength - 1.0), golden_->doubles("losses")[w], {.abs = 0.0, .rel = 1e-6})) << w;
  }
}

TEST_P(FamiliesGolden, EveryCacheGivesTheSameLogitsHoweverTheTokensAreCut) {
  for (const auto& [name, cache] : kKinds)
    for (const auto& steps : std::vector<std::vector<std::size_t>>{{1}, {5, 30}, {13}, {kLength}})
      for (const Attention attention : {Attention::kFused, Attention::kDecomposed}) {
        const auto sequence = model::make_sequence(network(), cache);
        const Matrix<float> logits =
            extended_logits_of(*sequence, window(1), steps, network().architecture().vocabulary, {attention});
        EXPECT_TRUE(relative_error_within(logits.values(), expected_logits(1), kLogits))
            << name << ", steps of " << steps.front();
      }
}

TEST_P(FamiliesGolden, GreedyContinuationsAreTheSameTokens) {
  const std::vector<TokenId> expected = golden_->ids("greedy");
  for (const auto& [name, cache] : kKinds) {
    const auto sequence = model::make_sequence(network(), cache);
    std::vector<TokenId> text(window(0).begin(), window(0).begin() + kPrompt);
    std::size_t seen = 0;
    while (text.size() < expected.size()) {
      TokenId next = 0;
      sequence->extend(std::span(text).subspan(seen), 1,
                       [&](std::span<const std::size_t>, MatrixView<const float> logits) {
                         const auto row = logits.row(0);
                         next = static_cast<TokenId>(std::max_element(row.begin(), row.end()) - row.begin());
                       });
      seen = text.size();
      text.push_back(next);
    }
    EXPECT_EQ(text, expected) << name;
  }
}

// dL/dW (out, in) and dL/db (out) of one linear layer.
struct Gradient {
  Matrix<float> weight;
  std::vector<float> bias;
};

std::map<std::string, Gradient> gradients_of_mean_loss(const model::Model& network, std::span<const TokenId> tokens) {
  LossInput<float> input{{tokens.begin(), tokens.end()}, {0, tokens.size()}, {}, {}};
  for (std::size_t r = 0; r < tokens.size(); ++r)
    input.targets.push_back(r + 1 < tokens.size() ? static_cast<std::int64_t>(tokens[r + 1]) : -1);
  input.weights.assign(tokens.size(), 1.0F / static_cast<float>(tokens.size() - 1));
  std::map<std::string, Gradient> gradients;
  model::Hooks<float> hooks;
  hooks.on_linear_gradient = [&](const std::string& module, MatrixView<const float> x, MatrixView<const float> dy,
                                 const model::HookRows&) {
    const Matrix<float> part = weight_gradient<float>(x, dy);
    Gradient& sum = gradients.try_emplace(module, Gradient{Matrix<float>(dy.cols(), x.cols()), {}}).first->second;
    sum.bias.resize(dy.cols());
    for (std::size_t i = 0; i < part.size(); ++i) sum.weight.values()[i] += part.values()[i];
    for (std::size_t r = 0; r < dy.rows(); ++r)
      for (std::size_t o = 0; o < dy.cols(); ++o) sum.bias[o] += dy(r, o);
  };
  run_backward(network, input, hooks);
  return gradients;
}

// Values of rows as (out, in) to where the file has them.
void scatter(const model::Stored& stored, std::size_t cols, const std::function<float(std::size_t, std::size_t)>& value,
             std::vector<float>& file) {
  const std::size_t slice = stored.rows * cols;
  file.resize(std::max<std::size_t>(1, stored.slices) * slice);
  for (std::size_t i = 0; i < stored.part.count; ++i)
    for (std::size_t c = 0; c < cols; ++c) {
      const std::size_t row = stored.part.row(i);
      const std::size_t at = stored.transposed ? c * stored.rows + row : row * cols + c;
      file.at(stored.slice * slice + at) += value(i, c);
    }
}

// Gradients of the checkpoint's own tensors, from those of the layers that are parts of them, squared and summed over
// the windows. Float32 on both sides: 1e-3 is what small entries, sums of many cancelling terms, differ by.
TEST_P(FamiliesGolden, FisherInformationOfTheFilesTensorsAgrees) {
  const model::Architecture& architecture = network().architecture();
  std::map<std::string, std::vector<float>> fisher;
  for (std::size_t w = 0; w < kWindows; ++w) {
    const auto gradients = gradients_of_mean_loss(network(), window(w));
    for (const model::Parameter* p : model::matrices(architecture)) {
      const auto found = gradients.find(p->module);
      const auto square = [](float g) { return g * g; };
      // An expert that no token chose has no gradient, and its place in a stack stays zero.
      const bool reached = found != gradients.end();
      scatter(
          p->weight, p->in,
          [&](std::size_t r, std::size_t c) { return reached ? square(found->second.weight(r, c)) : 0.0F; },
          fisher[p->weight.tensor]);
      if (p->biased)
        scatter(
            p->bias, 1, [&](std::size_t r, std::size_t) { return reached ? square(found->second.bias[r]) : 0.0F; },
            fisher[p->bias.tensor]);
    }
  }
  std::size_t compared = 0;
  for (const std::string& name : golden_->names()) {
    if (!name.starts_with("fisher.")) continue;
    const std::string stored = name.substr(7);  // longer in models that see
    const std::vector<std::string> names = architecture.candidates(model::name_in_text_model(stored).value_or(stored));
    const auto mine =
        std::find_if(names.begin(), names.end(), [&](const std::string& n) { return fisher.contains(n); });
    ASSERT_NE(mine, names.end()) << name;
    EXPECT_TRUE(relative_error_within(fisher[*mine], golden_->matrix(name).values(), 1e-3)) << name;
    ++compared;
  }
  EXPECT_GE(compared, architecture.blocks.size() * 4);
}

INSTANTIATE_TEST_SUITE_P(Families, FamiliesGolden, testing::ValuesIn(kGoldenFamilies), family_test_name);

}  // namespace
}  // namespace nibble::test
