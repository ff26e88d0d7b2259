#include "model/transformer/config.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/error.h"
#include "tests/support/compare.h"
#include "tests/support/files.h"
#include "tests/support/throws.h"

namespace nibble::test {
namespace {

using model::Config;
using model::Family;
using Json = nlohmann::json;

Json gpt2() {
  return {{"model_type", "gpt2"}, {"vocab_size", 50257}, {"n_embd", 768},        {"n_layer", 12},
          {"n_head", 12},         {"n_positions", 1024}, {"eos_token_id", 50256}};
}

Json llama() {
  return {{"model_type", "llama"},       {"vocab_size", 128256},
          {"hidden_size", 4096},         {"intermediate_size", 14336},
          {"num_hidden_layers", 32},     {"num_attention_heads", 32},
          {"num_key_value_heads", 8},    {"max_position_embeddings", 131072},
          {"rms_norm_eps", 1e-5},        {"rope_theta", 500000.0},
          {"bos_token_id", 128000},      {"eos_token_id", {128001, 128008, 128009}},
          {"tie_word_embeddings", false}};
}

Json llama3_scaling() {
  return {{"rope_type", "llama3"},
          {"factor", 8.0},
          {"low_freq_factor", 1.0},
          {"high_freq_factor", 4.0},
          {"original_max_position_embeddings", 8192}};
}

Config parse(const Json& json) { return model::parse_config(json.dump(), "config.json of 'toy'"); }

Json with(Json json, const char* key, Json value) {
  json[key] = std::move(value);
  return json;
}

TEST(ConfigOfGpt2, FillsInTheFamilysDefaults) {
  const Config config = parse(gpt2());
  EXPECT_EQ(config.family, Family::kGpt2);
  EXPECT_EQ(config.vocabulary, 50257u);
  EXPECT_EQ(config.hidden, 768u);
  EXPECT_EQ(config.heads, 12u);
  EXPECT_EQ(config.kv_heads, 12u);
  EXPECT_EQ(config.head_dim, 64u);
  EXPECT_EQ(config.intermediate, 3072u);
  EXPECT_EQ(config.max_positions, 1024u);
  EXPECT_TRUE(near(config.norm_epsilon, 1e-5, {}));
  EXPECT_TRUE(config.attention_bias && config.mlp_bias && config.tied_head);
  EXPECT_EQ(config.eos, 50256u);
  EXPECT_FALSE(config.bos.has_value());
}

TEST(ConfigOfGpt2, TakesAnInnerWidthAndTheOtherNameOfTheActivation) {
  const Config config = parse(with(with(gpt2(), "n_inner", 1000), "activation_function", "gelu_pytorch_tanh"));
  EXPECT_EQ(config.intermediate, 1000u);
  EXPECT_EQ(parse(with(gpt2(), "n_inner", nullptr)).intermediate, 3072u);
}

TEST(ConfigOfLlama, ReadsLlama31) {
  const Config config = parse(with(llama(), "rope_scaling", llama3_scaling()));
  EXPECT_EQ(config.family, Family::kLlama);
  EXPECT_EQ(config.kv_heads, 8u);
  EXPECT_EQ(config.head_dim, 128u);
  EXPECT_EQ(config.kv_width(), 1024u);
  EXPECT_FALSE(config.attention_bias || config.mlp_bias || config.tied_head);
  EXPECT_TRUE(near(config.rope_theta, 500000.0, {}));
  ASSERT_TRUE(config.rope_scaling.has_value());
  EXPECT_TRUE(near(config.rope_scaling->factor, 8.0, {}));
  EXPECT_EQ(config.rope_scaling->original_context, 8192u);
  EXPECT_EQ(config.eos, 128001u);
  EXPECT_EQ(config.stop_tokens, (std::vector<std::uint32_t>{128001, 128008, 128009}));
}

TEST(ConfigOfLlama, ReadsTheNewerRopeParameters) {
  Json rope = llama3_scaling();
  rope["rope_theta"] = 10000.0;
  const Config config = parse(with(llama(), "rope_parameters", rope));
  EXPECT_TRUE(config.rope_scaling.has_value());
  EXPECT_TRUE(near(config.rope_theta, 10000.0, {}));
}

TEST(ConfigOfLlama, TakesNullAndDefaultScalingAsNone) {
  EXPECT_FALSE(parse(with(llama(), "rope_scaling", nullptr)).rope_scaling.has_value());
  EXPECT_FALSE(parse(with(llama(), "rope_scaling", {{"rope_type", "default"}})).rope_scaling.has_value());
}

TEST(ConfigOfLlama, TakesAnExplicitHeadDimensionAndTiedHeads) {
  const Config config = parse(with(with(llama(), "head_dim", 64), "tie_word_embeddings", true));
  EXPECT_EQ(config.q_width(), 2048u);
  EXPECT_TRUE(config.tied_head);
}

TEST(LinearLayers, AreNamedAsTheCheckpointNamesThem) {
  const auto gpt2_layers = model::linear_layers(parse(gpt2()));
  ASSERT_EQ(gpt2_layers.size(), 48u);
  EXPECT_EQ(gpt2_layers[4].module, "h.1.attn.c_attn");
  EXPECT_EQ(gpt2_layers[4].out, 2304u);
  EXPECT_TRUE(gpt2_layers[4].conv1d);
  const auto llama_layers = model::linear_layers(parse(llama()));
  ASSERT_EQ(llama_layers.size(), 224u);
  EXPECT_EQ(llama_layers[8].module, "model.layers.1.self_attn.k_proj");
  EXPECT_EQ(llama_layers[8].out, 1024u);
  EXPECT_EQ(llama_layers[8].in, 4096u);
  EXPECT_EQ(llama_layers[8].block, 1u);
}

TEST(ConfigOfTheDemoModels, Parses) {
  for (const char* name : {"gpt2-demo", "llama-demo"}) {
    const auto path = source_path("datasets/demo") / name / "config.json";
    const Config config = model::parse_config(read_file(path), path.string());
    EXPECT_EQ(config.vocabulary, 2048u);
    EXPECT_EQ(config.hidden, 128u);
    EXPECT_EQ(config.layers, 4u);
  }
}

struct Refusal {
  const char* name;
  Json json;
  const char* first;
  const char* second;
};

class ConfigRefuses : public testing::TestWithParam<std::size_t> {
 public:
  static std::vector<Refusal> cases() {
    Json linear_scaling = {{"type", "linear"}, {"factor", 2.0}};
    Json crossed = with(llama3_scaling(), "low_freq_factor", 4.0);
    Json without_factor = llama3_scaling();
    without_factor.erase("factor");
    Json without_width = llama();
    without_width.erase("hidden_size");
    return {
        {"UnknownModelTypes", with(gpt2(), "model_type", "gpt3"), "'gpt3'", "did you mean 'gpt2'"},
        {"MissingModelTypes", Json{{"vocab_size", 3}}, "model_type", "expected 'gpt2' or 'llama', got ''"},
        {"SomethingElseThanAnObject", Json::array({1, 2}), "expected a JSON object", "array"},
        {"UnknownActivationsOfGpt2", with(gpt2(), "activation_function", "relu"), "'gelu_new'", "'relu'"},
        {"UnknownActivationsOfLlama", with(llama(), "hidden_act", "gelu"), "expected 'silu'", "'gelu'"},
        {"UnscaledAttention", with(gpt2(), "scale_attn_weights", false), "scale_attn_weights", "only true"},
        {"LayerwiseScaledAttention", with(gpt2(), "scale_attn_by_inverse_layer_idx", true), "inverse_layer",
         "only false"},
        {"UnknownRopeScaling", with(llama(), "rope_scaling", linear_scaling), "'type'", "got 'linear'"},
        {"RopeScalingOfAnotherType", with(llama(), "rope_scaling", "llama3"), "'rope_scaling'", "got string"},
        {"CrossedFrequencyFactors", with(llama(), "rope_scaling", crossed), "low_freq_factor < high_freq_factor", "4"},
        {"MissingScalingFactors", with(llama(), "rope_scaling", without_factor), "'factor' is missing", "rope_scaling"},
        {"MissingWidths", without_width, "'hidden_size' is missing", "integer from 1 to"},
        {"ZeroLayers", with(llama(), "num_hidden_layers", 0), "num_hidden_layers", "got 0"},
        {"NegativeWidths", with(gpt2(), "n_embd", -768), "n_embd", "got -768"},
        {"FractionalWidths", with(gpt2(), "n_embd", 768.5), "n_embd", "got 768.5"},
        {"WidthsInQuotes", with(gpt2(), "n_embd", "768"), "n_embd", "got \"768\""},
        {"EnormousVocabularies", with(llama(), "vocab_size", 4294967295u), "vocab_size", "4294967295"},
        {"NumbersBeyond64Bits", with(gpt2(), "n_layer", 1e30), "n_layer", "1e+30"},
        {"HeadsThatDoNotDivide", with(gpt2(), "n_head", 7), "n_embd 768", "n_head 7"},
        {"KvHeadsThatDoNotDivide", with(llama(), "num_key_value_heads", 5), "32", "num_key_value_heads 5"},
        {"OddHeadDimensions", with(llama(), "head_dim", 63), "even head_dim", "63"},
        {"MoreHeadsThanWidth", with(with(llama(), "hidden_size", 16), "num_attention_heads", 32), "hidden_size 16",
         "num_attention_heads 32"},
        {"ZeroEpsilon", with(llama(), "rms_norm_eps", 0.0), "rms_norm_eps", "above 0"},
        {"TextAsEpsilon", with(llama(), "rms_norm_eps", "tiny"), "rms_norm_eps", "tiny"},
        {"EndTokensBeyondTheVocabulary", with(gpt2(), "eos_token_id", 50257), "eos_token_id", "50257"},
        {"NegativeEndTokens", with(llama(), "eos_token_id", Json::array({1, -1})), "eos_token_id", "-1"},
        {"BooleansThatAreNot", with(llama(), "attention_bias", 1), "attention_bias", "expected true or false"},
    };
  }
};

TEST_P(ConfigRefuses, ByNameWithTheReason) {
  const Refusal refusal = cases()[GetParam()];
  EXPECT_TRUE(
      throws_with<FormatError>([&] { parse(refusal.json); }, "config.json of 'toy'", refusal.first, refusal.second));
}

INSTANTIATE_TEST_SUITE_P(Values, ConfigRefuses, testing::Range(std::size_t{0}, ConfigRefuses::cases().size()),
                         [](const auto& instance) { return ConfigRefuses::cases()[instance.param].name; });

TEST(ConfigText, MustBeStrictJson) {
  EXPECT_TRUE(
      throws_with<FormatError>([] { model::parse_config("{\"model_type\": \"gpt2\"", "config.json"); }, "config.json"));
  EXPECT_TRUE(throws_with<FormatError>(
      [] { model::parse_config(R"({"model_type": "gpt2", "n_embd": 8, "n_embd": 16})", "config.json"); }, "n_embd"));
}

}  // namespace
}  // namespace nibble::test
