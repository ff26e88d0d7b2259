#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/linear_op.h"
#include "model/checkpoint/checkpoint.h"

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

/// The bias of `parameter` from `weights`, empty where it has none. Throws FormatError where the configuration asks for
/// one that is not there.
std::vector<float> bias_of(const Parameter& parameter, const WeightProvider& weights);

/// The gain of `norm`: its width, or as many for each group where groups have their own; empty where it has none.
std::vector<float> gain_of(const NormSpec& norm, const WeightProvider& weights);

/// Rows of a mapped F32, F16 or BF16 tensor, converted as they are read. `transposed` = stored as (in, out); then both
/// ways of decoding are there. Throws FormatError unless `tensor` is a float matrix; decoding throws it when the file
/// shrank.
std::shared_ptr<const WeightSource> make_mapped_source(std::shared_ptr<const Checkpoint> checkpoint, TensorView tensor,
                                                       bool transposed);
/// The rows `rows` of another source, in that order. Throws InvalidArgument for rows that it does not have.
std::shared_ptr<const WeightSource> make_row_set_source(std::shared_ptr<const WeightSource> source, const RowSet& rows);

/// The name under which the checkpoint stores the architecture's `tensor`: itself, or with or without the prefix that
/// files of its family come with and without; empty if it is not there.
std::optional<std::string> find_tensor_name(const Checkpoint& checkpoint, const std::string& tensor);

/// Throws FormatError unless the checkpoint holds `stored` as floats and in its shape; returns the view of the tensor
/// it lies in.
TensorView find_stored(const Checkpoint& checkpoint, const Stored& stored);

/// The float checkpoint as a provider. Throws FormatError for tensors of another shape or dtype than asked for.
std::unique_ptr<WeightProvider> make_float_provider(std::shared_ptr<const Checkpoint> checkpoint);

}  // namespace nibble::model
