#include "eval/speed/speed.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "eval/speed/work.h"
#include "model/synthesize/synthesize_model.h"
#include "model/transformer/build.h"
#include "quant/job/quantize_model.h"
#include "tests/quant/job/tiny_models.h"
#include "tests/support/compare.h"
#include "tests/support/files.h"
#include "tests/support/layers.h"
#include "tests/support/throws.h"

namespace nibble::eval {
namespace {

using test::near;
using test::throws_with;

struct MeasureSpeed : testing::Test {
  std::shared_ptr<const model::Checkpoint> checkpoint =
      model::Checkpoint::open(test::source_path("datasets/demo/llama-demo"));
  model::Architecture architecture = checkpoint->architecture();
  std::unique_ptr<model::Model> model = model::make_model(architecture, *model::make_float_provider(checkpoint));
};

TEST_F(MeasureSpeed, EveryCacheIsTimedAndSaysItsMemory) {
  using model::CacheKind;
  for (const CacheKind kind : {CacheKind::kNone, CacheKind::kIo, CacheKind::kState, CacheKind::kWindow}) {
    SpeedOptions options{.prompt = 10, .generate = 3, .repeat = 3};
    options.cache = {.kind = kind, .chunk = 8, .context = 32};
    const SpeedResult result = measure_speed(*model, options);
    EXPECT_GT(result.first_token_seconds.min, 0.0);
    EXPECT_LE(result.first_token_seconds.min, result.first_token_seconds.median);
    EXPECT_LE(result.first_token_seconds.median, result.first_token_seconds.max);
    EXPECT_GT(result.tokens_per_second.min, 0.0);
    options.cache.capacity = 14;
    EXPECT_EQ(result.cache_bytes, model::cache_bytes(architecture, options.cache));
    EXPECT_EQ(result.context, kind == CacheKind::kWindow ? 32u : 14u);
  }
}

TEST_F(MeasureSpeed, RefusesWhatDoesNotFit) {
  EXPECT_TRUE(throws_with<InvalidArgument>(
      [&] { measure_speed(*model, {.prompt = 10, .generate = 10, .context = 19}); }, "10", "19"));
  EXPECT_TRUE(throws_with<InvalidArgument>([&] { measure_speed(*model, {.prompt = 0}); }, "at least 1"));
}

TEST_F(MeasureSpeed, CountsTheWorkOfItsShape) {
  double weights = 0.0;
  for (const auto& layer : test::layers_of(architecture)) weights += static_cast<double>(layer.out * layer.in);
  const double head = 2.0 * static_cast<double>(architecture.vocabulary * architecture.hidden);
  double scores = 0.0;  // of one query and one key
  for (const auto& block : architecture.blocks) scores += 4.0 * static_cast<double>(block.attention.q_width());
  EXPECT_TRUE(near(prompt_flops(architecture, 1), 2.0 * weights + scores + head, {.rel = 1e-15}));
  EXPECT_TRUE(near(prompt_flops(architecture, 3), 6.0 * weights + 6.0 * scores + head, {.rel = 1e-15}));

  // Everything is float16 here: two bytes a weight, norms included; one of embedding and head is read whole.
  const auto table = 2 * architecture.vocabulary * architecture.hidden;
  const auto norms = 2 * (2 * architecture.blocks.size() + 1) * architecture.hidden;
  EXPECT_EQ(WeightBytes(*checkpoint).per_token(), 2 * static_cast<std::uint64_t>(weights) + table + norms);
  EXPECT_EQ(WeightBytes(*checkpoint).head(), table);
}

// A tied head that is stored again is read by nobody.
TEST(WeightBytes, LeaveOutWhatTheNetworkDoesNotRead) {
  const test::TempDir dir;
  auto model = test::tiny_gpt2(test::f16_tensor);
  model.write(dir / "plain");
  model.tensors.push_back(test::f16_tensor("lm_head.weight", {40, 16}, std::vector<float>(640, 1.0f)));
  model.write(dir / "again");
  const auto plain = model::Checkpoint::open(dir / "plain"), again = model::Checkpoint::open(dir / "again");
  EXPECT_EQ(WeightBytes(*again).per_token(), WeightBytes(*plain).per_token());
  EXPECT_EQ(WeightBytes(*again).head(), 2u * 40 * 16);
}

// Counts how often its tensors are listed.
class CountingCheckpoint final : public model::Checkpoint {
 public:
  explicit CountingCheckpoint(std::shared_ptr<const model::Checkpoint> inner) : inner_(std::move(inner)) {}
  const std::filesystem::path& directory() const override { return inner_->directory(); }
  const std::string& metadata() const override { return inner_->metadata(); }
  const model::Architecture& architecture() const override { return inner_->architecture(); }
  const std::vector<std::string>& tensor_names() const override {
    ++listed;
    return inner_->tensor_names();
  }
  bool contains(const std::string& name) const override { return inner_->contains(name); }
  model::TensorView tensor(const std::string& name) const override { return inner_->tensor(name); }
  std::uint64_t tensor_bytes() const override { return inner_->tensor_bytes(); }
  void check_intact(const model::TensorView& tensor) const override { inner_->check_intact(tensor); }
  void release(const model::TensorView& tensor) const override { inner_->release(tensor); }
  std::string fingerprint() const override { return inner_->fingerprint(); }

