#include <gtest/gtest.h>

#include <cmath>

#include "core/error.h"
#include "tests/model/architecture/small_configs.h"
#include "tests/support/compare.h"
#include "tests/support/throws.h"

// Families that are another with something changed.

namespace nibble::test {
namespace {

using model::Architecture;
using model::BlockSpec;

TEST(InternLm3, HasBiasesEverywhereOrNowhere) {
  const Json intern = small("internlm3");
  const auto biases = [](const Architecture& a) {
    return std::vector<bool>{attention_of(a).q.biased, attention_of(a).o.biased, a.blocks[0].mlp->down.biased};
  };
  EXPECT_EQ(biases(parse(intern)), (std::vector<bool>{false, false, false}));
  EXPECT_EQ(attention_of(parse(intern)).head_dim, 128u);
  EXPECT_EQ(biases(parse(with(with(intern, "qkv_bias", true), "bias", true))), (std::vector<bool>{true, true, true}));
  EXPECT_EQ(biases(parse(with(with(intern, "attention_bias", true), "mlp_bias", true))),
            (std::vector<bool>{true, true, true}));
  for (const char* key : {"qkv_bias", "bias", "attention_bias", "mlp_bias"})
    EXPECT_TRUE(throws_with<FormatError>([&] { parse(with(intern, key, true)); }, "'bias' and 'qkv_bias'", "both"));
}

TEST(IQuestCoder, HasNothingThatLlamaLacks) {
  const Json quest = small("iquestcoder");
  EXPECT_EQ(attention_of(parse(quest)).head_dim, 128u);
  EXPECT_TRUE(attention_of(parse(with(quest, "attention_bias", true))).o.biased);
  EXPECT_EQ(windows_of(parse(with(with(quest, "sliding_window", 9), "clip_qkv", nullptr))), (Windows{0, 0, 0, 0}));
  EXPECT_TRUE(throws_with<FormatError>([&] { parse(with(quest, "clip_qkv", 8.0)); }, "'clip_qkv'"));
  EXPECT_TRUE(
      throws_with<FormatError>([&] { parse(with(quest, "use_sliding_window", true)); }, "'use_sliding_window'"));
}

TEST(Cwm, HasWindowsInThreeBlocksOfFour) {
  const Json cwm = with(small("cwm"), "rope_parameters", {{"rope_type", "default"}});
  const Architecture a = parse(cwm);
  EXPECT_EQ(windows_of(a), (Windows{0, 8192, 8192, 8192}));
  EXPECT_TRUE(near(attention_of(a).rotary->base, 1000000.0, {}));
  EXPECT_FALSE(attention_of(a).q.biased || attention_of(a).o.biased || a.blocks[0].mlp->up.biased);
  EXPECT_TRUE(parse(with(cwm, "mlp_bias", true)).blocks[0].mlp->up.biased);
  EXPECT_THROW(parse(with(cwm, "attention_bias", true)), FormatError) << "which the family does not have";
  const Json types = {"sliding_attention", "full_attention", "full_attention", "full_attention"};
  EXPECT_EQ(windows_of(parse(with(with(cwm, "layer_types", types), "sliding_window", 9))), (Windows{9, 0, 0, 0}));
  EXPECT_TRUE(throws_with<FormatError>([&] { parse(small("cwm")); }, "'rope_parameters' is missing"));
  EXPECT_EQ(parse(with(small("cwm"), "rope_scaling", {{"rope_type", "linear"}, {"factor", 2.0}}))
                .blocks[3]
                .attention.rotary->scaling.kind,
            model::RotaryScaling::Kind::kLinear);
}

TEST(VaultGemma, IsGemma2WithoutNormsBehind) {
  const Architecture a = parse(small("vaultgemma")), gemma = parse(small("gemma2"));
  EXPECT_EQ(a.family, "vaultgemma");
  EXPECT_TRUE(a.head.tied);
  EXPECT_TRUE(near(a.head.softcap, 30.0, {}) && near(attention_of(a).softcap, 50.0, {}));
  EXPECT_EQ(windows_of(a), (Windows{4096, 0, 4096, 0}));
  for (std::size_t i = 0; i < 4; ++i) {
    const BlockSpec& block = a.blocks[i];
    EXPECT_TRUE(gemma.blocks[i].attention_post_norm && gemma.blocks[i].mlp_post_norm);
    EXPECT_FALSE(block.attention_post_norm || block.mlp_post_norm);
    EXPECT_EQ(block.mlp_norm->module, gemma.blocks[i].mlp_norm->module);
    EXPECT_TRUE(near(block.mlp_norm->gain_offset, 1.0, {}));
  }
}

TEST(Hunyuan, NormalisesWhatItHasTurned) {
  const Architecture a = parse(small("hunyuan_v1_dense"));
  EXPECT_TRUE(a.blocks[3].attention.norms_behind_rotary);
  EXPECT_EQ(a.blocks[3].attention.q_norm->module, "model.layers.3.self_attn.query_layernorm");
  EXPECT_EQ(a.blocks[3].attention.k_norm->module, "model.layers.3.self_attn.key_layernorm");
  EXPECT_EQ(attention_of(a).k_norm->width, 8u);
  EXPECT_TRUE(near(attention_of(a).rotary->base, 10000.0, {}));
  EXPECT_TRUE(attention_of(parse(with(small("hunyuan_v1_dense"), "attention_bias", true))).o.biased);
  EXPECT_FALSE(attention_of(parse(small("qwen3"))).norms_behind_rotary);
}

TEST(Hunyuan, StretchesItsBaseByAnAlphaOnce) {
  const Json hunyuan = with(small("hunyuan_v1_dense"), "rope_theta", 5000.0);
  const auto rotary_of = [&](const char* key, const Json& settings) {
    return *attention_of(parse(with(hunyuan, key, settings))).rotary;
  };
  const Json published = {{"alpha", 1000.0}, {"beta_fast", 32},       {"beta_slow", 1},   {"factor", 1.0},
                          {"mscale", 1.0},   {"mscale_all_dim", 1.0}, {"type", "dynamic"}};
  const model::RotarySpec rotary = rotary_of("rope_scaling", published);
  EXPECT_EQ(rotary.scaling.kind, model::RotaryScaling::Kind::kNone);
  EXPECT_TRUE(near(rotary.base, 5000.0 * std::pow(1000.0, 8.0 / 6.0), {.rel = 1e-14}));
  EXPECT_EQ(rotary.dims, 8u);
  EXPECT_TRUE(near(rotary_of("rope_parameters", {{"alpha", 4}, {"rope_type", "dynamic"}, {"rope_theta", 100}}).base,
                   100.0 * std::pow(4.0, 8.0 / 6.0), {.rel = 1e-14}));
  // without one, or of another type, it is the scaling of that name
  EXPECT_EQ(rotary_of("rope_scaling", {{"factor", 2.0}, {"type", "dynamic"}}).scaling.kind,
            model::RotaryScaling::Kind::kDynamic);
  EXPECT_EQ(rotary_of("rope_scaling", {{"factor", 2.0}, {"type", "linear"}}).scaling.kind,
            model::RotaryScaling::Kind::kLinear);
  EXPECT_THROW(rotary_of("rope_scaling", with(published, "type", "linear")), FormatError) << "has no alpha";
  EXPECT_THROW(rotary_of("rope_scaling", with(published, "delta", 1.0)), FormatError);
  EXPECT_THROW(rotary_of("rope_scaling", with(published, "alpha", -1.0)), FormatError);
  EXPECT_TRUE(throws_with<FormatError>(
      [&] { parse(with(with(hunyuan, "rope_scaling", published), "rope_parameters", published)); }, "got both"));
  for (const auto& [key, value] : std::vector<std::pair<const char*, Json>>{
           {"use_cla", true}, {"use_qk_norm", false}, {"use_rotary_pos_emb", false}, {"norm_type", "layer"}})
    EXPECT_THROW(parse(with(hunyuan, key, value)), FormatError) << key;
}

TEST(HyperClovaX, MultipliesLogitsAndHasNormsBehind) {
  const Json clova = with(small("hyperclovax"), "logits_scaling", 0.125);
  const Architecture a = parse(clova);
  EXPECT_TRUE(near(a.head.scale, 0.125, {}));
  EXPECT_TRUE(near(parse(small("hyperclovax")).head.scale, 1.0, {}));
  EXPECT_TRUE(near(attention_of(a).scale, 1.0 / std::sqrt(8.0), {.rel = 1e-15})) << "by the width of heads";
  EXPECT_TRUE(near(attention_of(parse(with(clova, "attention_multiplier", nullptr))).scale, 1.0 / std::sqrt(8.0),
                   {.rel = 1e-15}));
  EXPECT_TRUE(near(attention_of(parse(with(clova, "attention_multiplier", 0.5))).scale, 0.5, {}));
  EXPECT_TRUE(near(parse(with(clova, "residual_multiplier", 0.25)).blocks[3].residual_multiplier, 0.25, {}));
  EXPECT_TRUE(near(parse(with(clova, "embedding_multiplier", 10)).embedding_scale, 10.0, {}));
  EXPECT_EQ(a.blocks[3].attention_norm->module, "model.layers.3.input_layernorm");
  EXPECT_EQ(a.blocks[3].attention_post_norm->module, "model.layers.3.post_norm1");
  EXPECT_EQ(a.blocks[3].mlp_norm->module, "model.layers.3.post_attention_layernorm");
  EXPECT_EQ(a.blocks[3].mlp_post_norm->module, "model.layers.3.post_norm2");
  const Architecture before = parse(with(clova, "use_post_norm", false));
  EXPECT_FALSE(before.blocks[0].attention_post_norm || before.blocks[0].mlp_post_norm);
}

TEST(Helium, TurnsPairsOfHeadsThatFillTheWidth) {
  const Json helium = with(with(small("helium"), "head_dim", 8), "attention_bias", true);
  const Architecture a = parse(helium);
  EXPECT_TRUE(attention_of(a).rotary->interleaved);
  EXPECT_TRUE(near(attention_of(a).rotary->base, 100000.0, {}));
  EXPECT_TRUE(attention_of(a).q.biased && !attention_of(a).o.biased);
  EXPECT_TRUE(near(a.final_norm->epsilon, 1e-8, {}));
  EXPECT_TRUE(throws_with<FormatError>([&] { parse(small("helium")); }, "width of 32, got 4 of 128"));
  EXPECT_TRUE(throws_with<FormatError>([&] { parse(with(helium, "head_dim", 16)); }, "4 of 16"));
}

TEST(NanoChat, HasNormsWithoutParametersAndTurnsBackwards) {
  const Json chat = small("nanochat");
  const Architecture a = parse(chat);
  const model::AttentionSpec& attention = attention_of(a, 3);
  for (const auto* norm : {&a.embedding_norm, &a.final_norm, &a.blocks[3].attention_norm, &a.blocks[3].mlp_norm,
                           &attention.q_norm, &attention.k_norm}) {
    EXPECT_TRUE((*norm)->kind == model::NormSpec::Kind::kRms && !(*norm)->gain && !(*norm)->bias);
    EXPECT_TRUE(near((*norm)->epsilon, 1e-6, {}));
  }
  EXPECT_EQ(attention.q_norm->width, 8u);
  EXPECT_TRUE(attention.norms_behind_rotary && attention.rotary->backwards);
  const auto turns = model::rotary_frequencies(*attention.rotary, 1);
  model::RotarySpec forwards = *attention.rotary;
  forwards.backwards = false;
  EXPECT_TRUE(near(turns[1], -model::rotary_frequencies(forwards, 1)[1], {}));
  EXPECT_EQ(a.blocks[3].mlp->up.module, "model.layers.3.mlp.fc1");
  EXPECT_EQ(a.blocks[3].mlp->down.module, "model.layers.3.mlp.fc2");
  EXPECT_EQ(a.blocks[3].mlp->activation, model::Activation::kRelu2);
  EXPECT_FALSE(a.blocks[3].mlp->gate.has_value());
  EXPECT_TRUE(near(a.head.softcap, 15.0, {}));
  EXPECT_TRUE(near(parse(with(chat, "final_logit_softcapping", nullptr)).head.softcap, 0.0, {}));
  EXPECT_TRUE(attention_of(parse(with(chat, "attention_bias", true))).o.biased);
}

TEST(Mellum, HasMixturesAndWindowsByTheListsOfBlocks) {
  const Json mellum = small("mellum");
  const Architecture a = parse(mellum);
  EXPECT_EQ(windows_of(a), (Windows{0, 0, 0, 0}));
  EXPECT_EQ(a.blocks[0].experts->experts.size(), 64u);
  EXPECT_EQ(a.blocks[0].experts->active, 8u);
  EXPECT_EQ(a.blocks[0].experts->experts[63].up.out, 896u);
  EXPECT_TRUE(a.blocks[0].experts->renormalise);
  EXPECT_FALSE(parse(with(mellum, "norm_topk_prob", false)).blocks[0].experts->renormalise);
  EXPECT_EQ(attention_of(a).q_norm->width, 128u);
  EXPECT_TRUE(near(attention_of(a).rotary->base, 500000.0, {}));

  Json lists = with(mellum, "mlp_layer_types", {"dense", "sparse", "sparse", "dense"});
  lists["layer_types"] = {"full_attention", "sliding_attention", "full_attention", "sliding_attention"};
  lists["rope_parameters"] = {{"full_attention", {{"rope_type", "default"}, {"rope_theta", 7e5}}},
                              {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 3e4}}}};
  const Architecture b = parse(lists);
  EXPECT_EQ(windows_of(b), (Windows{0, 1024, 0, 1024}));
  EXPECT_TRUE(b.blocks[0].mlp && !b.blocks[0].experts && b.blocks[1].experts && !b.blocks[1].mlp && b.blocks[3].mlp);
  EXPECT_EQ(b.blocks[0].mlp->down.module, "model.layers.0.mlp.down_proj");
  EXPECT_TRUE(near(b.blocks[0].attention.rotary->base, 7e5, {}) && near(b.blocks[3].attention.rotary->base, 3e4, {}));
  EXPECT_TRUE(b.is_ignored("mtp.layers.0.mlp.gate.weight"));
  EXPECT_FALSE(b.is_ignored("model.layers.3.mlp.up_proj.weight"));
  EXPECT_TRUE(throws_with<FormatError>(
      [&] {
        parse(with(mellum, "mlp_layer_types", {"dense", "sparse", "sparse", "moe"}));
      },
      "'mlp_layer_types'", "'moe'"));
}

