#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/linear_op.h"
#include "model/checkpoint/checkpoint.h"

namespace nibble::model {

/// Where a transformer takes its parameters from. The float checkpoint is one implementation; quant/ has one that
/// decodes quantized tensors. Names are the checkpoint's own, without the `.weight` / `.bias` suffix.
class WeightProvider {
 public:
  virtual ~WeightProvider() = default;
  virtual bool contains(const std::string& tensor) const = 0;  ///< by full tensor name, "h.0.ln_1.bias"
  /// A whole vector as float (norms, biases, by full tensor name). Throws FormatError unless it is float, of that size.
  virtual std::vector<float> vector(const std::string& tensor, std::size_t size) const = 0;
  /// The weight of `module` as rows: (out, in). With `conv1d` the checkpoint stores it (in, out), as GPT-2 does.
  /// Also serves embeddings: row t is the vector of token t. Throws FormatError on absence or another shape.
  virtual std::shared_ptr<const WeightSource> matrix(const std::string& module, std::size_t out, std::size_t in,
                                                     bool conv1d) const = 0;
  /// The linear layer of `module` with its bias tensor if there is one.
  virtual std::unique_ptr<LinearOp<float>> linear(const std::string& module, std::size_t out, std::size_t in,
                                                  bool conv1d) const = 0;
};

/// Rows of a mapped F32, F16 or BF16 tensor, converted as they are read. `transposed` = stored as (in, out).
std::shared_ptr<const WeightSource> make_mapped_source(std::shared_ptr<const Checkpoint> checkpoint, TensorView tensor,
                                                       bool transposed);
/// Several sources with the same number of columns, one below the other: GPT-2's q, k, v as one c_attn.
std::shared_ptr<const WeightSource> make_stacked_source(std::vector<std::shared_ptr<const WeightSource>> parts);

/// The float checkpoint as a provider. GPT-2 names are looked up with and without the "transformer." prefix, Llama
/// names as they are. Throws FormatError for tensors of another shape or dtype than asked for.
std::unique_ptr<WeightProvider> make_float_provider(std::shared_ptr<const Checkpoint> checkpoint);

}  // namespace nibble::model
