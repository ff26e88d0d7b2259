#include "eval/speed/work.h"

#include <string>
#include <string_view>

namespace nibble::eval {
namespace {

// Bytes of `module`'s weight, whatever parts a format stores it in. GPT-2 checkpoints may carry a prefix.
std::uint64_t module_bytes(const model::Checkpoint& checkpoint, std::string_view module) {
  std::uint64_t bytes = 0;
  for (const std::string& name : checkpoint.tensor_names()) {
    std::string_view rest = name;
    if (rest.starts_with("transformer.")) rest.remove_prefix(std::string_view("transformer.").size());
    if (rest.starts_with(module) && rest.substr(module.size()).starts_with('.'))
      bytes += checkpoint.tensor(name).data.size();
  }
  return bytes;
}

std::string_view embedding_module(const model::Config& config) {
  return config.family == model::Family::kGpt2 ? "wte" : "model.embed_tokens";
}

}  // namespace

double prompt_flops(const model::Config& config, std::size_t tokens) {
  const auto n = static_cast<double>(tokens);
  double weights = 0.0;
  for (const model::LinearLayer& layer : model::linear_layers(config))
    weights += static_cast<double>(layer.out) * static_cast<double>(layer.in);
  const double attention =
      4.0 * static_cast<double>(config.q_width()) * n * (n + 1.0) / 2.0 * static_cast<double>(config.layers);
  const double head = 2.0 * static_cast<double>(config.vocabulary) * static_cast<double>(config.hidden);
  return 2.0 * n * weights + attention + head;
}

std::uint64_t weight_bytes_per_token(const model::Checkpoint& checkpoint, const model::Config& config) {
  std::uint64_t bytes = checkpoint.tensor_bytes();
  if (!config.tied_head) bytes -= module_bytes(checkpoint, embedding_module(config));
  if (config.family == model::Family::kGpt2) bytes -= module_bytes(checkpoint, "wpe");
  return bytes;
}

std::uint64_t head_bytes(const model::Checkpoint& checkpoint, const model::Config& config) {
  return module_bytes(checkpoint, config.tied_head ? embedding_module(config) : "lm_head");
}

}  // namespace nibble::eval
