#include "model/transformer/cache/sequence.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/error.h"
#include "model/transformer/cache/state_cache.h"
#include "tests/model/transformer/logits_of.h"
#include "tests/model/transformer/toy_weights.h"
#include "tests/support/compare.h"
#include "tests/support/throws.h"
#include "tests/support/tiers.h"

namespace nibble::test {
namespace {

using model::Architecture;
using model::Attention;
using model::CacheKind;
using model::CacheOptions;
using model::CacheType;

constexpr std::size_t kTokens = 70;
// A window that does not slide within kTokens, nor divides them.
const std::vector<std::pair<std::string, CacheOptions>> kKinds = {
    {"none", {.kind = CacheKind::kNone, .capacity = kTokens + 3}},
    {"io", {.kind = CacheKind::kIo, .capacity = kTokens}},
    {"state", {.kind = CacheKind::kState, .capacity = kTokens}},
    {"window", {.kind = CacheKind::kWindow, .chunk = 16, .context = 96}},
    {"uneven window", {.kind = CacheKind::kWindow, .chunk = 7, .context = 80}}};

class SequenceTest : public testing::TestWithParam<std::string> {
 protected:
  template <class T>
  Matrix<T> extended(const model::Transformer<T>& over, const CacheOptions& cache,
                     const std::vector<std::size_t>& steps, const model::ForwardOptions& options = {}) const {
    const auto sequence = model::make_sequence(over, cache);
    return extended_logits_of(*sequence, tokens, steps, architecture.vocabulary, options);
  }
  const Architecture architecture = toy_architecture(GetParam());
  const ToyWeights weights{architecture, 7};
  const std::unique_ptr<model::Model> network = model::make_model(architecture, weights);
  const std::unique_ptr<model::Transformer<double>> in_double =
      model::make_dense_transformer<double>(architecture, weights);
  const std::vector<TokenId> tokens = toy_tokens(architecture, kTokens, 1);
};

// In double only the order of sums differs: 1e-12 is some thousand roundings, and a row in a wrong slot shows by far.
TEST_P(SequenceTest, EveryKindGivesTheLogitsOfOnePromptHoweverTheTokensAreCut) {
  if (beside_default_tier()) GTEST_SKIP() << "double knows no tiers of instructions";
  const Matrix<double> expected = logits_of<double>(*in_double, tokens);
  for (const auto& [name, cache] : kKinds)
    for (const auto& steps : std::vector<std::vector<std::size_t>>{{1}, {4}, {64}, {3, 1, 17, 2}, {kTokens}})
      for (const Attention attention : {Attention::kFused, Attention::kDecomposed})
        EXPECT_TRUE(
            relative_error_within(extended(*in_double, cache, steps, {attention}).values(), expected.values(), 1e-12))
            << name << ", steps of " << steps.front();
}

// Float: as in forward_test.cc.
TEST_P(SequenceTest, FloatAgreesForEveryKind) {
  const Matrix<float> expected = logits_of<float>(*network, tokens);
  for (const auto& [name, cache] : kKinds)
    for (const auto& steps : std::vector<std::vector<std::size_t>>{{1}, {5, 30}, {kTokens}})
      for (const Attention attention : {Attention::kFused, Attention::kDecomposed})
        EXPECT_TRUE(
            relative_error_within(extended(*network, cache, steps, {attention}).values(), expected.values(), 1e-5))
            << name << ", steps of " << steps.front();
}

// Keys and values are off by at most 2^-11 or, in int8, half of 1/127 of a row's largest: logits, which are sums over
// many of them, by less than that in the mean.
TEST_P(SequenceTest, SmallerTypesStayNear) {
  const Matrix<float> expected = logits_of<float>(*network, tokens);
  for (const auto& [name, plain] : kKinds) {
    if (plain.kind == CacheKind::kNone) continue;
    CacheOptions cache = plain;
    for (const auto& [type, limit] : {std::pair(CacheType::kF16, 1.0 / 2048), {CacheType::kInt8, 1.0 / 127}}) {
      cache.type = type;
      Matrix<float> previous;
      for (const auto& steps : std::vector<std::vector<std::size_t>>{{1}, {4}, {64}, {3, 1, 17, 2}, {kTokens}}) {
        const Matrix<float> actual = extended(*network, cache, steps);
        EXPECT_TRUE(relative_error_within(actual.values(), expected.values(), limit)) << name;
        EXPECT_FALSE(relative_error_within(actual.values(), expected.values(), limit / 1000)) << name;
        // Cutting changes the order of sums; where it tips a rounding of int8, a step of 1/127 shows in few values.
        if (previous.size() > 0) {
          EXPECT_TRUE(relative_error_within(actual.values(), previous.values(), limit / 4)) << name;
        }
        previous = actual;
      }
    }
  }
}

TEST_P(SequenceTest, StatesLiveSideBySide) {
  const auto other_tokens = toy_tokens(architecture, 40, 2);
  const Matrix<float> expected = logits_of<float>(*network, tokens), other = logits_of<float>(*network, other_tokens);
  for (const auto& [name, cache] : kKinds) {
    const auto a = model::make_sequence(*network, cache), b = model::make_sequence(*network, cache);
    const auto last_row = [&](model::Sequence<float>& sequence, std::span<const TokenId> part) {
      std::vector<float> row;
      sequence.extend(part, 1, [&](auto, MatrixView<const float> logits) {
        row.assign(logits.row(0).begin(), logits.row(0).end());
      });
      return row;
    };
    for (std::size_t i = 0; i < 40; i += 5) {
      EXPECT_TRUE(relative_error_within(last_row(*a, std::span(tokens).subspan(i, 5)), expected.row(i + 4), 1e-5));
      EXPECT_TRUE(relative_error_within(last_row(*b, std::span(other_tokens).subspan(i, 5)), other.row(i + 4), 1e-5));
    }
    a->reset();
    EXPECT_EQ(a->length(), 0u);
    EXPECT_EQ(b->length(), 40u);
    EXPECT_TRUE(relative_error_within(last_row(*a, std::span(tokens).first(11)), expected.row(10), 1e-5)) << name;
  }
}

TEST_P(SequenceTest, RefusesWhatDoesNotFitAndAppendsNothing) {
  for (const auto& [name, cache] : kKinds) {
    if (cache.kind == CacheKind::kWindow) continue;
    const auto sequence = model::make_sequence(*network, cache);
    sequence->extend(std::span(tokens).first(60), 0, {});
    const auto many = toy_tokens(architecture, 20, 3);
    EXPECT_TRUE(throws_with<InvalidArgument>([&] { sequence->extend(many, 0, {}); }, "20 tokens do not fit behind 60"));
    auto wrong = std::vector<TokenId>(tokens.begin(), tokens.begin() + 5);
    wrong[3] = 5000;
    EXPECT_TRUE(throws_with<InvalidArgument>([&] { sequence->extend(wrong, 0, {}); }, "token [3] is 5000"));
    EXPECT_TRUE(throws_with<InvalidArgument>([&] { sequence->extend(std::span(tokens).first(2), 3, {}); }, "3 rows"));
    EXPECT_EQ(sequence->length(), 60u) << name;
  }
  const auto window = model::make_sequence(*network, {.kind = CacheKind::kWindow, .chunk = 4, .context = 16});
  auto wrong = tokens;
  wrong[30] = 5000;
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { window->extend(wrong, 0, {}); }, "token [30] is 5000"));
  EXPECT_EQ(window->length(), 0u);
}

