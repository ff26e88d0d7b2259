#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "model/architecture/architecture.h"
#include "model/checkpoint/weights.h"

namespace nibble::test {

/// Parameters made up from a seed and their names, of any shape asked for: a network of any architecture without a
/// file. What the architecture does not name is not there.
class ToyWeights : public model::WeightProvider {
 public:
  ToyWeights(const model::Architecture& architecture, std::uint64_t seed);
  bool contains(const std::string& tensor) const override;
  std::vector<float> vector(const model::Stored& stored) const override;
  std::shared_ptr<const WeightSource> matrix(const model::Parameter& parameter) const override;
  std::unique_ptr<LinearOp<float>> linear(const model::Parameter& parameter) const override;

 private:
  std::vector<float> values(const std::string& name, std::size_t count, double mean, double deviation) const;
  std::set<std::string> names_, gains_;
  std::uint64_t seed_;
};

/// Small networks with every feature of their family: GPT-2 with 3 heads; Llama with 4 heads over 2 key-value heads, an
/// explicit head_dim that is not hidden / heads, biases, an untied head and Llama 3.1's rotary scaling.
struct ToySizes {
  std::size_t vocabulary = 50, hidden = 24, layers = 2, intermediate = 40, max_positions = 1024, heads = 0;
};
model::Architecture toy_gpt2(const ToySizes& sizes = {});
model::Architecture toy_llama(const ToySizes& sizes = {});

/// "gpt2" and "llama", these with one thing changed (knobs()), and "random N": what chance makes of seed N.
model::Architecture toy_architecture(const std::string& name);
/// Names of what can be changed, and of a few random architectures.
std::vector<std::string> knobs();
/// A name as gtest takes it.
std::string test_name(std::string name);

/// `count` token ids below the vocabulary.
std::vector<std::uint32_t> toy_tokens(const model::Architecture& architecture, std::size_t count, std::uint64_t seed);

}  // namespace nibble::test
