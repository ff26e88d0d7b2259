#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "model/checkpoint/weights.h"
#include "model/transformer/config.h"

namespace nibble::test {

/// Parameters made up from a seed and their names, of any shape asked for: a network of any config without a file.
/// Biases exist as `config` says.
class ToyWeights : public model::WeightProvider {
 public:
  ToyWeights(model::Config config, std::uint64_t seed) : config_(std::move(config)), seed_(seed) {}
  bool contains(const std::string& tensor) const override;
  std::vector<float> vector(const std::string& tensor, std::size_t size) const override;
  std::shared_ptr<const WeightSource> matrix(const std::string& module, std::size_t out, std::size_t in,
                                             bool conv1d) const override;
  std::unique_ptr<LinearOp<float>> linear(const std::string& module, std::size_t out, std::size_t in,
                                          bool conv1d) const override;

 private:
  std::vector<float> values(const std::string& name, std::size_t count, double mean, double deviation) const;
  model::Config config_;
  std::uint64_t seed_;
};

/// Small networks with every feature of their family: GPT-2 with 3 heads; Llama with 4 heads over 2 key-value heads, an
/// explicit head_dim that is not hidden / heads, biases, an untied head and Llama 3.1's rotary scaling.
model::Config toy_gpt2();
model::Config toy_llama();
model::Config toy_config(const std::string& family);  ///< "gpt2" or "llama"

/// `count` token ids below the vocabulary.
std::vector<std::uint32_t> toy_tokens(const model::Config& config, std::size_t count, std::uint64_t seed);

}  // namespace nibble::test