// A state of 10 positions has place for 32 keys: one block.
TEST_P(SequenceTest, BytesAreThoseOfTheFormula) {
  const model::AttentionSpec& attention = architecture.blocks.front().attention;
  const std::size_t rows = architecture.blocks.size() * attention.kv_heads, dim = attention.head_dim;
  const auto bytes = [&](const CacheOptions& options) {
    const std::uint64_t said = model::cache_bytes(architecture, options);
    EXPECT_EQ(model::make_sequence(*network, options)->bytes(), said);
    return said;
  };
  EXPECT_EQ(bytes({.kind = CacheKind::kNone, .capacity = 10}), 0u);
  EXPECT_EQ(bytes({.kind = CacheKind::kState, .capacity = 10}), rows * (32 + 10) * dim * 4);
  EXPECT_EQ(bytes({.kind = CacheKind::kState, .capacity = 64}), rows * (64 + 64) * dim * 4);
  EXPECT_EQ(bytes({.kind = CacheKind::kState, .type = CacheType::kF16, .capacity = 65}), rows * (96 + 65) * dim * 2);
  EXPECT_EQ(bytes({.kind = CacheKind::kState, .type = CacheType::kInt8, .capacity = 10}), rows * (32 + 10) * (dim + 4));
  EXPECT_EQ(bytes({.kind = CacheKind::kIo, .type = CacheType::kF16, .capacity = 10}), 2 * rows * (32 + 10) * dim * 2);
  EXPECT_EQ(bytes({.kind = CacheKind::kWindow, .chunk = 4, .context = 12}), 2 * rows * 12 * dim * 4);
  EXPECT_EQ(bytes({}), rows * ((architecture.max_positions + 31) / 32 * 32 + architecture.max_positions) * dim * 4);
}

