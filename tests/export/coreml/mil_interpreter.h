#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "export/coreml/package.h"

namespace nibble::test {

/// Elements of any type as doubles, row-major.
struct Array {
  std::vector<std::size_t> shape;
  std::vector<double> values;
};

/// Runs a function of a package as it lies on disk, in double, operation by operation in plain loops: what a device
/// computes but for its rounding. States keep what was written, from call to call.
class MilInterpreter {
 public:
  explicit MilInterpreter(const coreml::Package& package) : package_(package) {}

  /// Outputs of one call.
  std::map<std::string, Array> call(const std::string& function, const std::map<std::string, Array>& inputs);
  void reset() { states_.clear(); }

  /// Logits (tokens, vocabulary) of the next tokens under the GPU layout's contract: mask and lengths made here.
  std::vector<float> extend_gpu(const std::vector<std::uint32_t>& tokens);
  /// Under the Neural Engine's: one call of `function`, whose first token stands at `position`.
  std::vector<float> extend_ane(const std::string& function, const std::vector<std::uint32_t>& tokens,
                                std::int64_t position);

 private:
  const coreml::Package& package_;
  std::map<std::string, Array> states_;
  std::map<std::string, Array> constants_;  // compressed ones, decoded once
  std::size_t past_ = 0;
};

}  // namespace nibble::test
