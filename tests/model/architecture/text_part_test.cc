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
  EXPECT_EQ(name_in_text_model("model.text_model.norm.weight"), "model.norm.weight");
  for (const char* other : {"vision_tower.vision_model.embeddings.patch_embedding.weight", "multi_modal_projector.norm",
                            "model.vision_tower.layers.0.weight", "model.layers.0.weight", "a.lm_head.weight"})
    EXPECT_EQ(name_in_text_model(other), std::nullopt) << other;
  EXPECT_EQ(name_in_text_model("model.layers.0.weight", true), "model.layers.0.weight");
  EXPECT_EQ(name_in_text_model("lm_head.weight", true), "lm_head.weight");
  EXPECT_EQ(name_in_text_model("visual.blocks.0.norm1.weight", true), std::nullopt);
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

// Of transformers 5.23.
TEST(TextPart, OfEveryFamilyHasItsDefaultExtents) {
  struct Extents {
    const char* family;
    int vocabulary, hidden, intermediate, layers, heads;
  };
  for (const Extents& own : {Extents{"cohere", 256000, 8192, 22528, 40, 64},
                             {"cohere2", 256000, 8192, 22528, 40, 64},
                             {"gemma3_text", 262208, 2304, 9216, 26, 8},
                             {"llama", 32000, 4096, 11008, 32, 32},
                             {"ministral3", 131072, 4096, 14336, 34, 32},
                             {"mistral", 32000, 4096, 14336, 32, 32},
                             {"qwen2", 151936, 4096, 22016, 32, 32},
                             {"qwen3", 151936, 4096, 22016, 32, 32}}) {
    SCOPED_TRACE(own.family);
    const Json config = flat({{"model_type", "internvl"}, {"text_config", {{"model_type", own.family}}}});
    EXPECT_EQ(config["vocab_size"], own.vocabulary);
    EXPECT_EQ(config["hidden_size"], own.hidden);
    EXPECT_EQ(config["intermediate_size"], own.intermediate);
    EXPECT_EQ(config["num_hidden_layers"], own.layers);
    EXPECT_EQ(config["num_attention_heads"], own.heads);
  }
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
  Json tied_within = outer;
  tied_within["tie_word_embeddings"] = false, tied_within["text_config"]["tie_word_embeddings"] = true;
  EXPECT_EQ(flat(tied_within, {"lm_head.weight"})["tie_word_embeddings"], false) << "as transformers 5 reads it";
  EXPECT_EQ(flat(tied_within)["tie_word_embeddings"], true) << "there is no other";
}

