#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "model/architecture/families.h"
#include "model/architecture/family_config.h"
#include "model/architecture/parts.h"
#include "tests/support/tiny_checkpoint.h"

namespace nibble::test {

/// A family that no library knows, made to be awkward, in one file as real ones are. Parallel residuals behind two
/// LayerNorms, of which the second has no parameters; keys and values in one matrix, value first, pair by pair of heads
/// and stored (in, out); queries in a matrix of their own with a bias; gate and up in alternate rows; a window in every
/// other block; half of each head turned pair by pair; an untied head with a bias and a soft-cap; names of its own.
inline model::Architecture parse_quilt(const model::FamilyConfig& config) {
  using model::Role;
  constexpr auto kKind = model::NormSpec::Kind::kLayer;
  model::Architecture a;
  a.vocabulary = config.vocabulary();
  a.hidden = config.integer("patches", 1, model::kMaxWidth);
  a.max_positions = config.integer("seams", 1, model::kMaxPositions);
  a.prefix = "quilt.";
  a.ignored_suffixes = {".thimble"};
  const std::size_t layers = config.integer("layers_of_cloth", 1, model::kMaxLayers);
  const std::size_t inner = config.integer("stuffing", 1, model::kMaxWidth);
  const std::size_t window = config.integer("hoop", 1, model::kMaxPositions);
  for (std::size_t i = 0; i < layers; ++i) {
    const std::string prefix = fmt::format("quilt.row_{}.", i);
    model::BlockSpec block;
    block.residual = model::BlockSpec::Residual::kParallel;
    block.residual_multiplier = 0.75;
    block.attention_norm = model::norm(kKind, Role::kAttentionNorm, i, prefix + "press", a.hidden, 1e-5, true, 1.0);
    block.mlp_norm = model::plain_norm(kKind, Role::kMlpNorm, i, a.hidden, 1e-5);
    model::AttentionSpec& attention = block.attention;
    attention.heads = config.integer("needles", 1, model::kMaxHeads);
    attention.kv_heads = config.integer("threads", 1, model::kMaxHeads);
    attention.head_dim = config.integer("stitch", 2, model::kMaxHeadDim);
    attention.scale = 0.3;
    attention.window = i % 2 == 0 ? window : 0;
    model::RotarySpec& rotary = attention.rotary.emplace();
    rotary.dims = attention.head_dim / 2, rotary.interleaved = true, rotary.base = 500.0;
    attention.q = model::linear(Role::kQ, i, prefix + "ask", attention.q_width(), a.hidden, true);
    const std::size_t d = attention.head_dim, kv = attention.kv_width();
    const model::Fused fused{.module = prefix + "answer", .rows = 2 * kv, .in = a.hidden, .transposed = true};
    attention.k = model::part_of(fused, Role::kK, i, "k", {d, d, 2 * d, kv});
    attention.v = model::part_of(fused, Role::kV, i, "v", {0, d, 2 * d, kv});
    attention.o = model::linear(Role::kO, i, prefix + "tie_off", a.hidden, attention.q_width());
    const model::Fused halves{.module = prefix + "fill", .rows = 2 * inner, .in = a.hidden};
    model::MlpSpec& mlp = block.mlp.emplace();
    mlp.activation = config.activation("stuffing_kind", "silu");
    mlp.gate = model::part_of(halves, Role::kGate, i, "gate", {1, 1, 2, inner});
    mlp.up = model::part_of(halves, Role::kUp, i, "up", {0, 1, 2, inner});
    mlp.down = model::linear(Role::kDown, i, prefix + "close", a.hidden, inner);
    a.blocks.push_back(std::move(block));
  }
  a.final_norm = model::norm(model::NormSpec::Kind::kRms, Role::kFinalNorm, layers, "quilt.iron", a.hidden, 1e-6);
  model::set_embedding_and_head(a, "quilt.scraps", false, true, "label");
  a.head.softcap = 20.0;
  return a;
}

/// Adds it to the families of this process, once.
inline void register_quilt() {
  static const bool done = (model::register_family({"quilt", parse_quilt}), true);
  static_cast<void>(done);
}

inline std::string quilt_config(std::size_t vocabulary = 320) {
  return fmt::format(R"({{"model_type": "quilt", "vocab_size": {}, "patches": 32, "seams": 256, "layers_of_cloth": 3,
                          "stuffing": 48, "hoop": 7, "needles": 4, "threads": 2, "stitch": 8, "eos_token_id": 0}})",
                     vocabulary);
}

/// Random float16 weights for whatever `config_json` describes, of a size that leaves activations near 1, as a
/// checkpoint directory.
inline void write_random_checkpoint(const std::filesystem::path& directory, const std::string& config_json,
                                    std::uint64_t seed) {
  std::vector<TinyTensor> tensors;
  for (const model::FileTensor& tensor : model::file_tensors(model::parse_architecture(config_json, "config.json"))) {
    std::size_t count = 1;
    for (const std::uint64_t extent : tensor.shape) count *= extent;
    const bool gain = tensor.in == 0 && !tensor.bias;
    std::vector<float> values = normal_values(count, seed + tensors.size(), gain ? 0.1 : 0.2);
    if (gain)
      for (float& value : values) value += static_cast<float>(1.0 - tensor.gain_offset);
    tensors.push_back(f16_tensor(tensor.name, tensor.shape, values));
  }
  write_checkpoint(directory, config_json, tensors);
}

}  // namespace nibble::test
