#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "core/memory.h"
#include "quant/job/quantize_model.h"
#include "tests/quant/job/tiny_models.h"
#include "tests/support/files.h"

namespace nibble::quant {
namespace {

TEST(QuantizeModel, HoldsAFewWeightsInMemoryNotTheModel) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "ASan keeps freed memory";
#endif
  const test::TempDir dir;
  test::TinyModel model;
  constexpr std::size_t kWidth = 512, kLayers = 16;
  model.config_json = fmt::format(
      R"({{"model_type": "llama", "vocab_size": 8, "hidden_size": {0}, "num_hidden_layers": {1},
           "num_attention_heads": 8, "intermediate_size": {0}, "hidden_act": "silu", "tie_word_embeddings": true}})",
      kWidth, kLayers);
  const auto values = test::normal_values(kWidth * kWidth, 1, 0.1);
  const auto add = [&](const std::string& name, std::vector<std::uint64_t> shape) {
    std::size_t count = 1;
    for (const std::uint64_t extent : shape) count *= extent;
    model.tensors.push_back(test::f32_tensor(name, std::move(shape), std::span(values).first(count)));
  };
  add("model.embed_tokens.weight", {8, kWidth});
  add("model.norm.weight", {kWidth});
  for (std::size_t i = 0; i < kLayers; ++i) {
    const std::string block = fmt::format("model.layers.{}.", i);
    add(block + "input_layernorm.weight", {kWidth});
    add(block + "post_attention_layernorm.weight", {kWidth});
    for (const auto name : {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
                            "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"})
      add(block + name + ".weight", {kWidth, kWidth});
  }
  model.write(dir / "model");
  model.tensors = {};
  const PeakAnonymousMemory peak;
  const std::uint64_t before = memory_use().anonymous_bytes;
  quantize_model({.model = dir / "model",
                  .output = dir / "out",
                  .recipe = Recipe::preset("int4-block"),
                  .overwrite = false,
                  .progress = {}});
  const std::uint64_t model_bytes = std::filesystem::file_size(dir / "model" / "model.safetensors");
  // At most 4 weights of 1 MiB at a time, each with its codes, blocks and parts (some 8 bytes per weight), and the
  // allocator's share: 32 MiB are far below the 112 MiB of the model.
  EXPECT_GT(model_bytes, 110'000'000u);
  EXPECT_LT(peak.bytes() - std::min(before, peak.bytes()), 32u << 20);
}

}  // namespace
}  // namespace nibble::quant
