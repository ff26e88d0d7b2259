#include "model/gguf/gguf_rotary.h"

#include <gmock/gmock.h>

#include "core/error.h"
#include "model/architecture/families.h"

namespace nibble::model {
namespace {

using testing::ElementsAre;
using Factors = std::pair<std::string, std::vector<float>>;

/// Two pairs of elements that turn, so scaled.
Architecture network(std::string_view model_type, std::string_view scaling) {
  return parse_architecture(
      fmt::format(R"({{"model_type": "{}", "vocab_size": 8, "hidden_size": 4, "intermediate_size": 8,
          "num_hidden_layers": 1, "num_attention_heads": 1, "max_position_embeddings": 512, "rms_norm_eps": 1e-5,
          "original_max_position_embeddings": 128, "pad_token_id": null, "rope_scaling": {}}})",
                  model_type, scaling),
      "config.json");
}

std::string longrope(std::string_view long_factors, double magnitude = 1.0) {
  return fmt::format(
      R"({{"rope_type": "longrope", "short_factor": [1, 2], "long_factor": {}, "attention_factor": {}}})", long_factors,
      magnitude);
}

constexpr std::string_view kLlama3 =
    R"({"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0})";

std::vector<Factors> factors_of(const Architecture& architecture) {
  return gguf_rotary_factors(architecture, *find_gguf_architecture_of_family(architecture.family));
}

GgufMetadata keys_of(const Architecture& architecture) {
  GgufMetadata metadata;
  add_gguf_rotary(metadata, architecture, *find_gguf_architecture_of_family(architecture.family));
  return metadata;
}

// llama.cpp refuses lists for short and long texts in a file that does not name its scaling.
TEST(GgufRotary, OneListOfFactorsIsRopeFreqs) {
  const Architecture same = network("llama", longrope("[1, 2]"));
  EXPECT_THAT(factors_of(same), ElementsAre(Factors("rope_freqs.weight", {1.0f, 2.0f})));
  for (const char* const key :
       {"llama.rope.scaling.type", "llama.rope.scaling.original_context_length", "llama.rope.scaling.attn_factor"})
    EXPECT_EQ(keys_of(same).find(key), nullptr) << key;
  const Architecture louder = network("llama", longrope("[1, 2]", 1.25));
  EXPECT_THAT(factors_of(louder), ElementsAre(Factors("rope_freqs.weight", {1.0f, 2.0f})));
  EXPECT_EQ(keys_of(louder).number("llama.rope.scaling.attn_factor"), 1.25);
}

TEST(GgufRotary, TwoListsOfFactorsNameTheirScaling) {
  const Architecture llama = network("llama", longrope("[1, 3]", 1.25));
  EXPECT_THAT(factors_of(llama), ElementsAre(Factors("rope_factors_long.weight", {1.0f, 3.0f}),
                                             Factors("rope_factors_short.weight", {1.0f, 2.0f})));
  const GgufMetadata keys = keys_of(llama);
  EXPECT_EQ(keys.need_text("llama.rope.scaling.type"), "longrope");
  EXPECT_EQ(keys.natural("llama.rope.scaling.original_context_length"), 128u);
  EXPECT_EQ(keys.number("llama.rope.scaling.attn_factor"), 1.25);
}

// llama.cpp's phi3 loads no other tensors than these, whatever the file says.
TEST(GgufRotary, OfPhi3IsAlwaysTwoLists) {
  const Architecture differing = network("phi3", longrope("[1, 3]")), same = network("phi3", longrope("[1, 2]"));
  EXPECT_THAT(factors_of(differing), ElementsAre(Factors("rope_factors_long.weight", {1.0f, 3.0f}),
                                                 Factors("rope_factors_short.weight", {1.0f, 2.0f})));
  EXPECT_EQ(keys_of(differing).find("phi3.rope.scaling.type"), nullptr);
  EXPECT_EQ(keys_of(differing).natural("phi3.rope.scaling.original_context_length"), 128u);
  EXPECT_THAT(factors_of(same), ElementsAre(Factors("rope_factors_long.weight", {1.0f, 2.0f}),
                                            Factors("rope_factors_short.weight", {1.0f, 2.0f})));
  const auto llama3 = factors_of(network("phi3", kLlama3));
  ASSERT_EQ(llama3.size(), 2u);
  EXPECT_EQ(llama3[0].first, "rope_factors_long.weight");
  EXPECT_EQ(llama3[0].second, llama3[1].second);
}

}  // namespace
}  // namespace nibble::model
