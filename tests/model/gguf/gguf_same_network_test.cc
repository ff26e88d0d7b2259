#include "model/gguf/gguf_same_network.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>

#include "core/error.h"
#include "model/architecture/families.h"
#include "tests/support/throws.h"

namespace nibble::model {
namespace {

constexpr std::size_t kContext = 128;

/// A dense block and a mixture with everything that a mixture may have.
Architecture network() {
  return parse_architecture(R"({"model_type": "glm4_moe", "vocab_size": 8, "hidden_size": 16, "intermediate_size": 8,
      "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
      "max_position_embeddings": 128, "use_qk_norm": true, "first_k_dense_replace": 1, "n_routed_experts": 8,
      "num_experts_per_tok": 2, "n_group": 4, "topk_group": 2, "moe_intermediate_size": 4, "n_shared_experts": 1,
      "routed_scaling_factor": 2.5, "norm_topk_prob": true})",
                            "config.json");
}

struct Change {
  std::string what;  ///< as the message has it
  std::function<void(Architecture&)> make;
};

const std::vector<Change>& changes() {
  using Attention = AttentionSpec;
  const auto whole = [](std::string what, auto make) { return Change{what + " is", make}; };
  const auto dense = [](std::string what, auto make) {
    return Change{"block 0: " + what + " is", [make](Architecture& a) { make(a.blocks[0]); }};
  };
  const auto attention = [&](std::string what, auto make) {
    return dense(std::move(what), [make](BlockSpec& block) { make(block.attention); });
  };
  const auto rotary = [&](std::string what, auto make) {
    return attention(std::move(what), [make](Attention& own) { make(*own.rotary); });
  };
  const auto mlp = [&](std::string what, auto make) {
    return dense(std::move(what), [make](BlockSpec& block) { make(*block.mlp); });
  };
  const auto experts = [](std::string what, auto make) {
    return Change{"block 1: " + what + " is", [make](Architecture& a) { make(*a.blocks[1].experts); }};
  };
  static const std::vector<Change> all = {
      whole("number of blocks", [](Architecture& a) { a.blocks.pop_back(); }),
      whole("scale of embeddings", [](Architecture& a) { a.embedding_scale = 2.0; }),
      whole("scale of logits", [](Architecture& a) { a.head.scale = 2.0; }),
      whole("soft cap of logits", [](Architecture& a) { a.head.softcap = 30.0; }),
      whole("number of learned positions", [](Architecture& a) { a.positions = a.embedding; }),
      whole("first learned position", [](Architecture& a) { a.position_offset = 2; }),
      whole("norm of the embedding (whether there is one)", [](Architecture& a) { a.embedding_norm = a.final_norm; }),
      whole("final norm (whether there is one)", [](Architecture& a) { a.final_norm.reset(); }),
      whole("kind of final norm", [](Architecture& a) { a.final_norm->kind = NormSpec::Kind::kLayer; }),
      whole("width of final norm", [](Architecture& a) { a.final_norm->width = 4; }),
      whole("epsilon of final norm", [](Architecture& a) { a.final_norm->epsilon *= 1.0001; }),
      dense("whether attention and MLP are side by side",
            [](BlockSpec& block) { block.residual = BlockSpec::Residual::kParallel; }),
      dense("multiplier of the residual", [](BlockSpec& block) { block.residual_multiplier = 0.5; }),
      dense("multiplier of the residual",
            [](BlockSpec& block) { block.residual_multiplier = std::numeric_limits<double>::quiet_NaN(); }),
      dense("norm before attention (whether there is one)", [](BlockSpec& block) { block.attention_norm.reset(); }),
      dense("norm behind attention (whether there is one)",
            [](BlockSpec& block) { block.attention_post_norm = block.mlp_norm; }),
      dense("norm before the MLP (whether there is one)", [](BlockSpec& block) { block.mlp_norm.reset(); }),
      dense("norm behind the MLP (whether there is one)",
            [](BlockSpec& block) { block.mlp_post_norm = block.mlp_norm; }),
      dense("mixture of experts (whether there is one)", [](BlockSpec& block) { block.experts.emplace(); }),
      attention("number of heads", [](Attention& own) { own.heads = 2; }),
      attention("number of key-value heads", [](Attention& own) { own.kv_heads = 1; }),
      attention("size of heads", [](Attention& own) { own.head_dim = 4; }),
      attention("scale of scores", [](Attention& own) { own.scale *= 2.0; }),
      attention("window", [](Attention& own) { own.window = kContext - 1; }),
      attention("soft cap of scores", [](Attention& own) { own.softcap = 50.0; }),
      attention("clip of q, k and v", [](Attention& own) { own.clip = 8.0; }),
      attention("growth of queries",
                [](Attention& own) {
                  own.growth = {0.1, 16};
                }),
      attention("number of ALiBi slopes",
                [](Attention& own) {
                  own.alibi = {1, 1, 1, 1};
                }),
      attention("sinks (whether there are any)", [](Attention& own) { own.sinks.emplace(); }),
      attention("norm of q (whether there is one)", [](Attention& own) { own.q_norm.reset(); }),
      attention("norm of k (whether there is one)", [](Attention& own) { own.k_norm.reset(); }),
      attention("whether norms of q and k stand behind the rotary embedding",
                [](Attention& own) { own.norms_behind_rotary = !own.norms_behind_rotary; }),
      attention("rotary embedding (whether there is one)", [](Attention& own) { own.rotary.reset(); }),
      rotary("number of elements that turn", [](RotarySpec& own) { own.dims = 8; }),
      rotary("whether neighbours turn together", [](RotarySpec& own) { own.interleaved = !own.interleaved; }),
      rotary("magnitude of rotary embeddings", [](RotarySpec& own) { own.scaling.magnitude = 1.1; }),
      rotary("rotary frequency 1 over 1 positions", [](RotarySpec& own) { own.base *= 1.001; }),
      mlp("activation", [](MlpSpec& own) { own.activation = Activation::kGelu; }),
      mlp("gate (whether there is one)", [](MlpSpec& own) { own.gate.reset(); }),
      mlp("limit of the activation", [](MlpSpec& own) { own.limit = 7.0; }),
      mlp("alpha of the activation", [](MlpSpec& own) { own.alpha = 1.702; }),
      experts("number of experts", [](ExpertsSpec& own) { own.experts.pop_back(); }),
      experts("number of active experts", [](ExpertsSpec& own) { own.active = 3; }),
      experts("whether experts' weights sum to 1", [](ExpertsSpec& own) { own.renormalise = false; }),
      experts("whether experts' weights are sigmoids",
              [](ExpertsSpec& own) { own.routing = ExpertsSpec::Routing::kSoftmaxThenTop; }),
      experts("correction of experts (whether there is one)", [](ExpertsSpec& own) { own.correction.reset(); }),
      experts("number of groups of experts", [](ExpertsSpec& own) { own.groups = 2; }),
      experts("number of chosen groups of experts", [](ExpertsSpec& own) { own.active_groups = 1; }),
      experts("scale of experts' weights", [](ExpertsSpec& own) { own.scale = 1.0; }),
      experts("activation", [](ExpertsSpec& own) { own.experts.front().activation = Activation::kGelu; }),
      experts("shared expert (whether there is one)", [](ExpertsSpec& own) { own.shared.reset(); }),
      experts("activation", [](ExpertsSpec& own) { own.shared->activation = Activation::kGelu; }),
      experts("gate of the shared expert (whether there is one)",
              [](ExpertsSpec& own) { own.shared_gate = own.router; }),
  };
  return all;
}

