#include "eval/quality/compare_logits.h"

#include <gtest/gtest.h>

#include <limits>

#include "model/transformer/cache/state_cache.h"
#include "tests/model/transformer/toy_weights.h"

namespace nibble::test {
namespace {

using eval::ComparedCache;
using model::Architecture;
using model::CacheKind;
using model::CacheOptions;
using model::CacheType;

constexpr std::size_t kTokens = 75;
constexpr double kTolerance = 1e-4;  // protocols.md; logits of these networks are of a few units

/// Writes the second row of every call one slot too far: what a mistake in chunked writes looks like.
class WrongSlot final : public model::StateCache<float, float> {
 public:
  using StateCache::StateCache;
  void attend(std::size_t layer, const model::AttentionShape& shape, MatrixView<const float> q,
              MatrixView<const float> k, MatrixView<const float> v, MatrixView<float> out,
              model::Attention how) override {
    Matrix<float> moved(k.rows(), k.cols());
    for (std::size_t r = 0; r < k.rows(); ++r) {
      const auto row = k.row(r == 1 && k.rows() > 2 ? 2 : r);
      std::copy(row.begin(), row.end(), moved.row(r).begin());
    }
    StateCache::attend(layer, shape, q, moved, v, out, how);
  }
};

class CompareLogits : public testing::TestWithParam<std::string> {
 protected:
  ComparedCache cache_of(const CacheOptions& options) const {
    return {"cache", [this, options] { return model::make_sequence(*network, options); }};
  }
  std::vector<eval::LogitDifferences> compare(const ComparedCache& cache) const {
    const std::size_t chunks[] = {1, 4, 64};
    const auto cuts = eval::cuts_of(chunks, tokens.size());
    return eval::compare_logits(*network, tokens, {&cache, 1}, cuts);
  }
  const model::Architecture architecture = test::toy_architecture(GetParam());
  const ToyWeights weights{architecture, 7};
  const std::unique_ptr<model::Model> network = model::make_model(architecture, weights);
  const std::vector<TokenId> tokens = toy_tokens(architecture, kTokens, 1);
};

TEST_P(CompareLogits, EveryKindOfCacheAgreesHoweverTheTokensAreCut) {
  for (const CacheOptions& options : {CacheOptions{.kind = CacheKind::kNone, .capacity = 80},
                                      {.kind = CacheKind::kIo, .capacity = kTokens},
                                      {.kind = CacheKind::kState, .capacity = kTokens},
                                      {.kind = CacheKind::kWindow, .chunk = 16, .context = 80}}) {
    const auto results = compare(cache_of(options));
    std::vector<std::string> cuts;
    for (const auto& result : results) {
      cuts.push_back(result.cut);
      EXPECT_TRUE(result.within(kTolerance)) << result.cut << ": " << result.largest;
      EXPECT_EQ(result.by_position.size(), kTokens);
      for (const double difference : result.by_position) EXPECT_LE(difference, result.largest);
    }
    EXPECT_EQ(cuts, (std::vector<std::string>{"1", "4", "64", "mixed", "all"}));
  }
}

TEST_P(CompareLogits, CatchesAWrongSlotWhereCallsAreLongEnough) {
  const ComparedCache faulty{
      "wrong slot",
      [&] { return model::make_sequence<float>(*network, std::make_unique<WrongSlot>(architecture, kTokens)); }};
  for (const auto& result : compare(faulty)) {
    EXPECT_EQ(result.within(kTolerance), result.cut == "1") << result.cut << ": " << result.largest;
    if (result.cut == "4") {
      EXPECT_LE(result.by_position[0], kTolerance);  // sees only its own key
      EXPECT_GT(result.by_position[1], kTolerance);
    }
  }
}

TEST_P(CompareLogits, SaysHowFarSmallerTypesAreOffWithoutJudgingThem) {
  ComparedCache half = cache_of({.type = CacheType::kF16, .capacity = kTokens});
  half.exact = false;
  for (const auto& result : compare(half)) {
    EXPECT_TRUE(result.within(0.0));
    EXPECT_GT(result.largest, 0.0);
  }
}

// extend() refuses NaN itself, so the way there is a sequence that leaves positions out.
TEST_P(CompareLogits, MissingLogitsNeverPass) {
  class Silent final : public model::Sequence<float> {
   public:
    void reset() override {}
    std::size_t length() const override { return 0; }
    std::size_t capacity() const override { return kTokens; }
    std::uint64_t bytes() const override { return 0; }

   private:
    void append(std::span<const TokenId>, std::size_t, const model::LogitSink<float>&,
                const model::ForwardOptions&) override {}
  };
  for (const auto& result : compare({"silent", [] { return std::make_unique<Silent>(); }}))
    EXPECT_FALSE(result.within(std::numeric_limits<double>::infinity()));
}

INSTANTIATE_TEST_SUITE_P(Families, CompareLogits, testing::Values("gpt2", "llama"),
                         [](const auto& instance) { return instance.param; });

}  // namespace
}  // namespace nibble::test
