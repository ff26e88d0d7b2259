#include "model/architecture/text_part.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/error.h"
#include "core/text/json.h"
#include "model/architecture/families.h"
#include "tests/support/throws.h"

namespace nibble::model {
namespace {

using Json = nlohmann::json;
using test::throws_with;

Json flat(const Json& config, const std::vector<std::string>& stored = {}) {
  const auto text = text_model_config(config.dump(), "c", stored);
  return text ? Json::parse(*text) : Json();
}

TEST(TextPart, NamesTensorsAsTheLanguageModelDoes) {
  EXPECT_EQ(name_in_text_model("language_model.model.layers.0.mlp.up_proj.weight"),
            "model.layers.0.mlp.up_proj.weight");
  EXPECT_EQ(name_in_text_model("model.language_model.norm.weight"), "model.norm.weight");
  EXPECT_EQ(name_in_text_model("language_model.lm_head.weight"), "lm_head.weight");
  EXPECT_EQ(name_in_text_model("lm_head.weight"), "lm_head.weight");
  for (const char* other : {"vision_tower.vision_model.embeddings.patch_embedding.weight", "multi_modal_projector.norm",
                            "model.vision_tower.layers.0.weight", "model.layers.0.weight", "a.lm_head.weight"})
    EXPECT_EQ(name_in_text_model(other), std::nullopt) << other;
}

// Of Gemma 3 4B, whose text_config holds what is no default.
TEST(TextPart, AddsDefaultsThatAreLeftOut) {
  const Json config = flat({{"model_type", "gemma3"},
                            {"eos_token_id", {1, 106}},
                            {"torch_dtype", "bfloat16"},
                            {"mm_tokens_per_image", 256},
                            {"text_config", {{"hidden_size", 2560}, {"num_hidden_layers", 34}}},
                            {"vision_config", {{"hidden_size", 1152}}}});
  EXPECT_EQ(config, Json({{"model_type", "gemma3_text"},
                          {"architectures", {"Gemma3ForCausalLM"}},
                          {"vocab_size", 262208},
                          {"hidden_size", 2560},
                          {"intermediate_size", 9216},
                          {"num_hidden_layers", 34},
                          {"num_attention_heads", 8},
                          {"tie_word_embeddings", true},
                          {"eos_token_id", {1, 106}},
                          {"torch_dtype", "bfloat16"}}));
}

TEST(TextPart, TakesWhatTheInnerConfigurationSaysFirst) {
  const Json outer = {{"model_type", "mistral3"},
                      {"torch_dtype", "float32"},
                      {"eos_token_id", 2},
                      {"tie_word_embeddings", true},
                      {"text_config", {{"model_type", "mistral"}, {"torch_dtype", "bfloat16"}, {"eos_token_id", 1}}}};
  EXPECT_EQ(flat(outer)["torch_dtype"], "bfloat16");
  EXPECT_EQ(flat(outer)["eos_token_id"], 2) << "ends of a conversation are the whole model's";
  EXPECT_EQ(flat(outer)["tie_word_embeddings"], true);
  Json untied = outer;
  untied["text_config"]["tie_word_embeddings"] = false;
  EXPECT_EQ(flat(untied, {"lm_head.weight"})["tie_word_embeddings"], false);
  EXPECT_EQ(flat(untied)["tie_word_embeddings"], true) << "there is no other";
}

TEST(TextPart, TiesAHeadThatIsNotStored) {
  const Json config = {{"model_type", "llava"}, {"text_config", {{"vocab_size", 32064}}}};
  EXPECT_EQ(flat(config, {"language_model.model.norm.weight"})["tie_word_embeddings"], true);
  EXPECT_EQ(flat(config, {"language_model.lm_head.weight"})["tie_word_embeddings"], false);
  EXPECT_EQ(flat(config, {"lm_head.weight"})["tie_word_embeddings"], false);
  EXPECT_EQ(flat(config)["model_type"], "llama");
  EXPECT_EQ(flat(config)["vocab_size"], 32064);
}

TEST(TextPart, CarriesWhatSaysThatWeightsAreNoFloats) {
  for (const char* key : {"quantization_config", "quantization"}) {
    const Json config = {{"model_type", "mistral3"}, {key, {{"bits", 4}}}, {"text_config", {{"head_dim", 128}}}};
    EXPECT_EQ(flat(config)[key], Json({{"bits", 4}}));
  }
}

TEST(TextPart, IsOfModelsThatSee) {
  EXPECT_EQ(text_model_config(R"({"model_type": "llama", "text_config": {}})", "c", {}), std::nullopt);
  EXPECT_EQ(text_model_config("{}", "c", {}), std::nullopt);
  EXPECT_EQ(text_model_config("no JSON", "c", {}), std::nullopt);
  EXPECT_TRUE(throws_with<FormatError>([] { text_model_config(R"({"model_type": "gemma3"})", "c", {}); },
                                       "c: 'text_config'", "expected"));
  EXPECT_TRUE(throws_with<FormatError>(
      [] { text_model_config(R"({"model_type": "gemma3", "text_config": []})", "c", {}); }, "text_config", "object"));
}

// What Gemma 3 4B says, and what its readers know.
TEST(TextPart, IsANetwork) {
  const Json config = flat({{"model_type", "gemma3"},
                            {"text_config",
                             {{"hidden_size", 2560},
                              {"intermediate_size", 10240},
                              {"model_type", "gemma3_text"},
                              {"num_hidden_layers", 34},
                              {"rope_scaling", {{"factor", 8.0}, {"rope_type", "linear"}}},
                              {"sliding_window", 1024}}}});
  const Architecture a = parse_architecture(config.dump(), "c");
  EXPECT_EQ(a.family, "gemma3_text");
  EXPECT_EQ(a.vocabulary, 262208u);
  ASSERT_EQ(a.blocks.size(), 34u);
  const AttentionSpec &sliding = a.blocks[0].attention, &full = a.blocks[5].attention;
  EXPECT_EQ(sliding.heads, 8u);
  EXPECT_EQ(sliding.kv_heads, 4u);
  EXPECT_EQ(sliding.head_dim, 256u);
  EXPECT_EQ(sliding.window, 1024u);
  EXPECT_EQ(full.window, 0u);
  EXPECT_EQ(sliding.rotary->scaling.kind, RotaryScaling::Kind::kNone);
  EXPECT_EQ(full.rotary->scaling.factor, 8.0);
  EXPECT_EQ(full.rotary->base, 1e6);
  EXPECT_EQ(sliding.rotary->base, 1e4);
}

}  // namespace
}  // namespace nibble::model