TEST_P(SequenceTest, RefusesSettingsThatDoNotFitTogether) {
  const auto make = [&](const CacheOptions& options) {
    return [this, options] { model::make_sequence(*network, options); };
  };
  EXPECT_TRUE(throws_with<InvalidArgument>(make({.kind = CacheKind::kWindow, .chunk = 8, .context = 8}), "8 of 8"));
  EXPECT_TRUE(throws_with<InvalidArgument>(make({.kind = CacheKind::kWindow, .chunk = 0, .context = 8}), "0 of 8"));
  EXPECT_TRUE(throws_with<InvalidArgument>(make({.kind = CacheKind::kNone, .type = CacheType::kF16}), "no type"));
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { model::make_sequence(*in_double, {.type = CacheType::kInt8}); },
                                           "float model only"));
}

INSTANTIATE_TEST_SUITE_P(Families, SequenceTest, testing::Values("gpt2", "llama"),
                         [](const auto& instance) { return instance.param; });

// Everything that an architecture can say, in every kind of cache. The texts are longer than the windows and than what
// a state keeps for them (two blocks of 32 more at most), so that it slides.
class KnobSequence : public testing::TestWithParam<std::string> {
 protected:
  // Frequencies that depend on how far a text reaches: keys that are kept stay as they were.
  bool depends_on_length() const {
    for (const model::BlockSpec& block : architecture.blocks)
      if (block.attention.rotary && !model::same_frequencies(*block.attention.rotary, 1, length)) return true;
    return false;
  }
  template <class T>
  Matrix<T> extended(const model::Transformer<T>& over, const CacheOptions& cache,
                     const std::vector<std::size_t>& steps, Attention attention) const {
    const auto sequence = model::make_sequence(over, cache);
    return extended_logits_of(*sequence, tokens, steps, architecture.vocabulary, {attention});
  }
  std::size_t widest_window() const {
    std::size_t widest = 0;
    for (const model::BlockSpec& block : architecture.blocks) widest = std::max(widest, block.attention.window);
    return widest;
  }
  const Architecture architecture = toy_architecture(GetParam());
  const ToyWeights weights{architecture, 7};
  const std::size_t length = 99 + widest_window();
  const std::vector<TokenId> tokens = toy_tokens(architecture, length, 1);
  const std::vector<CacheOptions> kinds = {{.kind = CacheKind::kIo, .capacity = length},
                                           {.kind = CacheKind::kState, .capacity = length + 1},
                                           {.kind = CacheKind::kWindow, .chunk = 16, .context = length + 26},
                                           {.kind = CacheKind::kWindow, .chunk = 7, .context = length + 10}};
};

