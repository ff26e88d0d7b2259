#include "tests/model/transformer/toy_weights.h"

#include <algorithm>
#include <cmath>

#include "core/random.h"

namespace nibble::test {
namespace {

bool ends_with(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

class Rows : public WeightSource {
 public:
  Rows(std::vector<float> values, std::size_t cols) : values_(std::move(values)), cols_(cols) {}
  std::size_t rows() const override { return values_.size() / cols_; }
  std::size_t cols() const override { return cols_; }
  void decode_rows(std::size_t begin, std::size_t end, float* destination) const override {
    std::copy(values_.data() + begin * cols_, values_.data() + end * cols_, destination);
  }

 private:
  std::vector<float> values_;
  std::size_t cols_;
};

}  // namespace

std::vector<float> ToyWeights::values(const std::string& name, std::size_t count, double mean, double deviation) const {
  std::uint64_t hash = seed_;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
  Random random(hash);
  std::vector<float> result(count);
  for (float& value : result) value = static_cast<float>(mean + deviation * random.normal());
  return result;
}

bool ToyWeights::contains(const std::string& tensor) const {
  if (!ends_with(tensor, ".bias")) return true;
  if (tensor.find("mlp.") != std::string::npos) return config_.mlp_bias;
  if (tensor.find("attn.") != std::string::npos) return config_.attention_bias;
  return tensor.find("ln_") != std::string::npos;
}

std::vector<float> ToyWeights::vector(const std::string& tensor, std::size_t size) const {
  return ends_with(tensor, ".weight") ? values(tensor, size, 1.0, 0.2) : values(tensor, size, 0.0, 0.2);
}

std::shared_ptr<const WeightSource> ToyWeights::matrix(const std::string& module, std::size_t out, std::size_t in,
                                                       bool) const {
  return std::make_shared<Rows>(values(module, out * in, 0.0, 1.0 / std::sqrt(static_cast<double>(in))), in);
}

std::unique_ptr<LinearOp<float>> ToyWeights::linear(const std::string& module, std::size_t out, std::size_t in,
                                                    bool conv1d) const {
  const std::string bias = module + ".bias";
  return std::make_unique<DecodingLinear>(matrix(module, out, in, conv1d),
                                          contains(bias) ? vector(bias, out) : std::vector<float>{});
}

model::Config toy_gpt2() {
  model::Config config;
  config.family = model::Family::kGpt2;
  config.vocabulary = 50;
  config.hidden = 24;
  config.layers = 2;
  config.heads = config.kv_heads = 3;
  config.head_dim = 8;
  config.intermediate = 40;
  config.max_positions = 1024;
  config.attention_bias = config.mlp_bias = true;
  config.tied_head = true;
  return config;
}

model::Config toy_llama() {
  model::Config config;
  config.family = model::Family::kLlama;
  config.vocabulary = 50;
  config.hidden = 24;
  config.layers = 2;
  config.heads = 4;
  config.kv_heads = 2;
  config.head_dim = 10;  // not 24 / 4
  config.intermediate = 36;
  config.max_positions = 1024;
  config.rope_theta = 500.0;
  config.rope_scaling = model::RopeScaling{4.0, 1.0, 4.0, 64};
  config.attention_bias = config.mlp_bias = true;
  return config;
}

model::Config toy_config(const std::string& family) { return family == "gpt2" ? toy_gpt2() : toy_llama(); }

std::vector<std::uint32_t> toy_tokens(const model::Config& config, std::size_t count, std::uint64_t seed) {
  Random random(seed);
  std::vector<std::uint32_t> tokens(count);
  for (auto& token : tokens) token = static_cast<std::uint32_t>(random.below(config.vocabulary));
  return tokens;
}

}  // namespace nibble::test