TEST(MiniMaxM2, WeighsMixtralsExpertsBySigmoids) {
  const Json minimax = with(small("minimax_m2"), "head_dim", 8);
  const Architecture a = parse(minimax);
  EXPECT_EQ(attention_of(a).q_norm->width, 32u) << "over all heads";
  EXPECT_EQ(attention_of(a).k_norm->width, 16u);
  EXPECT_EQ(attention_of(a).rotary->dims, 8u);
  const model::ExpertsSpec& experts = *a.blocks[3].experts;
  EXPECT_EQ(experts.experts.size(), 256u);
  EXPECT_EQ(experts.active, 8u);
  EXPECT_EQ(experts.routing, model::ExpertsSpec::Routing::kSigmoidThenTop);
  EXPECT_TRUE(experts.renormalise && near(experts.scale, 1.0, {}) && !experts.shared);
  EXPECT_EQ(experts.correction->tensor, "model.layers.3.block_sparse_moe.e_score_correction_bias");
  EXPECT_EQ(experts.experts[7].down.module, "model.layers.3.block_sparse_moe.experts.7.w2");

  EXPECT_EQ(attention_of(parse(with(minimax, "rotary_dim", 4))).rotary->dims, 4u);
  EXPECT_EQ(attention_of(parse(with(with(minimax, "rotary_dim", 4), "partial_rotary_factor", 0.75))).rotary->dims, 6u);
  EXPECT_NO_THROW(parse(with(minimax, "attn_type_list", {1, 1, 1, 1})));
  const std::pair<const char*, Json> others[] = {{"attn_type_list", {1, 1, 0, 1}},
                                                 {"scoring_func", "softmax"},
                                                 {"qk_norm_type", "per_head"},
                                                 {"use_qk_norm", false},
                                                 {"use_routing_bias", false},
                                                 {"shared_intermediate_size", 16},
                                                 {"rotary_dim", 10}};
  for (const auto& [key, value] : others)
    EXPECT_TRUE(throws_with<FormatError>([&, k = key, v = value] { parse(with(minimax, k, v)); },
                                         std::string("'") + key + "'"));
}

}  // namespace
}  // namespace nibble::test
