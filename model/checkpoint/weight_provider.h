#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/matrix/linear_op.h"
#include "model/architecture/parameter.h"

namespace nibble::model {

/// Where a transformer takes its parameters from. The float checkpoint is one implementation; quant/ has one that
/// decodes quantized tensors.
class WeightProvider {
 public:
  virtual ~WeightProvider() = default;
  /// Whether the tensor is there, under the architecture's name or another that files give it.
  virtual bool contains(const std::string& tensor) const = 0;
  /// The rows of a vector (norms, biases, sinks) as floats. Throws FormatError: absent, another shape, no floats.
  virtual std::vector<float> vector(const Stored& stored) const = 0;
  /// The weight of `parameter` as rows (out, in), whatever rows of which tensor they are. Also serves embeddings: row t
  /// is the vector of token t. Throws FormatError as above.
  virtual std::shared_ptr<const WeightSource> matrix(const Parameter& parameter) const = 0;
  /// The linear layer with its bias, if the tensor is there. Throws FormatError too where parameter.biased and it is
  /// not.
  virtual std::unique_ptr<LinearOp<float>> linear(const Parameter& parameter) const = 0;
};

}  // namespace nibble::model