TEST_P(KnobSequence, GivesTheLogitsOfOnePromptHoweverTheTokensAreCut) {
  if (beside_default_tier()) GTEST_SKIP() << "double knows no tiers of instructions";
  if (depends_on_length()) GTEST_SKIP() << "is told apart by the length of the text";
  const auto in_double = model::make_dense_transformer<double>(architecture, weights);
  const Matrix<double> expected = logits_of<double>(*in_double, tokens);
  for (const CacheOptions& cache : kinds)
    for (const auto& steps : std::vector<std::vector<std::size_t>>{{1}, {3, 40, 1, 9}, {length}})
      for (const Attention attention : {Attention::kFused, Attention::kDecomposed})
        EXPECT_TRUE(
            relative_error_within(extended(*in_double, cache, steps, attention).values(), expected.values(), 1e-12))
            << static_cast<int>(cache.kind) << ", steps of " << steps.front();
  const Matrix<double> uncached =
      extended(*in_double, {.kind = CacheKind::kNone, .capacity = length + 3}, {100}, Attention::kFused);
  EXPECT_TRUE(relative_error_within(uncached.values(), expected.values(), 1e-12));
}

// Few queries go another way in float, through kernels that decode in registers.
TEST_P(KnobSequence, FloatAndSmallerTypesStayNear) {
  if (depends_on_length()) GTEST_SKIP() << "is told apart by the length of the text";
  const auto network = model::make_model(architecture, weights);
  const Matrix<float> expected = logits_of<float>(*network, tokens);
  for (CacheOptions cache : kinds) {
    if (cache.kind == CacheKind::kIo) continue;
    for (const auto& [type, limit] :
         {std::pair(CacheType::kF32, 2e-5), {CacheType::kF16, 2.0 / 2048}, {CacheType::kInt8, 4.0 / 127}}) {
      cache.type = type;
      Matrix<float> previous;
      for (const auto& steps : std::vector<std::vector<std::size_t>>{{1}, {3, 40, 1, 9}, {length}}) {
        const Matrix<float> actual = extended(*network, cache, steps, Attention::kFused);
        EXPECT_TRUE(relative_error_within(actual.values(), expected.values(), limit))
            << static_cast<int>(cache.kind) << ", steps of " << steps.front();
        // Cut in another way, the same values are kept: only orders of sums differ, and few tip a rounding.
        if (previous.size() > 0) {
          EXPECT_TRUE(relative_error_within(actual.values(), previous.values(), limit / 2));
        }
        previous = actual;
      }
    }
  }
}

TEST_P(KnobSequence, StartsAfreshAndTakesTheBytesOfTheFormula) {
  if (depends_on_length()) GTEST_SKIP() << "is told apart by the length of the text";
  const auto in_double = model::make_dense_transformer<double>(architecture, weights);
  const auto network = model::make_model(architecture, weights);
  const Matrix<double> expected = logits_of<double>(*in_double, tokens);
  for (const CacheOptions& cache : kinds) {
    const auto sequence = model::make_sequence(*in_double, cache);
    EXPECT_EQ(model::make_sequence(*network, cache)->bytes(), model::cache_bytes(architecture, cache));
    sequence->extend(toy_tokens(architecture, length, 2), 0, {});
    sequence->reset();
    EXPECT_EQ(sequence->length(), 0u);
    EXPECT_TRUE(relative_error_within(extended_logits_of(*sequence, tokens, {50, 1}, architecture.vocabulary).values(),
                                      expected.values(), 1e-12));
  }
}

INSTANTIATE_TEST_SUITE_P(Knobs, KnobSequence, testing::ValuesIn(knobs()),
                         [](const auto& instance) { return test_name(instance.param); });

// A layer with a window keeps what that needs: 37 positions are two blocks of 32 and another one for what is new.
TEST(WindowedLayers, KeepNoMoreThanTheirWindowNeeds) {
  Architecture architecture = toy_llama();
  architecture.blocks[0].attention.window = 37;
  const std::size_t row = 2 * 10 * 4, all = 1000;  // key-value heads, head_dim, bytes
  const auto bytes = [&](const CacheOptions& options) { return model::cache_bytes(architecture, options); };
  EXPECT_EQ(bytes({.kind = CacheKind::kState, .capacity = all}), (2 * 96 + 1024 + 1000) * row);
  EXPECT_EQ(bytes({.kind = CacheKind::kIo, .capacity = all}), 2 * (2 * 96 + 1024 + 1000) * row);
  EXPECT_EQ(bytes({.kind = CacheKind::kState, .capacity = 80}), 2 * (96 + 80) * row);
  EXPECT_EQ(bytes({.kind = CacheKind::kWindow, .chunk = 16, .context = 512}), 2 * (16 + 36 + 512) * row);
  architecture.blocks[0].attention.window = 4096;
  EXPECT_EQ(bytes({.kind = CacheKind::kState, .capacity = 100000}), (2 * (4096 + 128) + 2 * 100000) * row);
}

