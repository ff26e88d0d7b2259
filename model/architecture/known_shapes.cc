#include "model/architecture/known_shapes.h"

#include <fmt/format.h>

#include <array>

#include "core/error.h"
#include "core/text/json.h"
#include "core/text/suggest.h"
#include "model/architecture/published_configs.h"

namespace nibble::model {
namespace {

struct Gpt2Shape {
  std::string_view name;
  unsigned hidden, layers, heads;
};
constexpr std::array<Gpt2Shape, 4> kGpt2Shapes = {{
    {"gpt2", 768, 12, 12},
    {"gpt2-medium", 1024, 24, 16},
    {"gpt2-large", 1280, 36, 20},
    {"gpt2-xl", 1600, 48, 25},
}};

struct LlamaShape {
  std::string_view name;
  unsigned vocabulary, hidden, layers, heads, kv_heads, intermediate, positions;
  double rope_theta;
  unsigned rope_factor;  // of Llama 3.1's scaling; 0 for none
  bool tied;
  unsigned bos, eos;
};
constexpr std::array<LlamaShape, 7> kLlamaShapes = {{
    {"tinyllama-1.1b", 32000, 2048, 22, 32, 4, 5632, 2048, 1e4, 0, false, 1, 2},
    {"smollm-135m", 49152, 576, 30, 9, 3, 1536, 2048, 1e4, 0, true, 0, 0},
    {"llama-2-7b", 32000, 4096, 32, 32, 32, 11008, 4096, 1e4, 0, false, 1, 2},
    {"llama-3.1-8b", 128256, 4096, 32, 32, 8, 14336, 131072, 5e5, 8, false, 128000, 128001},
    {"llama-3.1-70b", 128256, 8192, 80, 64, 8, 28672, 131072, 5e5, 8, false, 128000, 128001},
    {"llama-3.2-1b", 128256, 2048, 16, 32, 8, 8192, 131072, 5e5, 32, true, 128000, 128001},
    {"llama-3.2-3b", 128256, 3072, 28, 24, 8, 8192, 131072, 5e5, 32, true, 128000, 128001},
}};

std::string config_of(const Gpt2Shape& shape, std::uint64_t layers) {
  return fmt::format(R"({{
  "model_type": "gpt2",
  "architectures": ["GPT2LMHeadModel"],
  "vocab_size": 50257,
  "n_positions": 1024,
  "n_embd": {},
  "n_layer": {},
  "n_head": {},
  "activation_function": "gelu_new",
  "layer_norm_epsilon": 1e-05,
  "bos_token_id": 50256,
  "eos_token_id": 50256,
  "torch_dtype": "float16"
}}
)",
                     shape.hidden, layers, shape.heads);
}

std::string config_of(const LlamaShape& shape, std::uint64_t layers) {
  const std::string scaling =
      shape.rope_factor == 0
          ? "null"
          : fmt::format(R"({{"rope_type": "llama3", "factor": {}.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192}})",
                        shape.rope_factor);
  return fmt::format(R"({{
  "model_type": "llama",
  "architectures": ["LlamaForCausalLM"],
  "vocab_size": {},
  "hidden_size": {},
  "num_hidden_layers": {},
  "num_attention_heads": {},
  "num_key_value_heads": {},
  "intermediate_size": {},
  "max_position_embeddings": {},
  "rope_theta": {:.1f},
  "rope_scaling": {},
  "rms_norm_eps": 1e-05,
  "hidden_act": "silu",
  "tie_word_embeddings": {},
  "bos_token_id": {},
  "eos_token_id": {},
  "torch_dtype": "float16"
}}
)",
                     shape.vocabulary, shape.hidden, layers, shape.heads, shape.kv_heads, shape.intermediate,
                     shape.positions, shape.rope_theta, scaling, shape.tied, shape.bos, shape.eos);
}

std::string config_of(const PublishedConfig& config, std::optional<std::uint64_t> layers) {
  if (!layers) return std::string(config.json);
  auto json = nlohmann::ordered_json::parse(config.json);
  json["num_hidden_layers"] = *layers;
  return json.dump(2) + "\n";
}

}  // namespace

std::vector<std::string_view> architecture_names() {
  std::vector<std::string_view> names;
  for (const Gpt2Shape& shape : kGpt2Shapes) names.push_back(shape.name);
  for (const LlamaShape& shape : kLlamaShapes) names.push_back(shape.name);
  for (const PublishedConfig& config : published_configs()) names.push_back(config.name);
  return names;
}

std::string architecture_config(std::string_view name, std::optional<std::uint64_t> layers) {
  NIBBLE_REQUIRE(!layers || (*layers >= 1 && *layers <= 4096), InvalidArgument, "layers: expected 1 to 4096, got {}",
                 layers.value_or(0));
  for (const Gpt2Shape& shape : kGpt2Shapes)
    if (shape.name == name) return config_of(shape, layers.value_or(shape.layers));
  for (const LlamaShape& shape : kLlamaShapes)
    if (shape.name == name) return config_of(shape, layers.value_or(shape.layers));
  for (const PublishedConfig& config : published_configs())
    if (config.name == name) return config_of(config, layers);
  const std::vector<std::string_view> names = architecture_names();
  throw InvalidArgument(fmt::format("unknown architecture '{}'{}; there are {}", name, did_you_mean(name, names),
                                    fmt::join(names, ", ")));
}

}  // namespace nibble::model