  mutable std::size_t listed = 0;

 private:
  std::shared_ptr<const model::Checkpoint> inner_;
};

TEST_F(MeasureSpeed, ListsTensorsOnceForAllThatItCounts) {
  const CountingCheckpoint counting(checkpoint);
  const WeightBytes weights(counting);
  EXPECT_LT(weights.head(), weights.per_token());
  EXPECT_EQ(counting.listed, 1u);
}

// Files of GPT-NeoX call it embed_out; codes are called after lm_head, the name that recipes know.
TEST(WeightBytes, OfTheHeadAreFoundUnderTheNameOfTheFamilysFiles) {
  const test::TempDir dir;
  model::synthesize_model(R"({"model_type": "gpt_neox", "vocab_size": 48, "hidden_size": 32, "num_hidden_layers": 1,
                              "num_attention_heads": 2, "intermediate_size": 64, "max_position_embeddings": 64,
                              "tie_word_embeddings": false})",
                          dir / "float", {});
  const auto plain = model::Checkpoint::open(dir / "float");
  EXPECT_EQ(WeightBytes(*plain).head(), 2u * 48 * 32);
  quant::QuantizeOptions options;
  options.model = dir / "float";
  options.output = dir / "coded";
  options.recipe = quant::Recipe::parse("{defaults: {bits: 4}, layers: [{match: lm_head, bits: 4}]}", "r");
  quant::quantize_model(options);
  const auto coded = model::Checkpoint::open(dir / "coded");
  EXPECT_EQ(WeightBytes(*coded).head(), 48u * 32 / 2 + 16 * 2) << "codes and one palette";
}

TEST(FitContext, LeavesRoomForPromptAndGeneration) {
  const auto fits = [](std::size_t context, std::optional<std::size_t> prompt, std::size_t generate) {
    const Fit fit = fit_context(context, prompt, generate);
    return std::vector<std::size_t>{fit.prompt, fit.generate};
  };
  EXPECT_EQ(fits(2048, std::nullopt, 128), (std::vector<std::size_t>{1919, 128}));
  EXPECT_EQ(fits(2048, 512, 128), (std::vector<std::size_t>{512, 128}));
  EXPECT_EQ(fits(128, 512, 128), (std::vector<std::size_t>{63, 64}));
  EXPECT_EQ(fits(4, std::nullopt, 128), (std::vector<std::size_t>{1, 2}));
  EXPECT_TRUE(throws_with<InvalidArgument>([] { fit_context(3, std::nullopt, 1); }, "at least 4"));
}

TEST(SpreadOf, IsTheMedianAndTheEnds) {
  const Spread odd = spread_of({3.0, 1.0, 2.0}), even = spread_of({4.0, 1.0, 2.0, 3.0});
  EXPECT_EQ(odd.median, 2.0);
  EXPECT_EQ(odd.min, 1.0);
  EXPECT_EQ(odd.max, 3.0);
  EXPECT_EQ(even.median, 2.5);
}

}  // namespace
}  // namespace nibble::eval