// Tokens that came to nothing may be given again while those that the window needs are still there.
TEST(WindowedLayers, RefuseToGoOnBehindDroppedPositions) {
  Architecture architecture = toy_llama();
  architecture.blocks[0].attention.window = 5;
  const auto network = model::make_dense_transformer<double>(architecture, ToyWeights(architecture, 1));
  const auto tokens = toy_tokens(architecture, 400, 1);
  const Matrix<double> expected = logits_of<double>(*network, std::span(tokens).first(110));
  model::StateCache<double, double> cache(architecture, 400);
  const auto extend = [&](std::size_t first, std::size_t count, Matrix<double>* logits) {
    const std::size_t last[] = {count - 1};
    network->extend(std::span(tokens).subspan(first, count), cache, last, [&](auto, MatrixView<const double> values) {
      *logits = Matrix<double>(1, values.cols());
      std::copy_n(values.data(), values.cols(), logits->data());
    });
  };
  Matrix<double> logits;
  extend(0, 100, &logits);
  cache.advance(100);
  extend(100, 10, &logits);  // does not count
  extend(100, 10, &logits);
  EXPECT_TRUE(relative_error_within(logits.values(), expected.row(109), 1e-12));
  extend(100, 200, &logits);  // does not count either
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { extend(100, 10, &logits); }, "position 100", "reset"));
  cache.reset();
  extend(0, 110, &logits);
  EXPECT_TRUE(relative_error_within(logits.values(), expected.row(109), 1e-12));
}

// With one layer, keys and values depend on their own token alone, so a window gives what a prompt of the visible
// tokens gives: rotary embeddings see only distances.
TEST(SlidingWindow, SeesItsContextAndNothingBefore) {
  const Architecture architecture = toy_llama({.layers = 1});
  const ToyWeights weights(architecture, 3);
  const auto in_double = model::make_dense_transformer<double>(architecture, weights);
  const auto tokens = toy_tokens(architecture, 50, 4);
  const std::size_t chunk = 4, context = 10;
  for (const std::vector<std::size_t>& steps : {std::vector<std::size_t>{1}, {3, 9}, {50}}) {
    const auto sequence =
        model::make_sequence(*in_double, {.kind = CacheKind::kWindow, .chunk = chunk, .context = context});
    const Matrix<double> actual = extended_logits_of(*sequence, tokens, steps, architecture.vocabulary);
    for (std::size_t position = 0; position < tokens.size(); ++position) {
      const std::size_t chunk_start = position / chunk * chunk, kept = context - chunk;
      const std::size_t first = chunk_start > kept ? chunk_start - kept : 0;
      const auto visible = std::span<const TokenId>(tokens).subspan(first, position - first + 1);
      const Matrix<double> expected = logits_of<double>(*in_double, visible);
      ASSERT_TRUE(relative_error_within(actual.row(position), expected.row(visible.size() - 1), 1e-12)) << position;
    }
  }
}

TEST(SlidingWindow, RefusesToPassLearnedPositions) {
  const Architecture architecture = toy_gpt2({.max_positions = 21});  // ends within a chunk
  const auto network = model::make_model(architecture, ToyWeights(architecture, 1));
  const auto tokens = toy_tokens(architecture, 22, 1);
  const auto sequence = model::make_sequence(*network, {.kind = CacheKind::kWindow, .chunk = 4, .context = 64});
  const Matrix<float> expected = logits_of<float>(*network, std::span(tokens).first(21));
  EXPECT_TRUE(relative_error_within(
      extended_logits_of(*sequence, std::span(tokens).first(21), {1}, architecture.vocabulary).values(),
      expected.values(), 1e-5));
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { sequence->extend(std::span(tokens).last(1), 0, {}); },
                                           "1 tokens do not fit behind 21"));
}

