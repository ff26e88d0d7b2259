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

/// Rows of a mapped F32, F16 or BF16 tensor, converted as they are read. `transposed` = stored as (in, out); then both
/// ways of decoding are there. Throws FormatError unless `tensor` is a float matrix; decoding throws it when the file
/// shrank.
std::shared_ptr<const WeightSource> make_mapped_source(std::shared_ptr<const Checkpoint> checkpoint, TensorView tensor,
                                                       bool transposed);
/// Several sources with the same number of columns, one below the other: GPT-2's q, k, v as one c_attn. Stored
/// transposed if all parts are. Throws InvalidArgument for no parts or different numbers of columns.
std::shared_ptr<const WeightSource> make_stacked_source(std::vector<std::shared_ptr<const WeightSource>> parts);

/// Rows [begin, end) of another source: q out of GPT-2's c_attn. Throws InvalidArgument unless begin <= end <= rows.
std::shared_ptr<const WeightSource> make_row_slice_source(std::shared_ptr<const WeightSource> source, std::size_t begin,
                                                          std::size_t end);

/// The name under which the checkpoint stores `tensor`: itself, with "transformer." before it, or without (GPT-2
/// checkpoints come both ways); empty if none of them is there.
std::optional<std::string> find_tensor_name(const Checkpoint& checkpoint, const std::string& tensor);

/// The float checkpoint as a provider. GPT-2 names are looked up as find_tensor_name() does. Throws FormatError for
/// tensors of another shape or dtype than asked for.
std::unique_ptr<WeightProvider> make_float_provider(std::shared_ptr<const Checkpoint> checkpoint);

}  // namespace nibble::model
