#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "core/error.h"
#include "core/random.h"
#include "model/architecture/parts.h"
#include "tests/model/transformer/toy_weights.h"

// Networks that have what the families' own files would not put together.
namespace nibble::test {
namespace {

using model::Architecture;
using model::AttentionSpec;
using model::BlockSpec;
using model::NormSpec;
using model::Role;

std::string prefix(std::size_t block) { return "model.layers." + std::to_string(block) + "."; }

NormSpec toy_norm(NormSpec::Kind kind, Role role, std::size_t block, std::size_t width) {
  return model::norm(kind, role, block, prefix(block) + std::string(model::role_name(role)), width, 1e-3,
                     kind == NormSpec::Kind::kLayer);
}

void reshape(Architecture& a, std::size_t block, std::size_t heads, std::size_t kv_heads, std::size_t head_dim) {
  AttentionSpec& s = a.blocks[block].attention;
  s.heads = heads, s.kv_heads = kv_heads, s.head_dim = head_dim;
  s.scale = 1.0 / std::sqrt(static_cast<double>(head_dim));
  const std::string module = prefix(block) + "self_attn.";
  s.q = model::linear(Role::kQ, block, module + "q_proj", s.q_width(), a.hidden, true);
  s.k = model::linear(Role::kK, block, module + "k_proj", s.kv_width(), a.hidden, false);
  s.v = model::linear(Role::kV, block, module + "v_proj", s.kv_width(), a.hidden, true);
  s.o = model::linear(Role::kO, block, module + "o_proj", a.hidden, s.q_width(), false);
  if (s.rotary) s.rotary->dims = std::min(s.rotary->dims, head_dim / 2 * 2);
}

// q and k norms over each head with one gain, over each head with a gain of its own, over the whole width.
enum class QkNorm { kPerHead, kGainPerHead, kWhole };
void add_qk_norm(AttentionSpec& s, std::size_t block, NormSpec::Kind kind, QkNorm how) {
  const auto norm = [&](Role role, std::size_t heads) {
    NormSpec spec = toy_norm(kind, role, block, how == QkNorm::kWhole ? heads * s.head_dim : s.head_dim);
    if (how == QkNorm::kGainPerHead) {
      spec.gain = model::whole_vector(spec.module + ".weight", heads * s.head_dim);
      spec.bias.reset();
    }
    return spec;
  };
  s.q_norm = norm(Role::kQNorm, s.heads);
  s.k_norm = norm(Role::kKNorm, s.kv_heads);
}

using Change = std::function<void(Architecture&, Random&)>;
using BlockChange = std::function<void(BlockSpec&, std::size_t index, std::size_t hidden)>;

Change each_block(BlockChange change) {
  return [change = std::move(change)](Architecture& a, Random&) {
    for (std::size_t i = 0; i < a.blocks.size(); ++i) change(a.blocks[i], i, a.hidden);
  };
}

void use_scaling(Architecture& a, const model::RotaryScaling& scaling) {
  for (BlockSpec& block : a.blocks)
    if (block.attention.rotary) block.attention.rotary->scaling = scaling;
}

// In this order: what depends on the shape of blocks comes behind what changes it.
const std::vector<std::pair<std::string, Change>>& changes() {
  static const std::vector<std::pair<std::string, Change>> list = {
      {"blocks of several shapes",
       [](Architecture& a, Random&) {
         reshape(a, 0, 3, 1, 7);
         reshape(a, 1, 4, 4, 12);
       }},
      {"partial rotary",
       each_block([](BlockSpec& b, std::size_t, std::size_t) { b.attention.rotary->dims = 4; })},
      {"interleaved rotary",
       each_block([](BlockSpec& b, std::size_t, std::size_t) { b.attention.rotary->interleaved = true; })},
      {"linear rotary",
       [](Architecture& a, Random&) {
         model::RotaryScaling scaling;
         scaling.kind = model::RotaryScaling::Kind::kLinear, scaling.factor = 3.0;
         use_scaling(a, scaling);
       }},
      {"yarn rotary",
       [](Architecture& a, Random&) {
         model::RotaryScaling scaling;
         scaling.kind = model::RotaryScaling::Kind::kYarn, scaling.factor = 4.0, scaling.original_context = 64;
         scaling.beta_fast = 8.0, scaling.magnitude = 1.3;
         use_scaling(a, scaling);
       }},
      {"longrope rotary",
       [](Architecture& a, Random&) {
         model::RotaryScaling scaling;
         scaling.kind = model::RotaryScaling::Kind::kLongRope, scaling.original_context = 100, scaling.magnitude = 1.2;
         for (std::size_t i = 0; i < 32; ++i) {
           scaling.short_factors.push_back(1.0 + 0.1 * static_cast<double>(i));
           scaling.long_factors.push_back(2.0 + static_cast<double>(i));
         }
         use_scaling(a, scaling);
       }},
      {"dynamic rotary",
       [](Architecture& a, Random&) {
         model::RotaryScaling scaling;
         scaling.kind = model::RotaryScaling::Kind::kDynamic, scaling.factor = 2.0, scaling.original_context = 100;
         use_scaling(a, scaling);
       }},
      {"several rotaries",
       [](Architecture& a, Random&) {
         a.blocks[0].attention.rotary->base = 100.0;
         a.blocks[0].attention.rotary->scaling = {};
       }},
      {"rotary in one block", [](Architecture& a, Random&) { a.blocks[1].attention.rotary.reset(); }},
      {"window", each_block([](BlockSpec& b, std::size_t i, std::size_t) { b.attention.window = i == 0 ? 5 : 37; })},
      {"window of one and sinks", each_block([](BlockSpec& b, std::size_t i, std::size_t) {
         b.attention.window = i == 0 ? 1 : 0;  // without sinks, its queries and keys would not matter
         b.attention.sinks = model::whole_vector(prefix(i) + "sinks", b.attention.heads);
       })},
      {"wide window", each_block([](BlockSpec& b, std::size_t i, std::size_t) { b.attention.window = i == 0 ? 128 : 131; })},
      {"softcap", each_block([](BlockSpec& b, std::size_t, std::size_t) { b.attention.softcap = 1.5; })},
      {"alibi", each_block([](BlockSpec& b, std::size_t, std::size_t) {
         b.attention.rotary.reset();
         for (std::size_t h = 0; h < b.attention.heads; ++h) b.attention.alibi.push_back(0.3 / static_cast<double>(h + 1));
       })},
      {"sinks", each_block([](BlockSpec& b, std::size_t i, std::size_t) {
         b.attention.sinks = model::whole_vector(prefix(i) + "sinks", b.attention.heads);
       })},
      {"clip", each_block([](BlockSpec& b, std::size_t, std::size_t) { b.attention.clip = 0.7; })},
      {"query growth", each_block([](BlockSpec& b, std::size_t i, std::size_t) { b.attention.growth = {0.4, i == 0 ? 7u : 1000u}; })},
      {"scale of one", each_block([](BlockSpec& b, std::size_t, std::size_t) { b.attention.scale = 1.0; })},
      {"norms without parameters", each_block([](BlockSpec& b, std::size_t, std::size_t) {
         for (auto* norm : {&b.attention_norm, &b.mlp_norm}) {
           (*norm)->kind = NormSpec::Kind::kLayer;
           (*norm)->gain.reset();
           (*norm)->bias.reset();
         }
       })},
      {"gain offset", each_block([](BlockSpec& b, std::size_t, std::size_t) {
         for (auto* norm : {&b.attention_norm, &b.mlp_norm}) (*norm)->gain_offset = 1.0;
       })},
      {"norms in front and behind", each_block([](BlockSpec& b, std::size_t i, std::size_t hidden) {
         b.attention_post_norm = toy_norm(NormSpec::Kind::kRms, Role::kAttentionPostNorm, i, hidden);
         b.mlp_post_norm = toy_norm(NormSpec::Kind::kLayer, Role::kMlpPostNorm, i, hidden);
       })},
      {"norms behind alone", each_block([](BlockSpec& b, std::size_t i, std::size_t hidden) {
         b.attention_norm.reset();
         b.mlp_norm.reset();
         b.attention_post_norm = toy_norm(NormSpec::Kind::kLayer, Role::kAttentionPostNorm, i, hidden);
         b.mlp_post_norm = toy_norm(NormSpec::Kind::kRms, Role::kMlpPostNorm, i, hidden);
       })},
      {"norm of each head", each_block([](BlockSpec& b, std::size_t i, std::size_t) {
         add_qk_norm(b.attention, i, NormSpec::Kind::kRms, QkNorm::kPerHead);
       })},
      {"norm of each head with its gain", each_block([](BlockSpec& b, std::size_t i, std::size_t) {
         add_qk_norm(b.attention, i, NormSpec::Kind::kLayer, QkNorm::kGainPerHead);
       })},
      {"norm of all heads", each_block([](BlockSpec& b, std::size_t i, std::size_t) {
         add_qk_norm(b.attention, i, NormSpec::Kind::kRms, QkNorm::kWhole);
       })},
      {"parallel with two norms", each_block([](BlockSpec& b, std::size_t, std::size_t) {
         b.residual = BlockSpec::Residual::kParallel;
       })},
      {"parallel with one norm", each_block([](BlockSpec& b, std::size_t, std::size_t) {
         b.residual = BlockSpec::Residual::kParallel;
         b.mlp_norm.reset();
       })},
      {"residual multiplier", each_block([](BlockSpec& b, std::size_t, std::size_t) { b.residual_multiplier = 0.4; })},
      {"head", [](Architecture& a, Random&) {
         a.head.scale = 0.6;
         a.head.softcap = 1.5;
         a.head.linear.biased = true;
       }},
      {"no final norm", [](Architecture& a, Random&) { a.final_norm.reset(); }},
      {"embedding", [](Architecture& a, Random&) {
         a.embedding_scale = 2.5;
         a.position_offset = 2;
         a.positions = model::linear(Role::kPositions, a.blocks.size(), "positions", a.max_positions + 2, a.hidden);
         a.embedding_norm = toy_norm(NormSpec::Kind::kLayer, Role::kEmbeddingNorm, a.blocks.size(), a.hidden);
       }},
      {"norm of each head behind the rotary", each_block([](BlockSpec& b, std::size_t i, std::size_t) {
         add_qk_norm(b.attention, i, NormSpec::Kind::kRms, QkNorm::kPerHead);
         b.attention.norms_behind_rotary = true;
         b.attention.clip = 0.0;
       })},
      {"backward rotary",
       each_block([](BlockSpec& b, std::size_t, std::size_t) { b.attention.rotary->backwards = true; })},
  };
  return list;
}

// Each change with a probability of 0.3, over odd extents; some take back what others did.
Architecture random_architecture(std::uint64_t seed) {
  Random random(seed);
  const auto up_to = [&](std::size_t most) { return 1 + static_cast<std::size_t>(random.below(most)); };
  Architecture a = toy_llama({.hidden = 2 * up_to(12) + 1, .layers = 2, .intermediate = 2 * up_to(20) + 1});
  for (std::size_t block = 0; block < a.blocks.size(); ++block) {
    const std::size_t kv_heads = up_to(3);
    reshape(a, block, kv_heads * up_to(3), kv_heads, 3 + up_to(12));
  }
  for (const auto& [name, change] : changes()) {
    const bool shape = name == "blocks of several shapes";
    const bool rotary = name.find("rotar") != std::string::npos;
    const bool has_norms = a.blocks[0].attention_norm && a.blocks[0].mlp_norm;
    if (random.uniform() > 0.3 || shape || (rotary && !a.blocks[1].attention.rotary)) continue;
    if ((name == "norms without parameters" || name == "gain offset") && !has_norms) continue;
    if (name == "partial rotary") {
      for (BlockSpec& b : a.blocks) b.attention.rotary->dims = 2 * up_to(b.attention.head_dim / 2);
    } else if (name == "window") {
      for (BlockSpec& b : a.blocks) b.attention.window = up_to(60);
    } else {
      change(a, random);
    }
  }
  return a;
}

}  // namespace

Architecture toy_architecture(const std::string& name) {
  if (name == "gpt2") return toy_gpt2();
  if (name.starts_with("random ")) return random_architecture(std::stoull(name.substr(7)));
  Architecture a = toy_llama();
  Random random(0);
  bool found = name == "llama";
  for (const auto& [known, change] : changes()) {
    if (name != known) continue;
    change(a, random);
    found = true;
  }
  NIBBLE_REQUIRE(found, InvalidArgument, "no toy architecture is called '{}'", name);
  return a;
}

std::vector<std::string> knobs() {
  std::vector<std::string> names;
  for (const auto& change : changes()) names.push_back(change.first);
  for (int seed = 1; seed <= 12; ++seed) names.push_back("random " + std::to_string(seed));
  return names;
}

std::string test_name(std::string name) {
  std::replace(name.begin(), name.end(), ' ', '_');
  return name;
}

}  // namespace nibble::test