TEST(TextPart, OfMinistral3MayBeSaidInPart) {
  const Json rope = {{"rope_type", "yarn"},
                     {"rope_theta", 1e6},
                     {"factor", 16.0},
                     {"llama_4_scaling_beta", 0.1},
                     {"original_max_position_embeddings", 16384}};
  const Json config = {
      {"model_type", "mistral3"},
      {"text_config", {{"model_type", "ministral3"}, {"hidden_size", 3072}, {"rope_parameters", rope}}}};
  EXPECT_EQ(flat(config)["model_type"], "ministral3");
  EXPECT_EQ(flat(config)["num_hidden_layers"], 34);
  EXPECT_EQ(flat(config)["vocab_size"], 131072);
  EXPECT_EQ(flat(config)["rope_parameters"], rope);
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

// Of Qwen2-VL 7B, whose settings stand beside vision_config.
Json flat_qwen() {
  return {{"model_type", "qwen2_vl"},
          {"architectures", {"Qwen2VLForConditionalGeneration"}},
          {"bos_token_id", 151643},
          {"eos_token_id", 151645},
          {"vision_start_token_id", 151652},
          {"vision_end_token_id", 151653},
          {"vision_token_id", 151654},
          {"image_token_id", 151655},
          {"video_token_id", 151656},
          {"hidden_act", "silu"},
          {"hidden_size", 3584},
          {"intermediate_size", 18944},
          {"max_position_embeddings", 32768},
          {"max_window_layers", 28},
          {"num_attention_heads", 28},
          {"num_hidden_layers", 28},
          {"num_key_value_heads", 4},
          {"rms_norm_eps", 1e-6},
          {"rope_theta", 1000000.0},
          {"sliding_window", 32768},
          {"tie_word_embeddings", false},
          {"torch_dtype", "bfloat16"},
          {"use_cache", true},
          {"use_sliding_window", false},
          {"vision_config", {{"depth", 32}, {"embed_dim", 1280}, {"model_type", "qwen2_vl"}}},
          {"rope_scaling", {{"type", "mrope"}, {"mrope_section", {16, 24, 24}}}},
          {"vocab_size", 152064}};
}

TEST(TextPart, MayStandBesideThePictures) {
  Json expected = flat_qwen();
  for (const char* key : {"vision_start_token_id", "vision_end_token_id", "vision_token_id", "image_token_id",
                          "video_token_id", "vision_config"})
    expected.erase(key);
  expected["model_type"] = "qwen2", expected["architectures"] = {"Qwen2ForCausalLM"};
  expected["rope_scaling"] = {{"type", "default"}};
  for (const char* type : {"qwen2_vl", "qwen2_5_vl"}) {
    Json config = flat_qwen();
    config["model_type"] = type;
    EXPECT_EQ(flat(config, {"lm_head.weight"}), expected) << type;
    config["text_config"] = nullptr;
    EXPECT_EQ(flat(config, {"lm_head.weight"}), expected) << type;
    config["text_config"] = {{"hidden_size", 64}};  // what is beside it is for older programs
    EXPECT_EQ(flat(config)["hidden_size"], 64) << type;
    EXPECT_EQ(flat(config)["num_hidden_layers"], 80) << type;
  }
  const Architecture a = parse_architecture(flat(flat_qwen()).dump(), "c");
  EXPECT_EQ(a.family, "qwen2");
  EXPECT_TRUE(a.blocks[0].attention.q.biased);
  EXPECT_EQ(a.blocks[27].attention.window, 0u);
  EXPECT_EQ(a.blocks[0].attention.rotary->scaling.kind, RotaryScaling::Kind::kNone);
}

// As transformers 4.56 wrote it: keys of pictures among those of the text, whose model_type is no family's.
TEST(TextPart, OfQwenIsAFamilyWithoutPictures) {
  const Json config =
      flat({{"model_type", "qwen2_5_vl"},
            {"text_config",
             {{"model_type", "qwen2_5_vl_text"},
              {"architectures", {"Qwen2_5_VLForConditionalGeneration"}},
              {"image_token_id", nullptr},
              {"vision_start_token_id", 151652},
              {"vision_token_id", 151654},
              {"rope_scaling", {{"mrope_section", {16, 24, 24}}, {"rope_type", "default"}, {"type", "default"}}}}}});
  EXPECT_EQ(config, Json({{"model_type", "qwen2"},
                          {"architectures", {"Qwen2ForCausalLM"}},
                          {"vocab_size", 152064},
                          {"hidden_size", 8192},
                          {"intermediate_size", 29568},
                          {"num_hidden_layers", 80},
                          {"num_attention_heads", 64},
                          {"num_key_value_heads", 8},
                          {"max_position_embeddings", 32768},
                          {"max_window_layers", 80},
                          {"rms_norm_eps", 1e-5},
                          {"rope_theta", 1e6},
                          {"rope_scaling", {{"rope_type", "default"}, {"type", "default"}}},
                          {"tie_word_embeddings", true}}));
  const Json ungrouped = {{"model_type", "qwen2_5_vl"}, {"text_config", {{"num_key_value_heads", nullptr}}}};
  EXPECT_TRUE(flat(ungrouped).at("num_key_value_heads").is_null()) << "as many as heads, not the default";
  const Json three = flat({{"model_type", "qwen3_vl"}, {"text_config", {{"num_key_value_heads", nullptr}}}});
  EXPECT_EQ(three, Json({{"model_type", "qwen3"},
                         {"architectures", {"Qwen3ForCausalLM"}},
                         {"vocab_size", 151936},
                         {"hidden_size", 4096},
                         {"intermediate_size", 22016},
                         {"num_hidden_layers", 32},
                         {"num_attention_heads", 32},
                         {"num_key_value_heads", nullptr},
                         {"max_position_embeddings", 128000},
                         {"rope_theta", 500000.0},
                         {"tie_word_embeddings", true}}));
}

TEST(TextPart, OfQwenTurnsHeadsByOnePosition) {
  const auto rotary = [](Json rope) {
    Json config = flat_qwen();
    config.erase("rope_scaling");
    config["rope_parameters"] = std::move(rope);
    return *parse_architecture(flat(config).dump(), "c").blocks[0].attention.rotary;
  };
  const Json section = {16, 24, 24};
  EXPECT_EQ(rotary({{"rope_type", "mrope"}, {"mrope_section", section}}).scaling.kind, RotaryScaling::Kind::kNone);
  EXPECT_EQ(rotary({{"mrope_section", section}, {"mrope_interleaved", true}, {"rope_theta", 5e6}}).base, 5e6);
  const RotarySpec stretched = rotary({{"type", "yarn"}, {"mrope_section", section}, {"factor", 4.0}});
  EXPECT_EQ(stretched.scaling.kind, RotaryScaling::Kind::kYarn);
  EXPECT_EQ(stretched.scaling.factor, 4.0);
  const auto refuses = [&](const Json& rope, const char* first, const char* second) {
    return throws_with<FormatError>([&] { rotary(rope); }, first, second);
  };
  EXPECT_TRUE(refuses({{"mrope_section", "16"}}, "mrope_section", "expected"));
  EXPECT_TRUE(refuses({{"mrope_section", {16, -24, 24}}}, "mrope_section", "expected"));
  EXPECT_TRUE(refuses({{"mrope_interleaved", 1}}, "mrope_interleaved", "expected"));
  EXPECT_TRUE(refuses({{"mrope_part", 1}}, "mrope_part", "not known"));
  EXPECT_TRUE(refuses({16, 24, 24}, "rope_parameters", "got array"));
}

// transformers' class knows no windows; the family without pictures does.
TEST(TextPart, OfQwen3HasNoWindows) {
  const auto read = [](const char* key, const Json& value) {
    flat({{"model_type", "qwen3_vl"}, {"text_config", {{key, value}}}});
  };
  EXPECT_NO_THROW(read("use_sliding_window", false));
  EXPECT_TRUE(throws_with<FormatError>([&] { read("use_sliding_window", true); }, "use_sliding_window", "only false"));
  EXPECT_TRUE(
      throws_with<FormatError>([&] { read("layer_types", {"sliding_attention"}); }, "layer_types", "expected none"));
}

// Of SmolVLM 256M.
TEST(TextPart, LeavesOutWhatNothingIsMadeOf) {
  const Json text = {{"architectures", {"VLlama3ForCausalLM"}},
                     {"hidden_size", 576},
                     {"neftune_noise_alpha", 0.0},
                     {"perceiver_config", {{"model_type", "vllama3"}, {"resampler_depth", 6}}},
                     {"pixel_shuffle_factor", 4},
                     {"qk_layer_norms", false},
                     {"use_resampler", false}};
  for (const char* type : {"smolvlm", "idefics3"})
    EXPECT_EQ(flat({{"model_type", type}, {"text_config", text}}), Json({{"model_type", "llama"},
                                                                         {"architectures", {"LlamaForCausalLM"}},
                                                                         {"vocab_size", 32000},
                                                                         {"hidden_size", 576},
                                                                         {"intermediate_size", 11008},
                                                                         {"num_hidden_layers", 32},
                                                                         {"num_attention_heads", 32},
                                                                         {"tie_word_embeddings", true}}))
        << type;
  Json other = text;
  other["qk_layer_norms"] = true;
  EXPECT_EQ(flat({{"model_type", "smolvlm"}, {"text_config", other}})["qk_layer_norms"], true) << "nobody knows it";
  EXPECT_EQ(flat({{"model_type", "llava"}, {"text_config", text}})["pixel_shuffle_factor"], 4);
}

TEST(TextPart, IsOfTheFamilyThatTextConfigNames) {
  const auto family = [](const char* outer, const Json& text) {
    return parse_architecture(flat({{"model_type", outer}, {"text_config", text}}).dump(), "c").family;
  };
  const Json nothing = Json::object();
  EXPECT_EQ(family("internvl", nothing), "qwen2");
  EXPECT_EQ(family("internvl", {{"model_type", "qwen3"}}), "qwen3");
  EXPECT_EQ(family("llava_onevision", nothing), "qwen2");
  EXPECT_EQ(family("got_ocr2", nothing), "qwen2");
  EXPECT_EQ(family("aya_vision", nothing), "cohere2");
  EXPECT_EQ(family("aya_vision", {{"model_type", "cohere"}}), "cohere");
  EXPECT_EQ(family("idefics3", nothing), "llama");
  const Json scaled = {{"model_type", "aya_vision"}, {"text_config", {{"logit_scale", 0.25}}}};
  EXPECT_EQ(parse_architecture(flat(scaled).dump(), "c").head.scale, 0.25);
}

TEST(TextPart, IsOfModelsThatSee) {
  EXPECT_EQ(text_model_config(R"({"model_type": "llama", "text_config": {}})", "c", {}), std::nullopt);
  EXPECT_EQ(text_model_config("{}", "c", {}), std::nullopt);
  EXPECT_EQ(text_model_config("no JSON", "c", {}), std::nullopt);
  EXPECT_TRUE(throws_with<FormatError>([] { text_model_config(R"({"model_type": "gemma3"})", "c", {}); },
                                       "c: 'text_config'", "expected"));
  EXPECT_TRUE(throws_with<FormatError>(
      [] { text_model_config(R"({"model_type": "gemma3", "text_config": []})", "c", {}); }, "text_config", "object"));
  for (const char* type : {"aya_vision", "got_ocr2", "idefics3", "internvl", "llava_onevision", "qwen3_vl", "smolvlm"})
    EXPECT_TRUE(throws_with<FormatError>(
        [&] {
          flat({{"model_type", type}, {"vision_config", Json::object()}});
        },
        "c: 'text_config'", "expected"))
        << type;
  for (const char* type : {"qwen2_vl", "qwen2_5_vl"})
    EXPECT_TRUE(throws_with<FormatError>(
        [&] {
          flat({{"model_type", type}, {"text_config", 3}});
        },
        "text_config", "got number"))
        << type;
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
