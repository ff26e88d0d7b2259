#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nibble::model {

enum class Family { kGpt2, kLlama };

/// Llama 3.1's frequency scaling of rotary embeddings ("rope_type": "llama3").
struct RopeScaling {
  double factor = 1.0;
  double low_frequency_factor = 1.0;
  double high_frequency_factor = 4.0;
  std::uint64_t original_context = 8192;
};

/// What config.json says of the architecture, checked: every extent positive and below generous limits, heads divide.
struct Config {
  Family family = Family::kGpt2;
  std::size_t vocabulary = 0;
  std::size_t hidden = 0;  ///< width of the residual stream
  std::size_t layers = 0;
  std::size_t heads = 0;
  std::size_t kv_heads = 0;  ///< heads for GPT-2
  std::size_t head_dim = 0;
  std::size_t intermediate = 0;  ///< width inside the MLP
  std::size_t max_positions = 0;
  double norm_epsilon = 1e-5;
  double rope_theta = 10000.0;  ///< Llama only
  std::optional<RopeScaling> rope_scaling;
  bool attention_bias = false;  ///< Llama only; GPT-2 always has biases
  bool mlp_bias = false;
  bool tied_head = false;  ///< the head is the embedding
  std::optional<std::uint32_t> bos, eos;
  std::vector<std::uint32_t> stop_tokens;  ///< every id that ends a text; the first is `eos`

  std::size_t kv_width() const { return kv_heads * head_dim; }
  std::size_t q_width() const { return heads * head_dim; }
};

/// Parses config.json of model_type "gpt2" or "llama". Throws FormatError: unknown model_type, activation or rope_type,
/// values out of range, heads that do not divide, with expected and got.
Config parse_config(std::string_view json_text, std::string_view what);

/// A linear layer of the blocks (or the head): everything quantizers and collectors want to iterate over.
struct LinearLayer {
  std::string
      module;  ///< checkpoint name without ".weight": "h.0.attn.c_attn", "model.layers.0.mlp.up_proj", "lm_head"
  std::size_t out = 0, in = 0;
  bool conv1d = false;    ///< stored (in, out)
  std::size_t block = 0;  ///< block number; config.layers for the head
};

/// The linear layers of all blocks in order of use, without the head.
std::vector<LinearLayer> linear_layers(const Config& config);

}  // namespace nibble::model
