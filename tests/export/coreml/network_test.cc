#include "export/coreml/network.h"

#include <gtest/gtest.h>

#include <numeric>

#include "core/error.h"
#include "export/coreml/package.h"
#include "export/coreml/verify.h"
#include "model/transformer/cache/sequence.h"
#include "quant/store/load_model.h"
#include "tests/export/coreml/mil_interpreter.h"
#include "tests/export/coreml/packages.h"
#include "tests/quant/job/tiny_models.h"
#include "tests/support/compare.h"
#include "tests/support/files.h"
#include "tests/support/golden_families.h"
#include "tests/support/throws.h"

namespace nibble::coreml {
namespace {

using test::TempDir;
using Tokens = std::vector<std::uint32_t>;

constexpr NetworkForm kGpuForm{Layout::kGpu, 24, 0, 0};
// Calls of 4 tokens, or of one, behind the 8 positions before them.
constexpr NetworkForm kPromptForm{Layout::kAne, 24, 4, 8}, kExtendForm{Layout::kAne, 24, 1, 8};

Tokens tokens_of(std::size_t count, std::size_t vocabulary) {
  Tokens tokens(count);
  for (std::size_t i = 0; i < count; ++i) tokens[i] = static_cast<std::uint32_t>((i * 37 + 11) % vocabulary);
  return tokens;
}

Tokens part(const Tokens& tokens, std::size_t begin, std::size_t count) {
  return {tokens.begin() + static_cast<std::ptrdiff_t>(begin),
          tokens.begin() + static_cast<std::ptrdiff_t>(begin + count)};
}

// Logits of all tokens through a cache of this program, in calls of `chunk`.
std::vector<float> expected_logits(const quant::LoadedModel& loaded, const Tokens& tokens,
                                   const model::CacheOptions& cache, std::size_t chunk) {
  const auto sequence = model::make_sequence(*loaded.transformer, cache);
  std::vector<float> logits;
  for (std::size_t begin = 0; begin < tokens.size(); begin += chunk) {
    const Tokens call = part(tokens, begin, std::min(chunk, tokens.size() - begin));
    sequence->extend(call, call.size(), [&](std::span<const std::size_t>, MatrixView<const float> rows) {
      for (std::size_t r = 0; r < rows.rows(); ++r) logits.insert(logits.end(), rows.row(r).begin(), rows.row(r).end());
    });
  }
  return logits;
}

std::vector<float> in_calls(const Package& package, const Tokens& tokens, const std::vector<std::size_t>& calls) {
  test::MilInterpreter interpreter(package);
  std::vector<float> logits;
  std::size_t begin = 0;
  for (const std::size_t count : calls) {
    const std::vector<float> more = interpreter.extend_gpu(part(tokens, begin, count));
    logits.insert(logits.end(), more.begin(), more.end());
    begin += count;
  }
  return logits;
}

class CoreMlNetwork : public testing::TestWithParam<const char*> {};

// The package stores float32 weights and sines as float16, half a unit in the last place of 11 bits each: 2^-12
// relative. Four blocks of some ten roundings in a row give a few times that; a row at a wrong slot gives over 0.1.
constexpr double kFloat16Weights = 4e-3;

TEST_P(CoreMlNetwork, GivesTheLogitsOfTheModelInEveryCut) {
  NIBBLE_NEEDS_FAMILY(GetParam());
  const TempDir dir;
  const auto loaded = quant::load_model(test::golden_family(GetParam()));
  try {
    require_supported(loaded.architecture, Layout::kGpu);
  } catch (const InvalidArgument& error) {
    const std::string text = error.what();
    EXPECT_TRUE(text.find("block 0") != std::string::npos || text.find("block ") != std::string::npos) << text;
    EXPECT_TRUE(loaded.architecture.has_experts() || loaded.architecture.blocks[0].attention.sinks) << text;
    return;
  }
  test::write_test_package(test::golden_family(GetParam()), dir / "gpu", {{"main", kGpuForm}});
  const Package package = read_package(dir / "gpu");
  ASSERT_NO_THROW(verify_package(package));
  const Tokens tokens = tokens_of(18, loaded.architecture.vocabulary);
  const std::vector<float> expected = expected_logits(loaded, tokens, {.capacity = 24}, tokens.size());
  const std::vector<float> at_once = in_calls(package, tokens, {18});
  EXPECT_TRUE(test::relative_error_within(at_once, expected, kFloat16Weights));
  // Arithmetic is the same in double: only the order of no sum changes, so calls agree to float's rounding.
  for (const std::vector<std::size_t>& calls : {std::vector<std::size_t>(18, 1), {4, 4, 4, 4, 2}, {5, 1, 7, 1, 1, 3}})
    EXPECT_TRUE(test::relative_error_within(in_calls(package, tokens, calls), at_once, 1e-6));

  // The Neural Engine's form: whole chunks that slide, twice beyond what is kept.
  test::write_test_package(test::golden_family(GetParam()), dir / "ane",
                           {{"prompt", kPromptForm}, {"extend", kExtendForm}});
  const Package window = read_package(dir / "ane");
  ASSERT_NO_THROW(verify_package(window));
  test::MilInterpreter interpreter(window);
  std::vector<float> logits;
  const Tokens whole = tokens_of(20, loaded.architecture.vocabulary);
  for (std::size_t begin = 0; begin < 16; begin += 4) {
    const auto more = interpreter.extend_ane("prompt", part(whole, begin, 4), static_cast<std::int64_t>(begin));
    logits.insert(logits.end(), more.begin(), more.end());
  }
  const std::vector<float> slid =
      expected_logits(loaded, part(whole, 0, 16), {.kind = model::CacheKind::kWindow, .chunk = 4, .context = 12}, 4);
  EXPECT_TRUE(test::relative_error_within(logits, slid, kFloat16Weights));
  // The other function goes on over the same states.
  for (std::size_t i = 16; i < 18; ++i)
    EXPECT_EQ(interpreter.extend_ane("extend", part(whole, i, 1), static_cast<std::int64_t>(i)).size(),
              loaded.architecture.vocabulary);
}

INSTANTIATE_TEST_SUITE_P(Golden, CoreMlNetwork, testing::ValuesIn(test::kGoldenFamilies), test::family_test_name);

TEST(CoreMlNetwork, ContinuesAPromptWithTheOtherFunction) {
  const TempDir dir;
  test::tiny_llama().write(dir / "model");
  test::write_test_package(dir / "model", dir / "ane", {{"prompt", kPromptForm}, {"extend", kExtendForm}});
  const auto loaded = quant::load_model(dir / "model");
  const Package package = read_package(dir / "ane");
  test::MilInterpreter interpreter(package);
  // Six tokens: the first chunk begins with two of padding, at positions before 0.
  const Tokens tokens = tokens_of(9, 40);
  const std::vector<float> expected = expected_logits(loaded, tokens, {.capacity = 24}, tokens.size());
  const std::vector<float> first = interpreter.extend_ane("prompt", {0, 0, tokens[0], tokens[1]}, -2);
  std::vector<float> logits(first.begin() + 2 * 40, first.end());
  const auto append = [&](const std::vector<float>& more) { logits.insert(logits.end(), more.begin(), more.end()); };
  append(interpreter.extend_ane("prompt", part(tokens, 2, 4), 2));
  for (std::size_t i = 6; i < 9; ++i)
    append(interpreter.extend_ane("extend", part(tokens, i, 1), static_cast<std::int64_t>(i)));
  EXPECT_TRUE(test::relative_error_within(logits, expected, kFloat16Weights));
}

TEST(CoreMlNetwork, CutsAWideHeadInPartsThatGiveTheSameLogits) {
  const TempDir dir;
  auto model = test::tiny_llama();
  constexpr std::size_t kVocabulary = 16400;
  const auto widen = [&](std::string_view name) {
    auto& tensor = model.tensor(name);
    tensor = test::f32_tensor(tensor.name, {kVocabulary, 16}, test::normal_values(kVocabulary * 16, 5, 0.2));
  };
  widen("model.embed_tokens.weight"), widen("lm_head.weight");
  const std::size_t at = model.config_json.find("\"vocab_size\"");
  ASSERT_NE(at, std::string::npos);
  const std::size_t colon = model.config_json.find(':', at), comma = model.config_json.find_first_of(",}", colon);
  model.config_json.replace(colon + 1, comma - colon - 1, std::to_string(kVocabulary));
  model.write(dir / "model");
  test::write_test_package(dir / "model", dir / "ane", {{"prompt", kPromptForm}});
  test::write_test_package(dir / "model", dir / "gpu", {{"main", kGpuForm}});
  const Package ane = read_package(dir / "ane"), gpu = read_package(dir / "gpu");
  verify_package(ane);
  std::size_t parts = 0;
  for (const Operation& operation : ane.model.functions.at("prompt").operations)
    for (const NamedType& output : operation.outputs)
      if (operation.type == "linear") {
        EXPECT_LT(output.type.tensor.shape.back(), 16384u);
        if (output.name.starts_with("products")) ++parts;
      }
  EXPECT_EQ(parts, 2u);
  test::MilInterpreter a(ane), b(gpu);
  const Tokens tokens{1, 5, 16399, 7};
  // Both compute in double from the same float16 weights; only one rounds 1/√head_dim to float16, 2^-12 of scores
  // that are below 1.
  EXPECT_TRUE(test::relative_error_within(a.extend_ane("prompt", tokens, 0), b.extend_gpu(tokens), 0x1p-12));
}

TEST(CoreMlNetwork, RefusesSizesThatTheModelHasNot) {
  const TempDir dir;
  test::tiny_gpt2().write(dir / "model");  // 24 learned positions
  const auto write = [&](const NetworkForm& form) {
    test::write_test_package(dir / "model", dir / "p", {{"main", form}});
  };
  EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { write({Layout::kGpu, 25, 0, 0}); }, "25 positions", "has 24"));
  EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { write({Layout::kAne, 24, 4, 3}); }, "4 tokens behind 3"));
}

// Its operations multiply queries of all positions alike.
TEST(CoreMlNetwork, EndsWhereQueriesWouldGrow) {
  const TempDir dir;
  test::tiny_llama().write(dir / "model");
  model::Architecture architecture = model::Checkpoint::open(dir / "model")->architecture();
  const std::size_t limit = position_limit(architecture);
  architecture.blocks.back().attention.growth = {0.1, limit - 1};
  EXPECT_EQ(position_limit(architecture), limit - 1);
}

}  // namespace
}  // namespace nibble::coreml
