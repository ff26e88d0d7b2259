#include "model/architecture/families.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/error.h"
#include "core/text/json.h"
#include "tests/model/architecture/small_configs.h"
#include "tests/support/compare.h"
#include "tests/support/files.h"
#include "tests/support/throws.h"

namespace nibble::test {
namespace {

using model::Activation;
using model::Architecture;
using model::RotaryScaling;

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

Json dense_hybrid() {
  Json json = with(with(small("granitemoehybrid"), "num_local_experts", 0), "shared_intermediate_size", 40);
  json["layer_types"] = Json(std::vector<std::string>(4, "attention"));
  return json;
}

// As little as has to be said of mixtures that route as DeepSeek's do.
Json sigmoid_mixtures(const char* model_type) {
  Json json = small(model_type);
  json["n_routed_experts"] = 8, json["num_experts_per_tok"] = 3, json["n_shared_experts"] = 2;
  json["moe_intermediate_size"] = 16;
  return json;
}

TEST(Gpt2, FillsInTheFamilysDefaults) {
  const Architecture a = parse(gpt2());
  EXPECT_EQ(a.family, "gpt2");
  EXPECT_EQ(a.vocabulary, 50257u);
  EXPECT_EQ(a.hidden, 768u);
  EXPECT_EQ(attention_of(a).heads, 12u);
  EXPECT_EQ(attention_of(a).kv_heads, 12u);
  EXPECT_EQ(attention_of(a).head_dim, 64u);
  EXPECT_EQ(a.largest_intermediate(), 3072u);
  EXPECT_EQ(a.max_positions, 1024u);
  EXPECT_TRUE(near(a.final_norm->epsilon, 1e-5, {}));
  EXPECT_TRUE(attention_of(a).o.biased && a.blocks[0].mlp->up.biased && a.head.tied);
  EXPECT_EQ(a.eos, 50256u);
  EXPECT_FALSE(a.bos.has_value());
}

TEST(Gpt2, TakesAnInnerWidthAndOtherActivations) {
  const Architecture a = parse(with(with(gpt2(), "n_inner", 1000), "activation_function", "relu"));
  EXPECT_EQ(a.largest_intermediate(), 1000u);
  EXPECT_EQ(a.blocks[0].mlp->activation, Activation::kRelu);
  EXPECT_EQ(parse(with(gpt2(), "n_inner", nullptr)).largest_intermediate(), 3072u);
}

TEST(Gpt2, ScalesScoresAsToldTo) {
  EXPECT_TRUE(near(attention_of(parse(with(gpt2(), "scale_attn_weights", false))).scale, 1.0, {}));
  const Architecture a = parse(with(gpt2(), "scale_attn_by_inverse_layer_idx", true));
  EXPECT_TRUE(near(attention_of(a, 3).scale, 1.0 / 8.0 / 4.0, {}));
}

TEST(Llama, ReadsLlama31) {
  const Architecture a = parse(with(llama(), "rope_scaling", llama3_scaling()));
  EXPECT_EQ(attention_of(a).kv_heads, 8u);
  EXPECT_EQ(attention_of(a).head_dim, 128u);
  EXPECT_EQ(attention_of(a).kv_width(), 1024u);
  EXPECT_FALSE(attention_of(a).q.biased || a.blocks[0].mlp->up.biased || a.head.tied);
  EXPECT_TRUE(near(attention_of(a).rotary->base, 500000.0, {}));
  const RotaryScaling& scaling = attention_of(a).rotary->scaling;
  EXPECT_EQ(scaling.kind, RotaryScaling::Kind::kLlama3);
  EXPECT_TRUE(near(scaling.factor, 8.0, {}));
  EXPECT_EQ(scaling.original_context, 8192u);
  EXPECT_EQ(a.eos, 128001u);
  EXPECT_EQ(a.stop_tokens, (std::vector<std::uint32_t>{128001, 128008, 128009}));
}

// Models with a vocabulary of their own often keep GPT-2's 50256; transformers opens them, and no text has that token.
TEST(SpecialTokens, BeyondTheVocabularyAreAbsentAndWarnedOf) {
  const Architecture one = parse(with(gpt2(), "eos_token_id", 50257));
  EXPECT_EQ(one.eos, std::nullopt);
  EXPECT_EQ(one.stop_tokens, std::vector<std::uint32_t>{});
  EXPECT_EQ(model::warning_of_special_tokens(one),
            "eos_token_id 50257 is beyond the vocabulary of 50257 tokens: as if config.json did not name it");

  const Architecture some = parse(with(with(llama(), "bos_token_id", 4294967295u), "eos_token_id", {128256, 128009}));
  EXPECT_EQ(some.bos, std::nullopt);
  EXPECT_EQ(some.eos, 128009u) << "the first that there is";
  EXPECT_EQ(some.stop_tokens, std::vector<std::uint32_t>{128009});
  EXPECT_EQ(model::warning_of_special_tokens(some),
            "bos_token_id 4294967295, eos_token_id 128256 are beyond the vocabulary of 128256 tokens: as if "
            "config.json did not name them");

  EXPECT_EQ(model::warning_of_special_tokens(parse(llama())), std::nullopt);
}

TEST(Llama, ReadsTheNewerRopeParameters) {
  Json rope = llama3_scaling();
  rope["rope_theta"] = 10000.0;
  const Architecture a = parse(with(llama(), "rope_parameters", rope));
  EXPECT_EQ(attention_of(a).rotary->scaling.kind, RotaryScaling::Kind::kLlama3);
  EXPECT_TRUE(near(attention_of(a).rotary->base, 10000.0, {}));
}

TEST(Llama, TakesTwoRopesThatSayTheSame) {
  const Architecture a =
      parse(with(with(llama(), "rope_parameters", llama3_scaling()), "rope_scaling", llama3_scaling()));
  EXPECT_EQ(attention_of(a).rotary->scaling.kind, RotaryScaling::Kind::kLlama3);
}

// What other programs read, and transformers does not.
TEST(Llama, YarnKeysOfOtherProgramsChangeNothing) {
  Json yarn = {{"type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 4096}};
  const double magnitude = attention_of(parse(with(llama(), "rope_scaling", yarn))).rotary->scaling.magnitude;
  yarn["attn_factor"] = 0.8782488562869419, yarn["finetuned"] = true;
  EXPECT_TRUE(near(attention_of(parse(with(llama(), "rope_scaling", yarn))).rotary->scaling.magnitude, magnitude, {}));
}

TEST(Mixtral, HasNoBiasesToSayNoTo) {
  EXPECT_EQ(parse(with(with(small("mixtral"), "attention_bias", false), "mlp_bias", false)).family, "mixtral");
  EXPECT_THROW(parse(with(small("mixtral"), "attention_bias", true)), FormatError);
}

TEST(Llama, TakesNullAndDefaultScalingAsNone) {
  for (const Json& none : {Json(nullptr), Json{{"rope_type", "default"}}})
    EXPECT_EQ(attention_of(parse(with(llama(), "rope_scaling", none))).rotary->scaling.kind,
              RotaryScaling::Kind::kNone);
}

TEST(Llama, TakesAnExplicitHeadDimensionAndTiedHeads) {
  const Architecture a = parse(with(with(llama(), "head_dim", 64), "tie_word_embeddings", true));
  EXPECT_EQ(attention_of(a).q_width(), 2048u);
  EXPECT_TRUE(a.head.tied);
  EXPECT_EQ(a.head.linear.weight, a.embedding.weight);
}

TEST(Llama, ReadsYarnWithItsDefaults) {
  const Json yarn = {{"type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 4096}};
  const RotaryScaling scaling = attention_of(parse(with(llama(), "rope_scaling", yarn))).rotary->scaling;
  EXPECT_EQ(scaling.kind, RotaryScaling::Kind::kYarn);
  EXPECT_TRUE(near(scaling.beta_fast, 32.0, {}));
  EXPECT_TRUE(near(scaling.magnitude, 0.1 * std::log(4.0) + 1.0, {.abs = 0.0, .rel = 1e-15}));
}

TEST(Llama, TakesADynamicContextFromThePositions) {
  const Architecture a = parse(with(llama(), "rope_scaling", {{"type", "dynamic"}, {"factor", 2.0}}));
  EXPECT_EQ(attention_of(a).rotary->scaling.original_context, 131072u);
}

TEST(LinearLayers, AreNamedAsTheCheckpointNamesThem) {
  const Architecture g = parse(gpt2());
  const auto gpt2_layers = model::linear_layers(g);
  ASSERT_EQ(gpt2_layers.size(), 72u);
  EXPECT_EQ(gpt2_layers[6]->module, "h.1.attn.c_attn.q");
  EXPECT_EQ(gpt2_layers[6]->out, 768u);
  EXPECT_TRUE(gpt2_layers[6]->weight.transposed);
  const Architecture l = parse(llama());
  const auto llama_layers = model::linear_layers(l);
  ASSERT_EQ(llama_layers.size(), 224u);
  EXPECT_EQ(llama_layers[8]->module, "model.layers.1.self_attn.k_proj");
  EXPECT_EQ(llama_layers[8]->out, 1024u);
  EXPECT_EQ(llama_layers[8]->in, 4096u);
  EXPECT_EQ(llama_layers[8]->block, 1u);
  EXPECT_EQ(llama_layers[8]->input_of, "model.layers.1.self_attn.q_proj");
  EXPECT_EQ(llama_layers[8]->fed_by, "model.layers.1.input_layernorm");
}

TEST(TheDemoModels, Parse) {
  for (const char* name : {"gpt2-demo", "llama-demo"}) {
    const auto path = source_path("datasets/demo") / name / "config.json";
    const Architecture a = model::parse_architecture(read_file(path), path.string());
    EXPECT_EQ(a.vocabulary, 2048u);
    EXPECT_EQ(a.hidden, 128u);
    EXPECT_EQ(a.blocks.size(), 4u);
  }
}

TEST(Windows, OfMistralStandInEveryBlock) {
  EXPECT_EQ(windows_of(parse(with(small("mistral"), "sliding_window", 9))), Windows(4, 9));
  EXPECT_EQ(windows_of(parse(with(small("mistral"), "sliding_window", nullptr))), Windows(4, 0));
  EXPECT_EQ(windows_of(parse(small("mistral"))), Windows(4, 4096));
  // Ministral 8B calls itself mistral.
  const Json types = {"full_attention", "sliding_attention", "sliding_attention", "full_attention"};
  const Architecture ministral = parse(with(with(small("mistral"), "sliding_window", 9), "layer_types", types));
  EXPECT_EQ(windows_of(ministral), (Windows{0, 9, 9, 0}));
  EXPECT_EQ(ministral.family, "ministral") << "exports go by the network's family";
}

Json growing() {
  Json ministral = small("ministral3");
  const Json rope = {{"rope_type", "yarn"},
                     {"type", "yarn"},
                     {"factor", 16.0},
                     {"original_max_position_embeddings", 64},
                     {"mscale", 1.0},
                     {"mscale_all_dim", 1.0},
                     {"rope_theta", 1000000.0},
                     {"llama_4_scaling_beta", 0.1},
                     {"max_position_embeddings", 1024}};
  ministral["rope_parameters"] = rope;
  return ministral;
}

TEST(Ministral3, HasQueriesThatGrowBehindTheOriginalContext) {
  const Json ministral = growing();
  const Architecture a = parse(ministral);
  const model::QueryGrowth& growth = a.blocks[3].attention.growth;
  EXPECT_EQ(growth.from, 64u);
  EXPECT_EQ(growth.at(63), 1.0);
  EXPECT_TRUE(near(growth.at(64), 1.0 + 0.1 * std::log(2.0), {.rel = 1e-15}));
  EXPECT_TRUE(near(growth.at(200), 1.0 + 0.1 * std::log(4.0), {.rel = 1e-15}));
  EXPECT_EQ(attention_of(a).head_dim, 128u);
  EXPECT_EQ(attention_of(a).rotary->scaling.kind, RotaryScaling::Kind::kYarn);
  EXPECT_TRUE(near(attention_of(a).rotary->scaling.magnitude, 1.0, {}));
  EXPECT_EQ(windows_of(a), (Windows{0, 0, 0, 0}));
  EXPECT_EQ(windows_of(parse(with(ministral, "sliding_window", 9))), (Windows{9, 9, 9, 9}));
  EXPECT_EQ(parse(with(ministral, "layer_types", Json(std::vector<std::string>(4, "full_attention")))).blocks.size(),
            4u);
  const Architecture outer = parse(with(ministral, "original_max_position_embeddings", 32));
  EXPECT_EQ(attention_of(outer).growth.from, 32u) << "what stands beside the settings goes first, for YaRN too";
  EXPECT_EQ(attention_of(outer).rotary->scaling.original_context, 32u);
  EXPECT_EQ(parse(small("mistral")).blocks[0].attention.growth.by, 0.0);
}

TEST(Windows, OfGemmaFollowPatternsOrLists) {
  Json gemma2 = with(small("gemma2"), "sliding_window", 9);
  EXPECT_EQ(windows_of(parse(gemma2)), (Windows{9, 0, 9, 0}));
  gemma2["layer_types"] = {"full_attention", "full_attention", "sliding_attention", "full_attention"};
  EXPECT_EQ(windows_of(parse(gemma2)), (Windows{0, 0, 9, 0}));
  const Json gemma3 = with(with(small("gemma3_text"), "sliding_window", 9), "sliding_window_pattern", 2);
  const Architecture a = parse(gemma3);
  EXPECT_EQ(windows_of(a), (Windows{9, 0, 9, 0}));
  EXPECT_TRUE(near(attention_of(a, 0).rotary->base, 10000.0, {}));
  EXPECT_TRUE(near(attention_of(a, 1).rotary->base, 1000000.0, {}));
}

TEST(Windows, OfQwenBeginBehindTheFirstBlocksAndOnlyIfUsed) {
  const Json qwen = with(with(small("qwen2"), "sliding_window", 9), "max_window_layers", 3);
  EXPECT_EQ(windows_of(parse(qwen)), Windows(4, 0));
  EXPECT_EQ(windows_of(parse(with(qwen, "use_sliding_window", true))), (Windows{0, 0, 0, 9}));
}

TEST(Windows, OfExaoneTakeTheRotaryEmbeddingFromTheOtherBlocks) {
  const Json exaone = with(with(small("exaone4"), "sliding_window", 9), "sliding_window_pattern", "LLLG");
  const Architecture a = parse(exaone);
  EXPECT_EQ(windows_of(a), (Windows{9, 9, 9, 0}));
  EXPECT_TRUE(attention_of(a, 2).rotary.has_value());
  EXPECT_FALSE(attention_of(a, 3).rotary.has_value());
  const Architecture global = parse(with(exaone, "sliding_window", nullptr));
  EXPECT_EQ(windows_of(global), Windows(4, 0));
  EXPECT_TRUE(attention_of(global, 3).rotary.has_value());
}

TEST(GptNeo, ReadsGroupsOfKindsOfAttention) {
  Json neo = {{"model_type", "gpt_neo"}, {"vocab_size", 9}, {"hidden_size", 8},
              {"num_layers", 4},         {"num_heads", 4},  {"window_size", 9}};
  neo["attention_types"] = Json::parse(R"([[["global", "local"], 1], [["local"], 2]])");
  EXPECT_EQ(windows_of(parse(neo)), (Windows{0, 9, 9, 9}));
  EXPECT_TRUE(near(attention_of(parse(neo)).scale, 1.0, {}));
}

TEST(Phi3, TakesOldNamesOfLongRopeAndTheContextBesideIt) {
  Json phi3 = small("phi3");
  phi3["max_position_embeddings"] = 8192, phi3["original_max_position_embeddings"] = 2048;
  phi3["rope_scaling"] = {{"type", "yarn"}, {"short_factor", {1.0, 1.0, 1.0, 1.0}}, {"long_factor", {2, 2, 2, 2}}};
  const RotaryScaling scaling = attention_of(parse(phi3)).rotary->scaling;
  EXPECT_EQ(scaling.kind, RotaryScaling::Kind::kLongRope);
  EXPECT_EQ(scaling.original_context, 2048u);
  EXPECT_TRUE(near(scaling.magnitude, std::sqrt(1.0 + std::log(4.0) / std::log(2048.0)), {.abs = 0.0, .rel = 1e-15}));
}

// transformers 4.40 to 4.57 save the share and the base that they were given under both names.
TEST(GptNeoX, TakesBothNamesOfItsRotarySettings) {
  Json neox = with(with(small("gpt_neox"), "rotary_pct", 0.25), "rotary_emb_base", 10000);
  neox.erase("num_key_value_heads");
  Json both = with(with(neox, "partial_rotary_factor", 0.25), "rope_theta", 10000);
  EXPECT_EQ(attention_of(parse(both)).rotary->dims, 2u);
  both.erase("rotary_pct");
  both.erase("rotary_emb_base");
  const model::RotarySpec newer =
      *attention_of(parse(with(with(both, "partial_rotary_factor", 0.5), "rope_theta", 500))).rotary;
  EXPECT_EQ(newer.dims, 4u);
  EXPECT_TRUE(near(newer.base, 500.0, {}));
  EXPECT_TRUE(throws_with<FormatError>([&] { parse(with(neox, "partial_rotary_factor", 0.5)); }, "'rotary_pct'",
                                       "'partial_rotary_factor'", "got 0.25 and 0.5"));
  EXPECT_TRUE(
      throws_with<FormatError>([&] { parse(with(neox, "rope_theta", 500)); }, "'rotary_emb_base'", "got 10000"));
}

TEST(Falcon, TellsItsGenerationsApart) {
  Json falcon = {{"model_type", "falcon"},
                 {"vocab_size", 100},
                 {"hidden_size", 32},
                 {"num_hidden_layers", 1},
                 {"num_attention_heads", 4}};
  const Architecture seven = parse(falcon);
  EXPECT_EQ(attention_of(seven).kv_heads, 1u);
  EXPECT_EQ(attention_of(seven).q.weight.rows, 48u);
  EXPECT_FALSE(seven.blocks[0].mlp_norm.has_value());

  const Architecture forty = parse(with(with(falcon, "new_decoder_architecture", true), "num_kv_heads", 2));
  EXPECT_EQ(attention_of(forty).kv_heads, 2u);
  EXPECT_EQ(forty.blocks[0].mlp_norm->module, "transformer.h.0.ln_mlp");

  Json rw = falcon;
  rw["alibi"] = true, rw["multi_query"] = false, rw["parallel_attn"] = false, rw["bias"] = true;
  const Architecture old = parse(rw);
  EXPECT_EQ(attention_of(old).kv_heads, 4u);
  EXPECT_EQ(old.blocks[0].residual, model::BlockSpec::Residual::kSequential);
  EXPECT_FALSE(attention_of(old).rotary.has_value());
  EXPECT_TRUE(near(attention_of(old).alibi[0], 0.25 / std::sqrt(8.0), {.abs = 0.0, .rel = 1e-15}));
  EXPECT_TRUE(attention_of(old).q.biased && old.blocks[0].mlp->down.biased);
}

TEST(StableLm, GivesEveryHeadAGainOfItsOwn) {
  Json stablelm = with(with(small("stablelm"), "qk_layernorm", true), "use_parallel_residual", true);
  const Architecture a = parse(stablelm);
  EXPECT_FALSE(a.blocks[0].mlp_norm.has_value());
  ASSERT_EQ(attention_of(a).q_norm->group_gains.size(), 4u);
  EXPECT_EQ(attention_of(a).k_norm->group_gains[1].tensor, "model.layers.0.self_attn.k_layernorm.norms.1.weight");
  EXPECT_EQ(attention_of(a).rotary->dims, 2u);
}

TEST(Cohere, StacksTheGainsOfItsHeads) {
  const Architecture a = parse(with(small("cohere"), "use_qk_norm", true));
  ASSERT_EQ(attention_of(a).k_norm->group_gains.size(), 2u);
  EXPECT_EQ(attention_of(a).k_norm->group_gains[1].shape(), (std::vector<std::uint64_t>{2, 8}));
  EXPECT_TRUE(near(a.head.scale, 0.0625, {}));
  EXPECT_TRUE(attention_of(a).rotary->interleaved);
}

TEST(Cohere2, TurnsWindowedBlocksAlone) {
  const Json cohere2 = with(small("cohere2"), "sliding_window", 9);
  const Architecture a = parse(cohere2);
  EXPECT_EQ(windows_of(a), (Windows{9, 9, 9, 0}));
  EXPECT_TRUE(attention_of(a, 0).rotary->interleaved);
  EXPECT_TRUE(near(attention_of(a, 0).rotary->base, 10000.0, {}));
  EXPECT_FALSE(attention_of(a, 3).rotary.has_value());
  EXPECT_EQ(windows_of(parse(with(cohere2, "sliding_window_pattern", 2))), (Windows{9, 0, 9, 0}));
  EXPECT_EQ(windows_of(parse(with(cohere2, "_sliding_window_pattern", 2))), (Windows{9, 0, 9, 0}));
  const Json types = {"full_attention", "sliding_attention", "full_attention", "full_attention"};
  EXPECT_EQ(windows_of(parse(with(cohere2, "layer_types", types))), (Windows{0, 9, 0, 0}));
  EXPECT_EQ(windows_of(parse(small("cohere2"))), (Windows{4096, 4096, 4096, 0}));
}

TEST(Glm, IsGlm4WithoutItsPostNorms) {
  Json glm = with(small("glm"), "num_attention_heads", 8);
  glm.erase("num_key_value_heads");
  const Architecture a = parse(glm), four = parse(small("glm4"));
  EXPECT_EQ(attention_of(a).kv_heads, 2u);
  EXPECT_EQ(attention_of(a).head_dim, 128u);
  EXPECT_EQ(attention_of(a).rotary->dims, 64u);
  EXPECT_TRUE(attention_of(a).q.biased && attention_of(a).v.biased && !attention_of(a).o.biased);
  EXPECT_FALSE(a.blocks[0].attention_post_norm || a.blocks[0].mlp_post_norm);
  EXPECT_EQ(four.blocks[3].attention_post_norm->module, "model.layers.3.post_self_attn_layernorm");
  EXPECT_EQ(four.blocks[3].mlp_post_norm->module, "model.layers.3.post_mlp_layernorm");
  EXPECT_TRUE(near(four.blocks[3].mlp_post_norm->epsilon, 1.5625e-07, {}));
}

TEST(SeedOss, HasAKeyOfItsOwnForTheBiasOfO) {
  const auto biases = [](const Architecture& a) {
    const model::AttentionSpec& attention = attention_of(a);
    return std::vector<bool>{attention.q.biased, attention.v.biased, attention.o.biased, a.blocks[0].mlp->up.biased};
  };
  const Json seed = with(with(small("seed_oss"), "num_attention_heads", 16), "residual_dropout", 0.1);
  EXPECT_EQ(biases(parse(seed)), (std::vector<bool>{true, true, false, false}));
  EXPECT_EQ(biases(parse(with(with(seed, "attention_bias", false), "attention_out_bias", true))),
            (std::vector<bool>{false, false, true, false}));
  EXPECT_EQ(biases(parse(with(seed, "mlp_bias", true))), (std::vector<bool>{true, true, false, true}));
  Json fewer = seed;
  fewer.erase("num_key_value_heads");
  EXPECT_EQ(attention_of(parse(fewer)).kv_heads, 8u);
  EXPECT_EQ(attention_of(parse(fewer)).head_dim, 128u);
}

TEST(Arcee, HasNoGate) {
  const Architecture a = parse(small("arcee"));
  EXPECT_FALSE(a.blocks[0].mlp->gate.has_value());
  EXPECT_EQ(a.blocks[0].mlp->activation, Activation::kRelu2);
  EXPECT_EQ(a.blocks[0].mlp->up.module, "model.layers.0.mlp.up_proj");
  EXPECT_TRUE(parse(with(small("arcee"), "mlp_bias", true)).blocks[0].mlp->down.biased);
}

TEST(Ernie, TurnsPairsAndHasOneKeyForAllBiases) {
  const Architecture a = parse(small("ernie4_5")), biased = parse(with(small("ernie4_5"), "use_bias", true));
  EXPECT_TRUE(attention_of(a).rotary->interleaved);
  EXPECT_TRUE(near(attention_of(a).rotary->base, 500000.0, {}));
  EXPECT_EQ(attention_of(a).head_dim, 128u);
  EXPECT_TRUE(a.head.tied);
  EXPECT_FALSE(attention_of(a).q.biased || attention_of(a).o.biased || a.blocks[0].mlp->down.biased);
  EXPECT_TRUE(attention_of(biased).q.biased && attention_of(biased).o.biased && biased.blocks[0].mlp->down.biased);
}

TEST(ErnieMixtures, StandInEveryBlockOfAStepBetweenTwo) {
  const auto mixtures_of = [](const Json& json) {
    std::vector<bool> mixtures;
    for (const model::BlockSpec& block : parse(json).blocks) mixtures.push_back(block.experts.has_value());
    return mixtures;
  };
  const Json ernie = small("ernie4_5_moe");
  EXPECT_EQ(mixtures_of(ernie), (std::vector<bool>{false, true, true, true}));
  EXPECT_EQ(mixtures_of(with(ernie, "moe_layer_interval", 2)), (std::vector<bool>{false, true, false, true}));
  EXPECT_EQ(mixtures_of(with(ernie, "moe_layer_start_index", 0)), (std::vector<bool>{true, true, true, true}));
  EXPECT_EQ(mixtures_of(with(ernie, "moe_layer_end_index", 2)), (std::vector<bool>{false, true, true, false}));
  EXPECT_EQ(mixtures_of(with(ernie, "moe_layer_end_index", -1)), (std::vector<bool>{false, true, true, true}));
}

TEST(ErnieMixtures, HaveACorrectionAndSharedExpertsUnlessTheySayNot) {
  const Json ernie = small("ernie4_5_moe");
  const Architecture a = parse(ernie);
  const model::ExpertsSpec& experts = *a.blocks[3].experts;
  EXPECT_EQ(experts.routing, model::ExpertsSpec::Routing::kSoftmaxThenTop);
  EXPECT_TRUE(experts.renormalise);
  EXPECT_EQ(experts.experts.size(), 64u);
  EXPECT_EQ(experts.active, 6u);
  EXPECT_EQ(experts.router.module, "model.layers.3.mlp.gate");
  EXPECT_EQ(experts.correction->tensor, "model.layers.3.mlp.moe_statics.e_score_correction_bias");
  EXPECT_EQ(experts.correction->shape(), (std::vector<std::uint64_t>{1, 64}));
  EXPECT_EQ(experts.experts[63].up.module, "model.layers.3.mlp.experts.63.up_proj");
  EXPECT_EQ(experts.shared->down.module, "model.layers.3.mlp.shared_experts.down_proj");
  EXPECT_EQ(experts.shared->intermediate(), 3072u);
  EXPECT_EQ(experts.shared_count(), 2u);
  EXPECT_TRUE(experts.shared->gate->shared_expert && experts.shared->down.shared_expert && !experts.shared_gate);
  EXPECT_TRUE(attention_of(a).rotary->interleaved && a.head.tied);
  EXPECT_TRUE(a.is_ignored("model.mtp_block.0.mlp.gate_proj.weight") && !a.is_ignored("model.mtp.weight"));
  EXPECT_FALSE(parse(with(ernie, "moe_use_aux_free", false)).blocks[1].experts->correction.has_value());
  EXPECT_FALSE(parse(with(ernie, "moe_num_shared_experts", 0)).blocks[1].experts->shared.has_value());
  const Architecture biased = parse(with(ernie, "use_bias", true));
  EXPECT_TRUE(biased.blocks[0].mlp->up.biased && biased.blocks[1].experts->shared->up.biased);
  EXPECT_FALSE(biased.blocks[1].experts->experts[0].up.biased) << "which transformers stacks without";
}

TEST(GraniteHybrids, TurnOnlyWhereTheyAreToldTo) {
  const Json hybrid = dense_hybrid();
  const Architecture a = parse(with(hybrid, "position_embedding_type", "rope"));
  EXPECT_TRUE(attention_of(a).rotary.has_value());
  EXPECT_EQ(a.blocks[1].mlp->up.module, "model.layers.1.shared_mlp.input_linear.up");
  EXPECT_EQ(a.largest_intermediate(), 40u);
  EXPECT_FALSE(attention_of(parse(with(hybrid, "position_embedding_type", "nope"))).rotary.has_value());
  EXPECT_FALSE(attention_of(parse(hybrid)).rotary.has_value());
  Json saved = hybrid;  // as transformers 5 calls them
  saved["layer_types"] = Json(std::vector<std::string>(4, "full_attention"));
  saved["time_step_limit"] = {0.0, {{"__float__", "Infinity"}}};
  EXPECT_EQ(parse(saved).blocks.size(), 4u);
}

TEST(GptOss, TakesYarnWhereNothingIsSaid) {
  Json oss = small("gpt_oss");
  oss["num_local_experts"] = 4, oss["num_experts_per_tok"] = 2;
  const Architecture a = parse(oss);
  EXPECT_EQ(attention_of(a).rotary->scaling.kind, RotaryScaling::Kind::kYarn);
  EXPECT_EQ(windows_of(a), (Windows{128, 0, 128, 0}));
  EXPECT_EQ(attention_of(a).head_dim, 64u);
  EXPECT_EQ(a.blocks[0].experts->experts[3].gate->module, "model.layers.0.mlp.experts.gate_up_proj.3.gate");
  EXPECT_EQ(a.blocks[0].experts->experts[3].down.module, "model.layers.0.mlp.experts.down_proj.3");
}

TEST(QwenMixtures, StandWhereTheListsSay) {
  Json qwen = small("qwen3_moe");
  qwen["num_experts"] = 4, qwen["num_experts_per_tok"] = 2, qwen["moe_intermediate_size"] = 16;
  qwen["decoder_sparse_step"] = 2, qwen["mlp_only_layers"] = {3};
  const Architecture a = parse(qwen);
  std::vector<bool> mixtures;
  for (const model::BlockSpec& block : a.blocks) mixtures.push_back(block.experts.has_value());
  EXPECT_EQ(mixtures, (std::vector<bool>{false, true, false, false}));
}

TEST(Glm4Moe, ChoosesExpertsBehindItsFirstBlocks) {
  Json glm = sigmoid_mixtures("glm4_moe");
  const Architecture a = parse(glm);
  EXPECT_TRUE(a.blocks[0].mlp && !a.blocks[0].experts && !a.blocks[1].mlp && a.blocks[1].experts);
  EXPECT_EQ(a.blocks[0].mlp->intermediate(), 48u);
  const model::ExpertsSpec& experts = *a.blocks[3].experts;
  EXPECT_EQ(experts.routing, model::ExpertsSpec::Routing::kSigmoidThenTop);
  EXPECT_TRUE(experts.renormalise);
  EXPECT_EQ(experts.experts.size(), 8u);
  EXPECT_EQ(experts.active, 3u);
  EXPECT_EQ(experts.groups, 1u);
  EXPECT_TRUE(near(experts.scale, 1.0, {}));
  EXPECT_EQ(experts.router.module, "model.layers.3.mlp.gate");
  EXPECT_EQ(experts.correction->tensor, "model.layers.3.mlp.gate.e_score_correction_bias");
  EXPECT_EQ(experts.experts[7].down.module, "model.layers.3.mlp.experts.7.down_proj");
  EXPECT_EQ(experts.shared->up.module, "model.layers.3.mlp.shared_experts.up_proj");
  EXPECT_EQ(experts.shared->intermediate(), 32u) << "two of 16, side by side";
  EXPECT_TRUE(experts.shared->down.shared_expert && !experts.shared_gate);
  EXPECT_EQ(attention_of(a).rotary->dims, 4u) << "half of each head";
  EXPECT_FALSE(attention_of(a).rotary->interleaved || attention_of(a).q_norm || attention_of(a).q.biased);
  EXPECT_EQ(parse(with(glm, "partial_rotary_factor", 1.0)).blocks[0].attention.rotary->dims, 8u);

  glm["use_qk_norm"] = true, glm["attention_bias"] = true, glm["first_k_dense_replace"] = 3;
  glm["norm_topk_prob"] = false, glm["routed_scaling_factor"] = 2.5, glm["n_group"] = 4, glm["topk_group"] = 2;
  const Architecture b = parse(glm);
  EXPECT_EQ(attention_of(b).k_norm->width, 8u);
  EXPECT_TRUE(attention_of(b).q.biased && attention_of(b).v.biased && !attention_of(b).o.biased);
  EXPECT_TRUE(b.blocks[2].mlp && b.blocks[3].experts);
  EXPECT_FALSE(b.blocks[3].experts->renormalise);
  EXPECT_TRUE(near(b.blocks[3].experts->scale, 2.5, {}));
  EXPECT_EQ(b.blocks[3].experts->groups, 4u);
  EXPECT_EQ(b.blocks[3].experts->active_groups, 2u);
  const Architecture c = parse(with(glm, "topk_group", 4));
  EXPECT_EQ(c.blocks[3].experts->groups, 1u) << "all of them are chosen";
  EXPECT_EQ(c.blocks[3].experts->active_groups, 1u);
  EXPECT_FALSE(parse(with(glm, "first_k_dense_replace", 4)).has_experts());
}

TEST(Glm4Moe, HasDefaultsOfTheSmallerModel) {
  Json glm = small("glm4_moe");
  glm["num_attention_heads"] = 8;
  glm.erase("num_key_value_heads");
  const Architecture a = parse(glm);
  EXPECT_EQ(attention_of(a).kv_heads, 8u);
  EXPECT_EQ(a.blocks[1].experts->experts.size(), 128u);
  EXPECT_EQ(a.blocks[1].experts->active, 8u);
  EXPECT_EQ(a.blocks[1].experts->shared->intermediate(), 1408u);
  EXPECT_TRUE(near(a.final_norm->epsilon, 1e-5, {}));
}

TEST(Glm4Moe, LeavesLayersThatGuessFurtherAheadAside) {
  const Json glm = sigmoid_mixtures("glm4_moe");
  const auto ignored = [](const Json& json, const char* name) { return parse(json).is_ignored(name); };
  for (const char* name : {"model.layers.4.eh_proj.weight", "layers.4.mlp.experts.0.up_proj.weight"}) {
    EXPECT_TRUE(ignored(glm, name)) << "one by default";
    EXPECT_TRUE(ignored(with(glm, "num_nextn_predict_layers", 1), name));
    EXPECT_TRUE(ignored(with(glm, "num_mtp_layers", 1), name));
    EXPECT_FALSE(ignored(with(glm, "num_nextn_predict_layers", 0), name));
  }
  for (const char* name : {"model.layers.3.mlp.gate.weight", "model.layers.5.enorm.weight", "model.layers.40.x"})
    EXPECT_FALSE(ignored(glm, name)) << name;
  EXPECT_TRUE(ignored(with(glm, "num_nextn_predict_layers", 2), "model.layers.5.enorm.weight"));
}

TEST(Dots1, HasWindowsBehindSomeBlockAndNormsOfQAndK) {
  const Json dots = sigmoid_mixtures("dots1");
  const Architecture a = parse(dots);
  EXPECT_TRUE(a.blocks[0].experts.has_value()) << "no dense block unless it is said";
  EXPECT_FALSE(a.blocks[0].experts->renormalise);
  EXPECT_EQ(attention_of(a).q_norm->module, "model.layers.0.self_attn.q_norm");
  EXPECT_EQ(attention_of(a).rotary->dims, 8u);
  EXPECT_EQ(windows_of(a), (Windows{0, 0, 0, 0})) << "62 blocks have none";
  EXPECT_EQ(windows_of(parse(with(dots, "max_window_layers", 2))), (Windows{0, 0, 4096, 4096}));
  EXPECT_EQ(windows_of(parse(with(with(dots, "max_window_layers", 0), "sliding_window", nullptr))),
            (Windows{0, 0, 0, 0}));
  const Json types = {"full_attention", "sliding_attention", "full_attention", "full_attention"};
  EXPECT_EQ(windows_of(parse(with(with(dots, "layer_types", types), "sliding_window", 9))), (Windows{0, 9, 0, 0}));
  EXPECT_TRUE(attention_of(parse(with(dots, "attention_bias", true))).o.biased);
  Json groups = with(dots, "n_group", nullptr);
  groups["topk_group"] = nullptr, groups["scoring_func"] = "noaux_tc", groups["moe_layer_freq"] = 1;
  EXPECT_EQ(parse(groups).blocks[0].experts->groups, 1u);
}

TEST(Gemma, MeansTheTanhWhenItsFirstFilesSayGelu) {
  EXPECT_EQ(parse(with(small("gemma"), "hidden_act", "gelu")).blocks[0].mlp->activation, Activation::kGeluTanh);
  EXPECT_EQ(parse(with(small("gemma"), "hidden_activation", "gelu")).blocks[0].mlp->activation, Activation::kGelu);
  EXPECT_EQ(attention_of(parse(small("gemma"))).head_dim, 256u);
}

TEST(Keys, ThatAreNullEmptyOrHarmlessPass) {
  Json json = llama();
  json["something_new"] = nullptr;
  json["pruned_heads"] = Json::object();
  json["torch_dtype"] = "bfloat16";
  json["custom_pipelines"] = {{"text-generation", {{"impl", "x.Y"}}}};
  json["internal_version"] = 7, json["use_sliding_window"] = false;
  EXPECT_EQ(parse(json).blocks.size(), 32u);
  EXPECT_THROW(parse(with(json, "use_sliding_window", true)), FormatError);
  EXPECT_EQ(parse(with(small("phi"), "rotary_dim", 4)).blocks.size(), 4u);
  EXPECT_THROW(parse(with(small("phi"), "rotary_dim", 8)), FormatError) << "not what partial_rotary_factor says";
  // As transformers 4.53 to 4.57 save it.
  EXPECT_EQ(parse(with(small("granitemoe"), "position_embedding_type", "rope")).blocks.size(), 4u);
}

TEST(Tensors, ThatFilesCarryAlongAreIgnored) {
  const Architecture a = parse(gpt2());
  for (const char* name : {"lm_head.weight", "h.0.attn.bias", "transformer.h.3.attn.masked_bias"})
    EXPECT_TRUE(a.is_ignored(name)) << name;
  for (const char* name : {"wte.weight", "h.0.attn.c_attn.bias", "other_head.weight"})
    EXPECT_FALSE(a.is_ignored(name)) << name;
  EXPECT_FALSE(parse(llama()).is_ignored("lm_head.weight")) << "an untied head is a weight";
}

TEST(Prefixes, AreTakenAndLeftOut) {
  EXPECT_EQ(parse(gpt2()).candidates("wte.weight"), (std::vector<std::string>{"wte.weight", "transformer.wte.weight"}));
  Json bloom = {{"model_type", "bloom"}, {"vocab_size", 9}, {"hidden_size", 8}, {"n_layer", 1}, {"n_head", 2}};
  EXPECT_EQ(parse(bloom).candidates("transformer.ln_f.bias"),
            (std::vector<std::string>{"transformer.ln_f.bias", "ln_f.bias"}));
}

struct Refusal {
  const char* name;
  Json json;
  const char* first;
  const char* second;
};

class FamilyRefuses : public testing::TestWithParam<std::size_t> {
 public:
  static std::vector<Refusal> cases() {
    Json odd_scaling = {{"type", "quadratic"}, {"factor", 2.0}};
    const Json opt = {{"model_type", "opt"}, {"vocab_size", 9},        {"hidden_size", 8},
                      {"ffn_dim", 8},        {"num_hidden_layers", 1}, {"num_attention_heads", 2}};
    const Json bloom = {{"model_type", "bloom"}, {"vocab_size", 9}, {"hidden_size", 8}, {"n_layer", 1}, {"n_head", 2}};
    const Json windowless = with(with(small("ministral"), "sliding_window", nullptr), "layer_types",
                                 {"full_attention", "sliding_attention", "full_attention", "full_attention"});
    Json crossed = with(llama3_scaling(), "low_freq_factor", 4.0);
    Json without_factor = llama3_scaling();
    without_factor.erase("factor");
    Json without_width = llama();
    without_width.erase("hidden_size");
    Json without_types = dense_hybrid(), by_default = dense_hybrid();
    without_types.erase("layer_types"), by_default.erase("num_local_experts");
    const auto without = [](const char* key) {
      Json json = sigmoid_mixtures("dots1");
      json.erase(key);
      return json;
    };
    return {
        {"UnknownModelTypes", with(gpt2(), "model_type", "gpt3"), "'gpt3'", "did you mean 'gpt2'"},
        {"MissingModelTypes", Json{{"vocab_size", 3}}, "model_type", "got ''"},
        {"PicturesBesideText", with(llama(), "model_type", "gemma3"), "'gemma3'", "did you mean 'gemma"},
        {"PicturesWithoutTextConfig", with(with(llama(), "model_type", "blip"), "vision_config", {{"depth", 2}}),
         "'blip'", "sees as well, of a kind that is not read"},
        {"PicturesReadBothWays", Json{{"model_type", "paligemma"}, {"text_config", {{"model_type", "gemma"}}}},
         "'paligemma'", "sees as well, of a kind that is not read"},
        {"PositionsInThreeParts",
         with(small("qwen2"), "rope_scaling", {{"type", "mrope"}, {"mrope_section", {2, 1, 1}}}), "'type'", "'mrope'"},
        {"SectionsOfPositions",
         with(small("qwen3"), "rope_scaling", {{"rope_type", "default"}, {"mrope_section", {2, 1, 1}}}),
         "'mrope_section'", "is not known"},
        {"PicturesOfAnotherKind", with(with(llama(), "model_type", "blip"), "text_config", llama()), "'blip'",
         "sees as well, of a kind that is not read"},
        {"SomethingElseThanAnObject", Json::array({1, 2}), "expected a JSON object", "array"},
        {"UnknownActivationsOfGpt2", with(gpt2(), "activation_function", "sine"), "gelu_new", "'sine'"},
        {"UnknownActivationsOfLlama", with(llama(), "hidden_act", "mish"), "expected silu", "'mish'"},
        {"UnknownRopeScaling", with(llama(), "rope_scaling", odd_scaling), "'type'", "got 'quadratic'"},
        {"UnknownKeysOfRopeScaling", with(llama(), "rope_scaling", with(llama3_scaling(), "twist", 1)), "'twist'",
         "not known"},
        {"CodesOfMlx", with(llama(), "quantization", {{"group_size", 64}, {"bits", 4}, {"mode", "affine"}}),
         "the codes of MLX, which are not read", "quantize the float checkpoint"},
        {"PartialRotationOfFamiliesWithoutIt", with(llama(), "partial_rotary_factor", 0.5), "partial_rotary_factor",
         "got 0.5"},
        {"QwenMixturesWithoutQkNorms", with(small("qwen3_moe"), "use_qk_norm", false), "use_qk_norm", "only true"},
        {"QwenMixturesWithSharedExperts", with(small("qwen3_moe"), "shared_expert_intermediate_size", 8),
         "shared_expert_intermediate_size", "got 8"},
        {"PhiHeadsWithBiases", with(small("phi3"), "lm_head_bias", true), "lm_head_bias", "only false"},
        {"PhiBlocksOfOtherAttention", with(small("phi3"), "full_attn_mod", 2), "full_attn_mod", "got 2"},
        {"GraniteMixturesWithoutPositions", with(small("granitemoe"), "position_embedding_type", "none"),
         "position_embedding_type", "'none'"},
        {"CommandRsOfPartialRotation", with(small("cohere2"), "rotary_pct", 0.5), "'rotary_pct'", "got 0.5"},
        {"CommandRsOfOtherPositions", with(small("cohere2"), "position_embedding_type", "alibi"),
         "position_embedding_type", "'alibi'"},
        {"CommandRsOfSequentialBlocks", with(small("cohere2"), "use_parallel_block", false), "use_parallel_block",
         "only true"},
        {"CommandRsWithoutGates", with(small("cohere2"), "use_gated_activation", false), "use_gated_activation",
         "only true"},
        {"CommandRsOfTwoMindsOfTheirHead", with(small("cohere2"), "use_embedding_sharing", false),
         "use_embedding_sharing", "only true"},
        {"CommandRsOfOtherOrder", with(small("cohere2"), "order_of_interleaved_layers", "global_attn_first"),
         "order_of_interleaved_layers", "'global_attn_first'"},
        {"CommandRsOfTwoPatterns", with(small("cohere2"), "layer_switch", 2), "'layer_switch'", "4"},
        {"CommandRsWithoutWindow", with(small("cohere2"), "sliding_window", nullptr), "'sliding_window' is missing",
         "layer 0"},
        {"HybridsThatSayNothingOfTheirLayers", without_types, "'layer_types' is missing", "attention"},
        {"StateSpaceLayers", with(dense_hybrid(), "layer_types", {"attention", "mamba", "attention", "attention"}),
         "'layer_types'", "got 'mamba'"},
        {"LinearAttention",
         with(dense_hybrid(), "layer_types", {"full_attention", "full_attention", "linear_attention", "attention"}),
         "'layer_types'", "got 'linear_attention'"},
        {"ExpertsBesideASharedMlp", with(dense_hybrid(), "num_local_experts", 8), "'num_local_experts'", "got 8"},
        {"ExpertsByDefault", by_default, "'num_local_experts'", "got 8"},
        {"HybridsOfOtherPositions", with(dense_hybrid(), "position_embedding_type", "alibi"), "position_embedding_type",
         "'alibi'"},
        {"HybridsOfOtherNorms", with(dense_hybrid(), "normalization_function", "layernorm"), "normalization_function",
         "'layernorm'"},
        {"UnknownKeys", with(llama(), "brand_new_gate", 1), "'brand_new_gate'", "may change what the network computes"},
        {"NormsBehind", with(opt, "do_layer_norm_before", false), "do_layer_norm_before", "only true"},
        {"ProjectedEmbeddings", with(opt, "word_embed_proj_dim", 16), "word_embed_proj_dim", "got 16"},
        {"ResidualsBehindNorms", with(bloom, "apply_residual_connection_post_layernorm", true),
         "apply_residual_connection_post_layernorm", "only false"},
        {"ClampsBehindNorms", with(small("olmoe"), "clip_qkv", 8.0), "clip_qkv", "only null"},
        {"TextsReadBothWays", with(small("gemma"), "use_bidirectional_attention", true), "use_bidirectional_attention",
         "only false"},
        {"WindowedBlocksWithoutWindow", windowless, "'sliding_window' is missing", "layer 1"},
        {"UnknownTypesOfLayers", with(small("gemma2"), "layer_types", {"full_attention", "chunked", "x", "y"}),
         "layer_types", "got 'chunked'"},
        {"ListsOfLayersOfAnotherLength", with(small("gemma2"), "layer_types", {"full_attention"}), "layer_types", "4"},
        {"ExpertsBeyondReason", with(with(small("mixtral"), "num_local_experts", 4096), "num_hidden_layers", 4096),
         "131072 experts", "4096 in 4096 layers"},
        {"MoreActiveExpertsThanThereAre", with(small("mixtral"), "num_experts_per_tok", 9), "num_experts_per_tok",
         "got 9"},
        {"ExpertsThatNothingIsSaidOf", small("dots1"), "'n_routed_experts'", "missing"},
        {"ActiveExpertsThatNothingIsSaidOf", without("num_experts_per_tok"), "'num_experts_per_tok'", "missing"},
        {"SharedExpertsThatNothingIsSaidOf", without("n_shared_experts"), "'n_shared_experts'", "missing"},
        {"NoSharedExperts", with(sigmoid_mixtures("glm4_moe"), "n_shared_experts", 0), "'n_shared_experts'", "got 0"},
        {"SharedExpertsBeyondReason",
         with(with(sigmoid_mixtures("glm4_moe"), "n_shared_experts", 4096), "moe_intermediate_size", 1048576),
         "'n_shared_experts'", "4096 experts of width 1048576"},
        {"GroupsThatDoNotDivideTheExperts", with(sigmoid_mixtures("glm4_moe"), "n_group", 3), "'n_group'",
         "got 3 for 8 experts"},
        {"GroupsOfOneExpert", with(sigmoid_mixtures("glm4_moe"), "n_group", 8), "'n_group'", "two experts or more"},
        {"MoreGroupsThanExperts", with(sigmoid_mixtures("glm4_moe"), "n_group", 9), "'n_group'", "got 9"},
        {"MoreChosenGroupsThanThereAre", with(sigmoid_mixtures("glm4_moe"), "topk_group", 2), "'topk_group'", "got 2"},
        {"GroupsWithTooFewExperts", with(sigmoid_mixtures("glm4_moe"), "n_group", 4), "'topk_group'",
         "1 of 4 groups have 2 experts, of which 'num_experts_per_tok' chooses 3"},
        {"MoreActiveSigmoidsThanThereAre", with(sigmoid_mixtures("glm4_moe"), "num_experts_per_tok", 9),
         "'num_experts_per_tok'", "got 9"},
        {"ExpertsOfNoWeight", with(sigmoid_mixtures("glm4_moe"), "routed_scaling_factor", 0.0),
         "'routed_scaling_factor'", "got 0"},
        {"ScoresOfAnotherKind", with(sigmoid_mixtures("dots1"), "scoring_func", "softmax"), "'scoring_func'",
         "'softmax'"},
        {"ChoicesOfAnotherKind", with(sigmoid_mixtures("glm4_moe"), "topk_method", "greedy"), "'topk_method'",
         "'greedy'"},
        {"MixturesInSomeBlocks", with(sigmoid_mixtures("dots1"), "moe_layer_freq", 2), "'moe_layer_freq'", "got 2"},
        {"MoreActiveExpertsOfErnieThanThereAre", with(small("ernie4_5_moe"), "moe_k", 65), "'moe_k'", "got 65"},
        {"SharedExpertsOfErnieBeyondReason",
         with(with(small("ernie4_5_moe"), "moe_num_shared_experts", 4096), "moe_intermediate_size", 1048576),
         "'moe_num_shared_experts'", "4096 experts of width 1048576"},
        {"ScoresOfErnieOfAnotherKind", with(small("ernie4_5_moe"), "moe_gate_act", "sigmoid"), "'moe_gate_act'",
         "'sigmoid'"},
        {"ChoicesOfErnieOfAnotherKind", with(small("ernie4_5_moe"), "moe_gate", "top2"), "'moe_gate'", "'top2'"},
        {"SumsThatAreCutOff", with(small("ernie4_5_moe"), "moe_norm_min", 0.5), "'moe_norm_min'", "got 0.5"},
        {"QueriesThatNothingIsSaidOf", small("ministral3"), "'rope_parameters' is missing", "an object"},
        {"QueriesThatDoNotSayHowTheyGrow", with(small("ministral3"), "rope_parameters", {{"rope_theta", 1e4}}),
         "'llama_4_scaling_beta' is missing", "rope_parameters"},
        {"TypesOfLayersBesideNoWindow",
         with(growing(), "layer_types", Json(std::vector<std::string>(4, "sliding_attention"))), "'layer_types'",
         "'full_attention' alone without 'sliding_window'"},
        {"MoreActiveExpertsOfErnieByDefault", with(small("ernie4_5_moe"), "moe_num_experts", 4),
         "'num_experts_per_tok'", "its default is 6"},
        {"QueriesOfOtherFamiliesThatGrow",
         with(small("mistral"), "rope_parameters", {{"rope_theta", 1e4}, {"llama_4_scaling_beta", 0.1}}),
         "'llama_4_scaling_beta' is not known", "rope_parameters"},
        {"PredictionLayersBeyondReason", with(sigmoid_mixtures("glm4_moe"), "num_nextn_predict_layers", 65),
         "'num_nextn_predict_layers'", "got 65"},
        {"WindowsOfDotsWithoutWidth",
         with(with(sigmoid_mixtures("dots1"), "sliding_window", nullptr), "layer_types",
              {"full_attention", "sliding_attention", "full_attention", "full_attention"}),
         "'sliding_window' is missing", "layer 1"},
        {"RopeScalingOfAnotherType", with(llama(), "rope_scaling", "llama3"), "'rope_scaling'", "got string"},
        {"CrossedFrequencyFactors", with(llama(), "rope_scaling", crossed), "low_freq_factor < high_freq_factor", "4"},
        {"MissingScalingFactors", with(llama(), "rope_scaling", without_factor), "'factor' is missing", "rope_scaling"},
        {"TwoRopes",
         with(with(llama(), "rope_parameters", {{"rope_theta", 10000.0}}), "rope_scaling", llama3_scaling()),
         "'rope_scaling' and 'rope_parameters'", "keep one of them"},
        {"TwoRopesOfTypesOfLayers",
         with(with(small("gemma3_text"), "rope_parameters", {{"full_attention", {{"rope_theta", 10000.0}}}}),
              "rope_scaling", {{"rope_type", "linear"}, {"factor", 8.0}}),
         "'rope_scaling' and 'rope_parameters'", "keep one of them"},
        {"DefaultsBeyondWhatThereIs", with(small("olmoe"), "num_experts", 4), "num_experts_per_tok",
         "its default is 8"},
        {"DefaultsBeyondTheHead",
         {{"model_type", "gptj"}, {"vocab_size", 9}, {"n_embd", 16}, {"n_layer", 1}, {"n_head", 2}},
         "'rotary_dim': expected 2 to 8",
         "its default is 64"},
        {"MissingWidths", without_width, "'hidden_size' is missing", "integer from 1 to"},
        {"ZeroLayers", with(llama(), "num_hidden_layers", 0), "num_hidden_layers", "got 0"},
        {"NegativeWidths", with(gpt2(), "n_embd", -768), "n_embd", "got -768"},
        {"FractionalWidths", with(gpt2(), "n_embd", 768.5), "n_embd", "got 768.5"},
        {"WidthsInQuotes", with(gpt2(), "n_embd", "768"), "n_embd", "got \"768\""},
        {"EnormousVocabularies", with(llama(), "vocab_size", 4294967295u), "vocab_size", "4294967295"},
        {"NumbersBeyond64Bits", with(gpt2(), "n_layer", 1e30), "n_layer", "1e+30"},
        {"HeadsThatDoNotDivide", with(gpt2(), "n_head", 7), "n_embd 768", "n_head 7"},
        {"KvHeadsThatDoNotDivide", with(llama(), "num_key_value_heads", 5), "32 attention heads",
         "num_key_value_heads 5"},
        {"OddHeadDimensions", with(llama(), "head_dim", 63), "even head_dim", "63"},
        {"MoreHeadsThanWidth", with(with(llama(), "hidden_size", 16), "num_attention_heads", 32), "width 16",
         "32 heads"},
        {"ZeroEpsilon", with(llama(), "rms_norm_eps", 0.0), "rms_norm_eps", "above 0"},
        {"TextAsEpsilon", with(llama(), "rms_norm_eps", "tiny"), "rms_norm_eps", "tiny"},
        {"EndTokensBeyond32Bits", with(gpt2(), "eos_token_id", 4294967296u), "eos_token_id", "4294967296"},
        {"NegativeEndTokens", with(llama(), "eos_token_id", Json::array({1, -1})), "eos_token_id", "-1"},
        {"BooleansThatAreNot", with(llama(), "attention_bias", 1), "attention_bias", "expected true or false"},
    };
  }
};

TEST_P(FamilyRefuses, ByNameWithTheReason) {
  const Refusal refusal = cases()[GetParam()];
  EXPECT_TRUE(
      throws_with<FormatError>([&] { parse(refusal.json); }, "config.json of 'toy'", refusal.first, refusal.second));
}

INSTANTIATE_TEST_SUITE_P(Values, FamilyRefuses, testing::Range(std::size_t{0}, FamilyRefuses::cases().size()),
                         [](const auto& instance) { return FamilyRefuses::cases()[instance.param].name; });

TEST(Lengths, BeyondRotaryPositionsAreWarnedOf) {
  const auto limited = [](const Json& json, std::size_t limit) {
    const Architecture a = parse(json);
    const auto beyond = model::warning_of_length(a, limit + 1);
    return !model::warning_of_length(a, limit) && beyond &&
           beyond->find("exceed the " + std::to_string(limit) + " positions") != std::string::npos;
  };
  EXPECT_TRUE(limited(llama(), 131072));
  EXPECT_TRUE(limited(with(llama(), "rope_scaling", llama3_scaling()), 131072)) << "the factor is in it already";
  EXPECT_TRUE(limited(with(llama(), "rope_scaling", {{"type", "linear"}, {"factor", 4.0}}), 524288))
      << "some files have the factor in it, some do not";
  EXPECT_TRUE(limited(with(llama(), "rope_scaling", {{"type", "dynamic"}, {"factor", 2.0}}), 262144));
  Json yarn = {{"type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 32768}};
  EXPECT_TRUE(limited(with(llama(), "rope_scaling", yarn), 131072));
  EXPECT_TRUE(limited(with(with(llama(), "rope_scaling", yarn), "max_position_embeddings", 32768), 131072));
}

TEST(Lengths, OfOtherPositionsAreNotWarnedOf) {
  const Json bloom = {{"model_type", "bloom"}, {"vocab_size", 9}, {"hidden_size", 8}, {"n_layer", 1}, {"n_head", 2}};
  for (const Json& json : {gpt2(), bloom}) EXPECT_FALSE(model::warning_of_length(parse(json), 1 << 20)) << json;
  Architecture unknown = parse(llama());
  unknown.max_positions = 0;
  EXPECT_FALSE(model::warning_of_length(unknown, 1 << 20));
}

TEST(ConfigText, MustBeStrictJson) {
  const auto parse_text = [](const char* text) { return model::parse_architecture(text, "config.json"); };
  EXPECT_TRUE(throws_with<FormatError>([&] { parse_text("{\"model_type\": \"gpt2\""); }, "config.json"));
  EXPECT_TRUE(
      throws_with<FormatError>([&] { parse_text(R"({"model_type": "gpt2", "n_embd": 8, "n_embd": 16})"); }, "n_embd"));
}

}  // namespace
}  // namespace nibble::test