TEST(GgufSameNetwork, EverySettingThatDiffersIsNamed) {
  const Architecture own = network();
  require_same_network(own, own, kContext);
  for (const Change& change : changes()) {
    SCOPED_TRACE(change.what);
    Architecture read = own;
    change.make(read);
    EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { require_same_network(own, read, kContext); }, "'glm4_moe'",
                                                   change.what, "here", "there"));
  }
}

TEST(GgufSameNetwork, SlopesOfAlibiAreCompared) {
  Architecture own = network(), read = own;
  own.blocks[0].attention.alibi = {1, 2, 3, 4}, read.blocks[0].attention.alibi = {1, 2, 3, 5};
  EXPECT_TRUE(
      test::throws_with<InvalidArgument>([&] { require_same_network(own, read, kContext); }, "slope of ALiBi is 4"));
}

TEST(GgufSameNetwork, WhereQueriesGrowFromIsCompared) {
  Architecture own = network(), read = own;
  own.blocks[1].attention.growth = {0.1, 16}, read.blocks[1].attention.growth = {0.1, 32};
  EXPECT_TRUE(test::throws_with<InvalidArgument>([&] { require_same_network(own, read, kContext); },
                                                 "block 1: position from which queries grow is 16 here and 32 there"));
}

// A float of a file stands for a decimal of config.json; a window that nothing can lie outside of is none; weights that
// sum to 1 are the same in whichever order softmax and choice come.
TEST(GgufSameNetwork, WhatComputesTheSameIsTheSame) {
  Architecture own = network(), read = own;
  read.blocks[1].experts->scale = static_cast<double>(2.5f * (1 + std::numeric_limits<float>::epsilon()));
  read.blocks[0].attention.window = kContext;
  read.blocks[0].attention.growth = {0.1, kContext};
  for (Architecture* const each : {&own, &read})
    each->blocks[1].experts->routing = ExpertsSpec::Routing::kSoftmaxThenTop;
  read.blocks[1].experts->routing = ExpertsSpec::Routing::kTopThenSoftmax;
  read.blocks[1].experts->renormalise = false;
  require_same_network(own, read, kContext);
}

}  // namespace
}  // namespace nibble::model
