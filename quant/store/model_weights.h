#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "model/checkpoint/checkpoint.h"
#include "model/checkpoint/weights.h"
#include "quant/format/quantized_tensor.h"
#include "quant/kernels/linear/packed_linear.h"
#include "quant/store/quantization_config.h"

namespace nibble::quant {

/// A quantized weight of an open checkpoint, decoded where it lies. Throws FormatError from decode_rows() when the file
/// shrank.
class MappedQuantizedWeight final : public WeightSource {
 public:
  /// Collects the parts of `module` in `checkpoint` and checks them. Throws FormatError.
  MappedQuantizedWeight(std::shared_ptr<const model::Checkpoint> checkpoint, const std::string& module,
                        const StoredTensor& stored);
  const QuantizedTensor& tensor() const { return tensor_; }
  const StoredTensor& stored() const { return stored_; }

  std::size_t rows() const override { return tensor_.rows(); }
  std::size_t cols() const override { return tensor_.cols(); }
  void decode_rows(std::size_t begin, std::size_t end, float* destination) const override;
  void release() const override;
  void check_intact() const override;

 private:
  std::shared_ptr<const model::Checkpoint> checkpoint_;
  StoredTensor stored_;
  std::vector<model::TensorView> views_;
  QuantizedTensor tensor_;
};

/// By module name; GPT-2's c_attn as .q, .k, .v. Empty for a float checkpoint.
using QuantizedWeights = std::map<std::string, std::shared_ptr<const MappedQuantizedWeight>>;

/// All quantized weights of a checkpoint. Throws FormatError: a weight that is there as float too, a part that is
/// missing, unknown or wrong, codes that quantization_config does not know.
QuantizedWeights open_quantized_weights(const std::shared_ptr<const model::Checkpoint>& checkpoint);

/// "config.json of checkpoint '…'", for messages.
std::string config_place(const model::Checkpoint& checkpoint);

/// Whether `name` is a part of one of `weights` (`.codes`, …; not the bias of its layer).
bool is_quantized_part(const QuantizedWeights& weights, const std::string& name);

/// How the linear layers of a loaded model multiply.
struct LoadOptions {
  /// false: decode from the mapped file, tile by tile, whatever the number of tokens. true: rearrange quantized weights
  /// in memory once, here, for the packed kernels (quant/kernels), and read float ones where they lie: what decoding
  /// token by token wants. Formats without a packed layout decode as before.
  bool packed = false;
  Compute compute = Compute::kExact;  ///< with `packed`: the arithmetic of the products
};

/// The weights of a checkpoint of either kind; its linear layers multiply as `options` say.
std::unique_ptr<model::WeightProvider> make_weight_provider(std::shared_ptr<const model::Checkpoint> checkpoint,
                                                            QuantizedWeights quantized,
                                                            const LoadOptions& options = {});

/// The weights of a float or quantized checkpoint (which of the two, config.json says).
std::unique_ptr<model::WeightProvider> make_weight_provider(std::shared_ptr<const model::Checkpoint> checkpoint);

}  // namespace nibble::quant
