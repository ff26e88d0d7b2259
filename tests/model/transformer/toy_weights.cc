#include "tests/model/transformer/toy_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/random.h"
#include "model/architecture/families.h"

namespace nibble::test {
namespace {

using model::Architecture;

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

ToyWeights::ToyWeights(const Architecture& architecture, std::uint64_t seed) : seed_(seed) {
  for (const model::FileTensor& tensor : model::file_tensors(architecture)) names_.insert(tensor.name);
  for (const model::NormSpec* norm : model::norms(architecture))
    if (norm->gain) gains_.insert(norm->gain->tensor);
}

std::vector<float> ToyWeights::values(const std::string& name, std::size_t count, double mean, double deviation) const {
  std::uint64_t hash = seed_;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
  Random random(hash);
  std::vector<float> result(count);
  for (float& value : result) value = static_cast<float>(mean + deviation * random.normal());
  return result;
}

bool ToyWeights::contains(const std::string& tensor) const { return names_.count(tensor) > 0; }

std::vector<float> ToyWeights::vector(const model::Stored& stored) const {
  const bool gain = gains_.count(stored.tensor) > 0;
  const auto all =
      values(stored.tensor + std::to_string(stored.slice), stored.rows, gain ? 1.0 : 0.0, gain ? 0.2 : 0.3);
  std::vector<float> part;
  for (std::size_t i = 0; i < stored.part.count; ++i) part.push_back(all[stored.part.row(i)]);
  return part;
}

std::shared_ptr<const WeightSource> ToyWeights::matrix(const model::Parameter& parameter) const {
  const model::Stored& stored = parameter.weight;
  const auto all = values(stored.tensor + std::to_string(stored.slice), stored.rows * stored.cols, 0.0,
                          1.0 / std::sqrt(static_cast<double>(stored.cols)));
  std::vector<float> part;
  for (std::size_t i = 0; i < stored.part.count; ++i) {
    const auto row = all.begin() + static_cast<std::ptrdiff_t>(stored.part.row(i) * stored.cols);
    part.insert(part.end(), row, row + static_cast<std::ptrdiff_t>(stored.cols));
  }
  return std::make_shared<Rows>(std::move(part), stored.cols);
}

std::unique_ptr<LinearOp<float>> ToyWeights::linear(const model::Parameter& parameter) const {
  return std::make_unique<DecodingLinear>(matrix(parameter), model::bias_of(parameter, *this));
}

Architecture toy_gpt2(const ToySizes& sizes) {
  return model::parse_architecture(
      fmt::format(R"({{"model_type": "gpt2", "vocab_size": {}, "n_embd": {}, "n_layer": {}, "n_head": {}, "n_inner": {},
                      "n_positions": {}}})",
                  sizes.vocabulary, sizes.hidden, sizes.layers, sizes.heads == 0 ? 3 : sizes.heads, sizes.intermediate,
                  sizes.max_positions),
      "toy");
}

Architecture toy_llama(const ToySizes& sizes) {
  return model::parse_architecture(
      fmt::format(
          R"({{"model_type": "llama", "vocab_size": {}, "hidden_size": {}, "num_hidden_layers": {},
               "num_attention_heads": {}, "num_key_value_heads": 2, "head_dim": 10, "intermediate_size": {},
               "max_position_embeddings": {}, "rope_theta": 500.0, "attention_bias": true, "mlp_bias": true,
               "rms_norm_eps": 1e-5, "tie_word_embeddings": false, "hidden_act": "silu",
               "rope_scaling": {{"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                                 "original_max_position_embeddings": 64}}}})",
          sizes.vocabulary, sizes.hidden, sizes.layers, sizes.heads == 0 ? 4 : sizes.heads, sizes.intermediate,
          sizes.max_positions),
      "toy");
}

std::vector<std::uint32_t> toy_tokens(const Architecture& architecture, std::size_t count, std::uint64_t seed) {
  Random random(seed);
  std::vector<std::uint32_t> tokens(count);
  for (auto& token : tokens) token = static_cast<std::uint32_t>(random.below(architecture.vocabulary));
  return tokens;
}

}  // namespace nibble::test
