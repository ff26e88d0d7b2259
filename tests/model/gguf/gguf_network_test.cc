#include "model/gguf/gguf_network.h"

#include <gmock/gmock.h>

#include <set>

#include "core/error.h"
#include "core/text/json.h"
#include "model/architecture/families.h"
#include "tests/support/throws.h"

namespace nibble::model {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::string> notes_of_phi3(std::size_t positions, std::string_view long_factor) {
  const Architecture architecture = parse_architecture(
      fmt::format(R"({{"model_type": "phi3", "vocab_size": 8, "hidden_size": 4, "intermediate_size": 8,
          "num_hidden_layers": 1, "num_attention_heads": 1, "max_position_embeddings": {},
          "original_max_position_embeddings": 128, "pad_token_id": null,
          "rope_scaling": {{"type": "longrope", "short_factor": [1, 2], "long_factor": [1, {}]}}}})",
                  positions, long_factor),
      "config.json");
  return gguf_notes(architecture, gguf_architecture_for(architecture));
}

// llama.cpp (get_rope_factors) goes by its context, the network by the text.
TEST(GgufNotes, SayWhichTextsTurnByTheLongFactors) {
  EXPECT_THAT(notes_of_phi3(512, "3"), ElementsAre(HasSubstr("with -c 128 short texts")));
  EXPECT_THAT(notes_of_phi3(512, "2"), IsEmpty()) << "the same factors";
  EXPECT_THAT(notes_of_phi3(128, "3"), IsEmpty()) << "no long texts";
}

/// A network of one block that llama.cpp's `names` computes but for its rotary factors: `lists` of them.
Architecture with_factors(const GgufArchitecture& names, std::size_t lists) {
  Architecture architecture = parse_architecture(
      R"({"model_type": "llama", "vocab_size": 8, "hidden_size": 4, "intermediate_size": 8, "num_hidden_layers": 1,
          "num_attention_heads": 1, "max_position_embeddings": 512, "rms_norm_eps": 1e-5,
          "original_max_position_embeddings": 128,
          "rope_scaling": {"rope_type": "longrope", "short_factor": [1, 2], "long_factor": [1, 2]}})",
      "config.json");
  architecture.family = names.model_type;
  architecture.head.tied = true;
  BlockSpec& block = architecture.blocks.front();
  if (names.window_every != 0 && names.name != "exaone4") block.attention.window = 64;
  if (names.experts_demanded) block.experts.emplace();
  if (lists == 0) block.attention.rotary->scaling = {};
  if (lists == 2) block.attention.rotary->scaling.long_factors = {1, 3};
  return architecture;
}

// Which tensors of factors the files src/models/*.cpp of llama.cpp load; with others it refuses a file.
TEST(GgufNetwork, RefusesRotaryFactorsThatLlamaCppDoesNotLoad) {
  const std::set<std::string_view> one{"llama", "mistral3", "granite", "granitemoe", "exaone4", "phi3", "arcee"};
  const std::set<std::string_view> two{"llama", "mistral3", "granite", "granitemoe", "phi3"};
  for (const GgufArchitecture& names : gguf_architectures()) {
    SCOPED_TRACE(names.name);
    if (find_gguf_architecture_of_family(names.model_type) != &names) continue;  // files of it are read alone
    EXPECT_NO_THROW(gguf_architecture_for(with_factors(names, 0)));
    const auto takes = [&](std::size_t lists, const std::set<std::string_view>& known, std::string_view refusal) {
      const auto run = [&] { gguf_architecture_for(with_factors(names, lists)); };
      if (known.contains(names.name))
        EXPECT_NO_THROW(run());
      else
        EXPECT_TRUE(test::throws_with<InvalidArgument>(run, fmt::format("'{}' does not compute", names.name), refusal,
                                                       "it does in llama, "));
    };
    takes(1, one, "a factor for each rotary frequency");
    takes(2, two, "rotary factors that differ between short and long texts");
  }
}

nlohmann::json small(std::string_view family) {
  return {
      {"model_type", family},   {"vocab_size", 8},          {"hidden_size", 8},         {"intermediate_size", 8},
      {"num_hidden_layers", 2}, {"num_attention_heads", 2}, {"num_key_value_heads", 2}, {"tie_word_embeddings", true}};
}

void look_up(const nlohmann::json& config) { gguf_architecture_for(parse_architecture(config.dump(), "config.json")); }

// Its qwen2 loads attn_q as (width, width); qwen3 reads how wide heads are.
TEST(GgufNetwork, RefusesHeadsThatItTakesToFillTheWidth) {
  for (const std::string_view family :
       {"qwen2", "qwen2_moe", "nemotron", "starcoder2", "olmo", "olmo2", "cohere", "phi3", "phi", "glm", "qwen3"}) {
    nlohmann::json config = small(family);
    config["head_dim"] = 4;
    EXPECT_NO_THROW(look_up(config)) << family;
    config["head_dim"] = 8;
    if (family == "qwen3")
      EXPECT_NO_THROW(look_up(config));
    else
      EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { look_up(config); },
                                                     "does not compute 2 heads of 8 beside a width of 8"));
  }
}

// Its glm4moe and dots1 know blocks without experts in front of such with experts alone; dots1 has no grouped heads.
TEST(GgufNetwork, RefusesMixturesThatItDoesNotCompute) {
  for (const std::string_view family : {"glm4_moe", "dots1"}) {
    SCOPED_TRACE(family);
    nlohmann::json config = small(family);
    config.update({{"n_routed_experts", 2},
                   {"num_experts_per_tok", 1},
                   {"n_shared_experts", 1},
                   {"moe_intermediate_size", 8},
                   {"first_k_dense_replace", 1},
                   {"tie_word_embeddings", false}});
    EXPECT_NO_THROW(look_up(config));
    nlohmann::json dense = config, grouped = config;
    dense["first_k_dense_replace"] = 2, grouped["num_key_value_heads"] = 1;
    EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { look_up(dense); }, "a network without experts"));
    if (family == "dots1")
      EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { look_up(grouped); }, "1 key-value heads beside 2"));
    else
      EXPECT_NO_THROW(look_up(grouped));
  }
}

TEST(GgufNetwork, KnowsCoheresNormsByTheNumberOfBlocks) {
  for (const auto& [blocks, normed, takes] :
       {std::tuple(2, false, true), {2, true, false}, {64, true, true}, {64, false, false}}) {
    nlohmann::json config = small("cohere");
    config["num_hidden_layers"] = blocks, config["use_qk_norm"] = normed;
    if (takes)
      EXPECT_NO_THROW(look_up(config));
    else
      EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { look_up(config); }, "norms of q and k",
                                                     fmt::format("in {} blocks", blocks)));
  }
}

TEST(GgufNetwork, RefusesBoundsOfYarnsRampThatNoContextTakes) {
  nlohmann::json config = small("llama");
  config["rope_scaling"] = {
      {"rope_type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 32}, {"beta_fast", 32.0}};
  EXPECT_NO_THROW(look_up(config));
  for (const auto& [key, value] : {std::pair("beta_fast", 16.0), {"beta_slow", 2.0}}) {
    nlohmann::json other = config;
    other["rope_scaling"][key] = value;
    EXPECT_TRUE(
        test::throws_with<InvalidArgument>([&] { look_up(other); }, fmt::format("{} {}", key, value), "32 and 1"));
  }
}

}  // namespace
}  // namespace nibble::model
