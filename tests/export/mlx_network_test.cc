#include "export/mlx_network.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/error.h"
#include "core/text/json.h"
#include "model/architecture/families.h"
#include "model/architecture/published_configs.h"
#include "tests/export/directory_support.h"
#include "tests/quant/job/calibrated_models.h"
#include "tests/support/compare.h"
#include "tests/support/files.h"
#include "tests/support/throws.h"

// mlx-lm's implementations: what config.json has to tell them, and what none can tell them.

namespace nibble::test {
namespace {

using Json = nlohmann::ordered_json;

// A family's network in which config.json leaves to defaults what it may.
Json bare_config(std::string_view family) {
  Json config{{"model_type", family},    {"vocab_size", 48},       {"hidden_size", 64},
              {"intermediate_size", 96}, {"num_hidden_layers", 2}, {"num_attention_heads", 4}};
  if (family != "gpt_neox") config["num_key_value_heads"] = 4;
  return config;
}

// As little as has to be said of mixtures of sigmoids.
Json sigmoids(std::string_view family) {
  Json config = bare_config(family);
  config["n_routed_experts"] = 4, config["num_experts_per_tok"] = 2, config["n_shared_experts"] = 1;
  return config;
}

Json with(Json config, const Json& more) {
  config.update(more);
  return config;
}

model::Architecture architecture_of(const Json& config) {
  return model::parse_architecture(config.dump(), "config.json");
}

Json stated(const Json& config) {
  Json all = config;
  exporting::state_mlx_network(all, architecture_of(config));
  return all;
}

TEST(MlxNetwork, ConfigurationsSayThatAHeadIsNotTied) {
  const TempDir dir;
  Json config = Json::parse(llama_config());
  config.erase("tie_word_embeddings");
  config.erase("rope_theta");
  write_model(dir / "model", config.dump());
  export_to("mlx", dir / "model", dir / "out");
  EXPECT_TRUE(tensors_of(dir / "out").contains("lm_head.weight"));
  EXPECT_EQ(config_json_of(dir / "out").at("tie_word_embeddings"), false) << "mlx-lm's default is true";
  EXPECT_EQ(config_json_of(dir / "out").at("rope_theta"), 10000.0);
}

TEST(MlxNetwork, ConfigurationsSayWhatFamiliesHaveOtherDefaultsFor) {
  struct Case {
    Json config, expected;
  };
  const Case cases[] = {
      {bare_config("qwen2"), {{"rope_theta", 10000.0}, {"tie_word_embeddings", false}}},
      {bare_config("cohere"), {{"rope_theta", 500000.0}, {"layer_norm_eps", 1e-5}, {"logit_scale", 0.0625}}},
      {with(bare_config("starcoder2"), {{"tie_word_embeddings", true}}), {{"rope_theta", 10000.0}}},
      {bare_config("phi"), {{"partial_rotary_factor", 0.5}}},
      {bare_config("olmoe"), {{"tie_word_embeddings", false}, {"num_experts", 64}, {"norm_topk_prob", false}}},
      {with(bare_config("gemma3_text"), {{"head_dim", 16},
                                         {"sliding_window_pattern", 2},
                                         {"sliding_window", nullptr},
                                         {"layer_types", {"full_attention", "full_attention"}}}),
       {{"sliding_window_pattern", 1}, {"rope_theta", 1e6}, {"query_pre_attn_scalar", 256.0}}},
      {with(bare_config("gemma3_text"), {{"head_dim", 16}, {"sliding_window_pattern", 2}}),
       {{"sliding_window", 4096}, {"rope_local_base_freq", 10000.0}}},
      {with(bare_config("exaone4"), {{"layer_types", {"full_attention", "sliding_attention"}}}),
       {{"sliding_window_pattern", "GL"}, {"sliding_window", 4096}, {"rope_scaling", nullptr}, {"head_dim", 16}}},
      {bare_config("smollm3"), {{"no_rope_layers", {1, 1}}, {"layer_types", {"full_attention", "full_attention"}}}},
      {bare_config("granite"), {{"logits_scaling", 1.0}, {"attention_bias", false}, {"mlp_bias", false}}},
      {with(bare_config("cohere2"), {{"num_hidden_layers", 4}}),
       {{"sliding_window_pattern", 4}, {"sliding_window", 4096}, {"logit_scale", 0.0625}, {"attention_bias", false}}},
      {bare_config("ernie4_5"),
       {{"rope_theta", 500000.0}, {"use_bias", false}, {"tie_word_embeddings", true}, {"head_dim", 128}}},
      {with(bare_config("granitemoehybrid"), {{"layer_types", {"full_attention", "attention"}},
                                              {"num_local_experts", 0},
                                              {"shared_intermediate_size", 32}}),
       {{"layer_types", {"attention", "attention"}},
        {"intermediate_size", 32},
        {"position_embedding_type", "nope"},
        {"attention_bias", false},
        {"attention_multiplier", 1.0}}},
      {with(bare_config("ministral"), {{"layer_types", {"full_attention", "sliding_attention"}}}),
       {{"model_type", "mistral"}, {"layer_types", {"full_attention", "sliding_attention"}}, {"sliding_window", 4096}}},
      {with(bare_config("ministral3"), {{"rope_scaling",
                                         {{"rope_type", "yarn"},
                                          {"factor", 4.0},
                                          {"mscale", 1.0},
                                          {"mscale_all_dim", 1.0},
                                          {"original_max_position_embeddings", 64},
                                          {"llama_4_scaling_beta", 0.1}}},
                                        {"rope_theta", 1e6}}),
       {{"rope_parameters",
         {{"type", "yarn"},
          {"rope_type", "yarn"},
          {"factor", 4.0},
          {"original_max_position_embeddings", 64},
          {"beta_fast", 32.0},
          {"beta_slow", 1.0},
          {"mscale", 0.0},
          {"rope_theta", 1e6},
          {"llama_4_scaling_beta", 0.1}}},
        {"head_dim", 128},
        {"tie_word_embeddings", false}}},
      {sigmoids("glm4_moe"),
       {{"n_group", 1},
        {"topk_group", 1},
        {"n_shared_experts", 1},
        {"first_k_dense_replace", 1},
        {"norm_topk_prob", true},
        {"routed_scaling_factor", 1.0},
        {"partial_rotary_factor", 0.5},
        {"rope_scaling", nullptr},
        {"rope_theta", 10000.0},
        {"use_qk_norm", false},
        {"attention_bias", false},
        {"head_dim", 16},
        {"tie_word_embeddings", false}}},
      {with(bare_config("glm4_moe"), {{"num_attention_heads", 8}, {"num_key_value_heads", 8}}),
       {{"n_routed_experts", 128},
        {"n_shared_experts", 1},
        {"num_experts_per_tok", 8},
        {"moe_intermediate_size", 1408}}},
      {with(sigmoids("dots1"), {{"n_shared_experts", 2}}),
       {{"n_shared_experts", 2}, {"first_k_dense_replace", 0}, {"norm_topk_prob", false}}},
      {with(bare_config("minimax_m2"), {{"rotary_dim", 6}, {"head_dim", 12}}),
       {{"rotary_dim", 6},
        {"rope_theta", 5e6},
        {"head_dim", 12},
        {"use_qk_norm", true},
        {"shared_intermediate_size", 0},
        {"num_local_experts", 256},
        {"num_experts_per_tok", 8},
        {"n_routed_experts", "absent"},
        {"tie_word_embeddings", false}}},
      {with(bare_config("hunyuan_v1_dense"),
            {{"head_dim", 4}, {"rope_scaling", {{"alpha", 16.0}, {"factor", 1.0}, {"type", "dynamic"}}}}),
       {{"rope_theta", 2560000.0}, {"rope_scaling", nullptr}, {"use_qk_norm", true}, {"attention_bias", false}}},
      {with(bare_config("internlm3"), {{"head_dim", 16}, {"attention_bias", true}, {"mlp_bias", true}}),
       {{"qkv_bias", true}, {"bias", true}, {"rope_theta", 10000.0}, {"rope_scaling", nullptr}}},
      {with(bare_config("iquestcoder"), {{"num_key_value_heads", nullptr}}),
       {{"head_dim", 128}, {"num_key_value_heads", 4}, {"attention_bias", false}, {"mlp_bias", false}}},
      {bare_config("seed_oss"), {{"attention_bias", true}, {"tie_word_embeddings", false}, {"head_dim", 128}}},
      {bare_config("gpt_oss"), {{"layer_types", {"sliding_attention", "full_attention"}}, {"sliding_window", 128}}},
      {bare_config("gpt_neox"), {{"rotary_emb_base", 10000.0}, {"rotary_pct", 0.25}}},
      {Json::parse(R"({"model_type": "gpt2", "vocab_size": 48, "n_embd": 32, "n_layer": 1, "n_head": 2})"),
       {{"n_ctx", 1024}, {"n_positions", 1024}, {"layer_norm_epsilon", 1e-5}}},
  };
  for (const Case& one : cases) {
    const Json config = stated(one.config);
    for (const auto& [key, value] : one.expected.items())
      EXPECT_EQ(config.value(key, Json("absent")), value) << one.config.at("model_type") << ": " << key;
  }
}

TEST(MlxNetwork, WhatAConfigurationSaysAlreadyStaysAsItIsWritten) {
  const Json config = with(bare_config("llama"), {{"rope_theta", 10000}, {"tie_word_embeddings", true}});
  EXPECT_EQ(stated(config).at("rope_theta").dump(), "10000");
}

TEST(MlxNetwork, SettingsOfTransformers5AreWhereItLooksForThem) {
  const Json rope = {{"rope_type", "llama3"},  {"rope_theta", 5e5},       {"factor", 8.0},
                     {"low_freq_factor", 1.0}, {"high_freq_factor", 4.0}, {"original_max_position_embeddings", 32}};
  const Json config = stated(with(bare_config("llama"), {{"rope_parameters", rope}}));
  EXPECT_EQ(config.at("rope_theta"), 5e5);
  EXPECT_EQ(config.at("rope_scaling").at("type"), "llama3");
  EXPECT_EQ(config.at("rope_scaling").at("original_max_position_embeddings"), 32);
  EXPECT_EQ(config.at("rope_scaling").at("factor"), 8.0);
}

// Its magnitude is 0.1 mscale ln(factor) + 1.
TEST(MlxNetwork, AttentionFactorsOfYarnAreSaidAsItsMultiplier) {
  for (const double factor : {1.0, 1.3}) {
    const Json rope = {
        {"rope_type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 32}, {"attention_factor", factor}};
    const Json scaling = stated(with(bare_config("llama"), {{"rope_scaling", rope}})).at("rope_scaling");
    EXPECT_TRUE(near(0.1 * scaling.at("mscale").get<double>() * std::log(4.0) + 1.0, factor, {.rel = 1e-15}));
    EXPECT_FALSE(scaling.contains("mscale_all_dim"));
  }
}

Json long_rope(double factor) {
  return {{"rope_type", "longrope"},
          {"short_factor", std::vector<double>(8, 1.0)},
          {"long_factor", std::vector<double>(8, factor)},
          {"original_max_position_embeddings", 64}};
}

TEST(MlxNetwork, LongRopeHasTheShortFactorsAndANote) {
  for (const std::string family : {"phi3", "llama"}) {
    const Json config = with(bare_config(family), {{"rope_scaling", long_rope(4.0)}, {"max_position_embeddings", 256}});
    const Json all = stated(config);
    EXPECT_EQ(all.at("rope_scaling").at("long_factor"), std::vector<double>(8, 1.0));
    EXPECT_EQ(all.at("original_max_position_embeddings"), 64);
    const auto notes = exporting::mlx_notes(architecture_of(config));
    ASSERT_EQ(notes.size(), 1u);
    EXPECT_NE(notes[0].find("beyond 64 tokens"), std::string::npos) << notes[0];
  }
}

TEST(MlxNetwork, NetworksThatItDoesNotComputeAreRefused) {
  const auto rope = [](Json settings) { return Json{{"rope_scaling", std::move(settings)}}; };
  const Json linear = {{"rope_type", "linear"}, {"factor", 2.0}};
  struct Case {
    std::string family;
    Json more;
    std::string what, expected, got;
  };
  const std::vector<Case> cases{
      {"llama", {{"hidden_act", "gelu"}}, "block 0: activation", "silu", "gelu"},
      {"phi", {{"hidden_act", "relu"}}, "activation", "gelu", "relu"},
      {"gpt_oss", {{"swiglu_limit", 5.0}}, "activation", "limit 7", "limit 5"},
      {"phi", rope(linear), "scaling of rotary embeddings", "none", "linear"},
      {"gemma2", with(rope(linear), {{"head_dim", 16}}), "scaling of rotary embeddings", "none", "linear"},
      {"glm4", with(rope(linear), {{"head_dim", 16}}), "scaling of rotary embeddings", "none", "linear"},
      {"starcoder2", rope(linear), "scaling of rotary embeddings", "none", "linear"},
      {"stablelm", rope(linear), "scaling of rotary embeddings", "none", "linear"},
      {"cohere", rope(linear), "scaling of rotary embeddings", "none", "linear"},
      {"phi3", rope(linear), "scaling of rotary embeddings", "longrope", "linear"},
      {"nemotron", rope({{"rope_type", "dynamic"}, {"factor", 2.0}}), "rotary embeddings", "linear", "dynamic"},
      {"llama",
       rope({{"rope_type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 512}, {"truncate", false}}),
       "YaRN's ramp", "whole numbers", "truncate: false"},
      {"phi3", rope(with(long_rope(4.0), {{"attention_factor", 1.0}})), "attention_factor", "1.414", "has 1;"},
      {"gemma2", {{"head_dim", 16}, {"attn_logit_softcapping", nullptr}}, "attn_logit_softcapping", "always", "0"},
      {"gemma2", {{"head_dim", 16}, {"final_logit_softcapping", nullptr}}, "final_logit_softcapping", "always", "0"},
      {"gemma3_text",
       {{"head_dim", 16}, {"sliding_window_pattern", 2}, {"attn_logit_softcapping", 20.0}},
       "attn_logit_softcapping",
       "none",
       "20"},
      {"gemma3_text",
       {{"head_dim", 16}, {"layer_types", {"sliding_attention", "sliding_attention"}}},
       "windows",
       "n-th",
       "2 of 2"},
      {"olmo3", {{"layer_types", {"sliding_attention", "sliding_attention"}}}, "windows", "without", "2 of 2"},
      {"exaone4", {{"layer_types", {"full_attention", "full_attention"}}}, "rotary embeddings", "every", "0 of 2"},
      {"qwen2_moe", {{"norm_topk_prob", true}}, "weights of experts", "softmax", "norm_topk_prob"},
      {"glm4_moe",
       {{"n_routed_experts", 8}, {"num_experts_per_tok", 2}, {"n_group", 4}, {"topk_group", 2}},
       "block 1: groups of experts",
       "one (n_group)",
       "has 4;"},
      {"glm4_moe",
       {{"n_routed_experts", 8}, {"num_experts_per_tok", 1}},
       "weight of a single expert",
       "sigmoid",
       "norm_topk_prob"},
      {"dots1",
       {{"n_routed_experts", 8}, {"num_experts_per_tok", 2}, {"n_shared_experts", 1}, {"attention_bias", true}},
       "bias of 'model.layers.0.self_attn.q_proj'",
       "none",
       "one;"},
      {"minimax_m2", rope(linear), "scaling of rotary embeddings", "none", "linear"},
      {"internlm3", {{"head_dim", 32}}, "head_dim", "64 / 4", "has 32;"},
      {"qwen3", {{"attention_bias", true}}, "bias of 'model.layers.0.self_attn.q_proj'", "none", "one;"},
      {"gemma", {{"head_dim", 16}, {"attention_bias", true}}, "bias of", "none", "one;"},
      {"qwen2_moe", {{"qkv_bias", false}}, "q_proj'", "one always", "none;"},
      {"gpt_oss", {{"attention_bias", false}}, "q_proj'", "one always", "none;"},
      {"gpt_neox", {{"attention_bias", false}, {"intermediate_size", 256}}, "bias of", "one always", "none;"},
      {"starcoder2", {{"use_bias", false}}, "bias of", "one always", "none;"},
      {"phi", {{"qk_layernorm", true}}, "norms of q and k", "none", "some;"},
      {"granite", {{"head_dim", 32}}, "head_dim", "64 / 4", "has 32;"},
      {"granitemoe",
       {{"head_dim", 32}, {"num_local_experts", 2}, {"num_experts_per_tok", 1}},
       "head_dim",
       "64 / 4",
       "has 32;"},
      {"cohere2", Json::object(), "windows", "n-th", "2 of 2"},
      {"cohere2", with(rope(linear), {{"sliding_window_pattern", 2}}), "rotary embeddings", "none", "linear"},
      {"ernie4_5", rope(linear), "scaling of rotary embeddings", "none", "linear"},
      {"granitemoehybrid",
       with(rope(linear), {{"layer_types", {"attention", "attention"}},
                           {"num_local_experts", 0},
                           {"position_embedding_type", "rope"}}),
       "scaling of rotary embeddings", "none", "linear"},
      {"ministral", {{"layer_types", {"sliding_attention", "sliding_attention"}}}, "windows", "without", "2 of 2"},
      {"mixtral", {{"head_dim", 32}}, "head_dim", "64 / 4", "has 32;"},
      {"qwen2", {{"head_dim", 32}}, "head_dim", "64 / 4", "has 32;"},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.family + one.more.dump());
    const model::Architecture architecture = architecture_of(with(bare_config(one.family), one.more));
    EXPECT_TRUE(throws_with<InvalidArgument>([&] { exporting::find_exporter("mlx").require_known(architecture); },
                                             "family " + one.family, one.what, one.expected, one.got,
                                             "--format dequantized"));
  }
}

TEST(MlxNetwork, OfGpt2ScoresAreNeverScaledByBlock) {
  const Json config = Json::parse(R"({"model_type": "gpt2", "vocab_size": 48, "n_embd": 32, "n_layer": 2, "n_head": 2,
                                      "scale_attn_by_inverse_layer_idx": true})");
  EXPECT_NE(exporting::mlx_objection(architecture_of(config)).find("block 1: scale of scores"), std::string::npos);
}

TEST(MlxNetwork, OfGpt2MlpsAreOfFourTimesTheWidth) {
  Json config = Json::parse(R"({"model_type": "gpt2", "vocab_size": 48, "n_embd": 32, "n_layer": 2, "n_head": 2})");
  const auto require = [&] { exporting::find_exporter("mlx").require_known(architecture_of(config)); };
  EXPECT_NO_THROW(require());
  config["n_inner"] = 96;
  EXPECT_TRUE(throws_with<InvalidArgument>(require, "family gpt2", "4 times the width, 128", "have 96"));
}

TEST(MlxNetwork, OfSigmoidsHasExpertsBehindTheFirstBlocks) {
  for (const char* family : {"glm4_moe", "dots1"}) {
    Json config = with(sigmoids(family), {{"first_k_dense_replace", 1}});
    const auto require = [&] { exporting::find_exporter("mlx").require_known(architecture_of(config)); };
    EXPECT_NO_THROW(require()) << family;
    config["first_k_dense_replace"] = 2;
    EXPECT_TRUE(throws_with<InvalidArgument>(require, family, "experts behind the first blocks", "no block has any"));
  }
}

TEST(MlxNetwork, OfGlm4MoeHasAHeadAndNoBiasOfWhatAttentionPutsOut) {
  Json config = with(sigmoids("glm4_moe"), {{"attention_bias", true}});
  const auto require = [&] { exporting::find_exporter("mlx").require_known(architecture_of(config)); };
  EXPECT_NO_THROW(require());
  const model::AttentionSpec attention = architecture_of(config).blocks[0].attention;
  EXPECT_FALSE(exporting::mlx_lacks_bias(architecture_of(config), attention.q));
  EXPECT_TRUE(exporting::mlx_lacks_bias(architecture_of(config), attention.o));
  config["tie_word_embeddings"] = true;
  EXPECT_TRUE(throws_with<InvalidArgument>(require, "glm4_moe only with a head of its own", "is tied"));
}

TEST(MlxNetwork, WhatDiffersALittleOrBeyondALengthIsANote) {
  struct Case {
    std::string family;
    Json more;
    std::string word;
  };
  const std::vector<Case> cases{
      {"mistral", {{"sliding_window", 12}}, "has no window: beyond 12 tokens"},
      {"qwen2", {{"use_sliding_window", true}, {"max_window_layers", 1}, {"sliding_window", 24}}, "beyond 24 tokens"},
      {"starcoder2", Json::object(), "computes gelu and the network"},
      {"gpt_neox", Json::object(), "up to 5e-4 apart"},
      {"gemma", {{"head_dim", 16}}, "up to 5e-4 apart"},
      {"gpt_oss", Json::object(), "bounds of YaRN's ramp"},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.family);
    const auto notes = exporting::mlx_notes(architecture_of(with(bare_config(one.family), one.more)));
    ASSERT_EQ(notes.size(), 1u);
    EXPECT_NE(notes[0].find(one.word), std::string::npos) << notes[0];
  }
  EXPECT_TRUE(exporting::mlx_notes(architecture_of(bare_config("llama"))).empty());
  EXPECT_TRUE(
      exporting::mlx_notes(architecture_of(with(bare_config("mistral"), {{"sliding_window", nullptr}}))).empty());
}

TEST(MlxNetwork, NotesArePartOfTheResult) {
  const TempDir dir;
  Json config = with(Json::parse(llama_config()), {{"model_type", "mistral"}, {"sliding_window", 12}});
  write_model(dir / "model", config.dump());
  EXPECT_EQ(export_to("mlx", dir / "model", dir / "out").written.notes.size(), 1u);
}

// qwen3 has a key for biases of attention, which mlx-lm does not read.
TEST(MlxNetwork, BiasesOfShiftingThatItDoesNotReadAreRefused) {
  const TempDir dir;
  for (const char* const family : {"qwen3", "llama"}) {
    write_model(dir / family, with(Json::parse(llama_config()), {{"model_type", family}, {"head_dim", 8}}).dump());
    write_calibration(dir / "calib.h5", dir / family);
    const auto output = dir / (std::string(family) + "-4-bit");
    quantize(dir / family, output,
             "{defaults: {format: int4-block}, layers: [{match: self_attn, format: int4-block, shifting: true}]}",
             {dir / "calib.h5"});
    const exporting::ExportOptions options{.rest = exporting::Rest::kFloat16};
    if (family == std::string("llama")) {
      EXPECT_NO_THROW(export_to("mlx", output, dir / "llama-out", options));
    } else {
      EXPECT_TRUE(throws_with<InvalidArgument>([&] { export_to("mlx", output, dir / "out", options); },
                                               "self_attn.q_proj' has a bias", "family qwen3", "shifting: false"));
      EXPECT_NO_THROW(export_to("compressed-tensors", output, dir / "ct-out", options));
    }
  }
}

TEST(MlxNetwork, PublishedModelsOfItsFamiliesAreComputed) {
  for (const model::PublishedConfig& published : model::published_configs()) {
    const auto architecture = model::parse_architecture(published.json, published.name);
    if (architecture.family == "opt") continue;
    EXPECT_NO_THROW(exporting::find_exporter("mlx").require_known(architecture)) << published.name;
  }
}

}  // namespace
}  // namespace nibble::test
