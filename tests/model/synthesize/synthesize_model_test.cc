#include "model/synthesize/synthesize_model.h"

#include <gmock/gmock.h>

#include <cmath>

#include "core/error.h"
#include "core/machine/thread_pool.h"
#include "core/matrix/dtype.h"
#include "model/architecture/families.h"
#include "model/architecture/known_shapes.h"
#include "quant/store/load_model.h"
#include "tests/support/compare.h"
#include "tests/support/files.h"
#include "tests/support/throws.h"

namespace nibble::model {
namespace {

using test::near;
using test::TempDir;
using test::throws_with;

// A Llama so small that a test can run it, but with a tensor of more than one tile of random numbers.
constexpr const char* kSmallLlama = R"({"model_type": "llama", "vocab_size": 9000, "hidden_size": 128,
  "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 96,
  "max_position_embeddings": 64, "tie_word_embeddings": false})";
constexpr const char* kSmallGpt2 = R"({"model_type": "gpt2", "vocab_size": 50, "n_embd": 32, "n_layer": 2, "n_head": 4,
  "n_positions": 16})";

std::string weights_file(const std::filesystem::path& model) { return test::read_file(model / "model.safetensors"); }

std::vector<float> values_of(const model::Checkpoint& checkpoint, const std::string& name) {
  const model::TensorView tensor = checkpoint.tensor(name);
  std::vector<float> values(tensor.element_count());
  convert_to_f32(tensor.dtype, tensor.data.data(), values.size(), values.data());
  return values;
}

TEST(SynthesizeModel, BothFamiliesLoadAndGiveLogitsOfOrderOne) {
  for (const char* config : {kSmallLlama, kSmallGpt2}) {
    const TempDir temp;
    synthesize_model(config, temp / "model", {.seed = 3});
    const quant::LoadedModel model = quant::load_model(temp / "model");
    const std::vector<TokenId> tokens{1, 4, 9, 16, 25};
    const std::size_t starts[] = {0, 5}, rows[] = {4};
    double squares = 0.0;
    model.transformer->forward({tokens, starts}, rows, [&](auto, MatrixView<const float> logits) {
      for (const float logit : logits.row(0)) squares += static_cast<double>(logit) * static_cast<double>(logit);
    });
    // Rows of norm one times 0.02 √hidden: deviation 0.23 and 0.11; anything far off means exploding activations.
    const double deviation = std::sqrt(squares / static_cast<double>(model.architecture.vocabulary));
    EXPECT_GT(deviation, 0.05);
    EXPECT_LT(deviation, 0.5);
  }
}

TEST(SynthesizeModel, WeightsAreNormalWithTheDocumentedDeviations) {
  const TempDir temp;
  synthesize_model(kSmallLlama, temp / "model", {});
  const auto checkpoint = model::Checkpoint::open(temp / "model");
  const double residual = std::sqrt(2.0 * 2.0);
  const std::pair<const char*, double> expected[] = {
      {"model.embed_tokens.weight", 0.02},
      {"lm_head.weight", 0.02},
      {"model.layers.0.self_attn.q_proj.weight", 1.0 / std::sqrt(128.0)},
      {"model.layers.1.self_attn.o_proj.weight", 1.0 / std::sqrt(128.0) / residual},
      {"model.layers.1.mlp.down_proj.weight", 1.0 / std::sqrt(96.0) / residual},
  };
  for (const auto& [name, deviation] : expected) {
    const auto values = values_of(*checkpoint, name);
    double sum = 0.0, squares = 0.0, fourth = 0.0;
    for (const float value : values) {
      const double x = static_cast<double>(value) / deviation;
      sum += x;
      squares += x * x;
      fourth += x * x * x * x;
    }
    // Five standard errors: of the mean 1/√n, of the variance √(2/n), of the fourth moment √(96/n).
    const auto n = static_cast<double>(values.size());
    EXPECT_TRUE(near(sum / n, 0.0, {.abs = 5.0 / std::sqrt(n)})) << name;
    EXPECT_TRUE(near(squares / n, 1.0, {.abs = 5.0 * std::sqrt(2.0 / n)})) << name;
    EXPECT_TRUE(near(fourth / n, 3.0, {.abs = 5.0 * std::sqrt(96.0 / n)})) << name;
  }
  EXPECT_THAT(values_of(*checkpoint, "model.norm.weight"), testing::Each(1.0f));
}

TEST(SynthesizeModel, TheSeedDecidesTheBytesAndThreadsDoNot) {
  const TempDir temp;
  set_thread_count(1);
  synthesize_model(kSmallLlama, temp / "one", {.seed = 5});
  set_thread_count(3);
  synthesize_model(kSmallLlama, temp / "three", {.seed = 5});
  set_thread_count(0);
  synthesize_model(kSmallLlama, temp / "other", {.seed = 6});
  EXPECT_TRUE(weights_file(temp / "one") == weights_file(temp / "three"));
  EXPECT_FALSE(weights_file(temp / "one") == weights_file(temp / "other"));
}