// Frequencies that follow the length of a text: what fills a context up must not count. Double: as above.
TEST(LengthDependentFrequencies, AreThoseOfTheTokensAlone) {
  Architecture architecture = toy_architecture("llama");
  for (model::BlockSpec& block : architecture.blocks) {
    model::RotaryScaling& scaling = block.attention.rotary->scaling;
    scaling = {};
    scaling.kind = model::RotaryScaling::Kind::kDynamic;
    scaling.factor = 4.0, scaling.original_context = 20;
  }
  ASSERT_TRUE(model::frequencies_follow_length(architecture));
  const ToyWeights weights(architecture, 3);
  const auto network = model::make_dense_transformer<double>(architecture, weights);
  const std::vector<TokenId> tokens = toy_tokens(architecture, 30, 5);
  for (const auto& [name, cache] : kKinds) {
    if (cache.kind == CacheKind::kWindow) continue;  // takes a prompt chunk by chunk: keys keep their chunk's
    const auto sequence = model::make_sequence(*network, cache);
    const Matrix<double> logits = extended_logits_of(*sequence, tokens, {tokens.size()}, architecture.vocabulary);
    EXPECT_TRUE(relative_error_within(logits.values(), logits_of<double>(*network, tokens).values(), 1e-12)) << name;
  }
  // Nothing is kept: every call is a prompt of its own.
  const auto sequence = model::make_sequence(*network, kKinds[0].second);
  for (std::size_t n = 0; n < tokens.size(); ++n) {
    std::vector<double> newest;
    sequence->extend(std::span(tokens).subspan(n, 1), 1,
                     [&](std::span<const std::size_t>, MatrixView<const double> rows) {
                       newest.assign(rows.row(0).begin(), rows.row(0).end());
                     });
    const Matrix<double> prompt = logits_of<double>(*network, std::span(tokens).first(n + 1));
    EXPECT_TRUE(relative_error_within(newest, prompt.row(n), 1e-12)) << n;
  }
}

// Short factors below 40 positions, long ones above: whoever gets there has keys of both, or runs the text again.
TEST(LongRopeSequence, RunsTheTextAgainWhereItOutgrowsTheOriginalContext) {
  constexpr std::size_t kContext = 40;
  Architecture architecture = toy_architecture("longrope rotary");
  for (auto& block : architecture.blocks) block.attention.rotary->scaling.original_context = kContext;
  const ToyWeights weights{architecture, 7};
  const auto network = model::make_dense_transformer<double>(architecture, weights);
  const std::vector<TokenId> tokens = toy_tokens(architecture, kTokens, 1);
  const auto kept = logits_of<double>(*network, std::span(tokens).first(kContext)),
             whole = logits_of<double>(*network, tokens);
  for (const auto& [name, cache] : kKinds) {
    if (cache.kind == CacheKind::kWindow) continue;
    for (const std::size_t step : {1u, 7u, 40u, 41u}) {
      const auto sequence = model::make_sequence(*network, cache);
      for (int twice = 0; twice < 2; ++twice, sequence->reset()) {
        for (std::size_t first = 0; first < kTokens; first += step) {
          const std::size_t count = std::min(step, kTokens - first), end = first + count;
          EXPECT_THROW(sequence->extend(std::vector<TokenId>(1, 1u << 30), 1, [](auto, auto) {}), InvalidArgument);
          sequence->extend(std::span(tokens).subspan(first, count), count,
                           [&](std::span<const std::size_t> rows, MatrixView<const double> logits) {
                             for (std::size_t r = 0; r < rows.size(); ++r) {
                               const std::size_t position = first + rows[r];
                               const auto expected = end <= kContext ? kept.row(position) : whole.row(position);
                               EXPECT_TRUE(relative_error_within(logits.row(r), expected, 1e-12))
                                   << name << ", steps of " << step << ", position " << position;
                             }
                           });
          EXPECT_EQ(sequence->length(), end);
        }
      }
    }
  }
}

}  // namespace
}  // namespace nibble::test