TEST(SynthesizeModel, NoTwoTensorsAndNoTwoTilesAreAlike) {
  const TempDir temp;
  synthesize_model(kSmallLlama, temp / "model", {});
  const auto checkpoint = model::Checkpoint::open(temp / "model");
  const auto embedding = values_of(*checkpoint, "model.embed_tokens.weight");
  const auto head = values_of(*checkpoint, "lm_head.weight");
  const std::size_t tile = std::size_t{1} << 20;
  ASSERT_GT(embedding.size(), tile + 64);
  const auto some = [](const std::vector<float>& values, std::size_t begin) {
    return std::vector<float>(values.begin() + static_cast<std::ptrdiff_t>(begin),
                              values.begin() + static_cast<std::ptrdiff_t>(begin) + 64);
  };
  EXPECT_NE(some(embedding, 0), some(head, 0));
  EXPECT_NE(some(embedding, 0), some(embedding, tile));
}

TEST(SynthesizeModel, AnExistingOutputIsKeptUnlessAskedOtherwise) {
  const TempDir temp;
  synthesize_model(kSmallGpt2, temp / "model", {.seed = 1});
  const std::string before = weights_file(temp / "model");
  EXPECT_TRUE(
      throws_with<InvalidArgument>([&] { synthesize_model(kSmallGpt2, temp / "model", {.seed = 2}); }, "exists"));
  EXPECT_TRUE(weights_file(temp / "model") == before);
  synthesize_model(kSmallGpt2, temp / "model", {.seed = 2, .overwrite = true});
  EXPECT_FALSE(weights_file(temp / "model") == before);
}

// As much as 4096 blocks of Llama 3.1 405B have, 26 TB.
TEST(SynthesizeModel, WeightsThatTheDiskHasNoRoomForAreNotBegun) {
  const TempDir temp;
  const std::string config = R"({"model_type": "llama", "vocab_size": 128256, "hidden_size": 16384,
      "num_hidden_layers": 4096, "num_attention_heads": 128, "num_key_value_heads": 8, "intermediate_size": 53248})";
  EXPECT_TRUE(throws_with<FormatError>([&] { synthesize_model(config, temp / "model", {}); }, "synthesize: needs ",
                                       "for the weights", "are free"));
  EXPECT_FALSE(std::filesystem::exists(temp / "model"));
  EXPECT_FALSE(std::filesystem::exists(temp / "model.partial"));
}

TEST(Architectures, AllParseAndHaveTheParametersOfTheirNames) {
  // From the model cards, in millions; rounded as printed there.
  const std::pair<const char*, double> expected[] = {
      {"gpt2", 124},          {"gpt2-medium", 355},     {"gpt2-large", 774},
      {"gpt2-xl", 1558},      {"tinyllama-1.1b", 1100}, {"smollm-135m", 135},
      {"llama-2-7b", 6738},   {"llama-3.1-8b", 8030},   {"llama-3.1-70b", 70554},
      {"llama-3.2-1b", 1236}, {"llama-3.2-3b", 3213},   {"mistral-7b", 7242},
      {"qwen2.5-0.5b", 494},  {"qwen3-0.6b", 596},      {"qwen3-30b-a3b", 30532},
      {"gemma-2-2b", 2614},   {"gemma-3-1b", 1000},     {"phi-2", 2780},
      {"phi-3-mini", 3821},   {"pythia-70m", 70.4},     {"opt-125m", 125.2},
      {"olmo-2-1b", 1485},    {"smollm2-135m", 134.5},  {"mixtral-8x7b", 46703},
      {"gpt-oss-20b", 20915}, {"granite-3-2b", 2534},
  };
  EXPECT_EQ(std::size(expected), architecture_names().size());
  for (const auto& [name, millions] : expected) {
    const Architecture architecture = parse_architecture(architecture_config(name, std::nullopt), name);
    double parameters = 0.0;
    for (const Parameter* p : matrices(architecture)) parameters += static_cast<double>(p->weights());
    // Norms and biases, below a thousandth, are not counted here.
    EXPECT_TRUE(near(parameters / 1e6, millions, {.abs = 0.5, .rel = 2e-3})) << name;
  }
}

TEST(Architectures, LayersCanBeCutAndUnknownNamesAreExplained) {
  EXPECT_EQ(model::parse_architecture(architecture_config("llama-3.1-8b", 3), "cut").blocks.size(), 3u);
  EXPECT_EQ(model::parse_architecture(architecture_config("gpt2-xl", 1), "cut").blocks.size(), 1u);
  EXPECT_EQ(model::parse_architecture(architecture_config("gpt-oss-20b", 2), "cut").blocks.size(), 2u);
  EXPECT_TRUE(throws_with<InvalidArgument>([] { architecture_config("llama-3.1-8", std::nullopt); },
                                           "did you mean 'llama-3.1-8b'?"));
  EXPECT_TRUE(throws_with<InvalidArgument>([] { architecture_config("gpt2", 0); }, "1 to 4096"));
}

}  // namespace
}  // namespace nibble::model
