#include "model/checkpoint/weights.h"

#include "core/error.h"
#include "model/checkpoint/safetensors_file.h"

namespace nibble::model {
namespace {

constexpr std::string_view kGpt2Prefix = "transformer.";

class FloatProvider final : public WeightProvider {
 public:
  explicit FloatProvider(std::shared_ptr<const Checkpoint> checkpoint) : checkpoint_(std::move(checkpoint)) {}

  bool contains(const std::string& tensor) const override { return find_tensor_name(*checkpoint_, tensor).has_value(); }

  std::vector<float> vector(const std::string& tensor, std::size_t size) const override {
    const TensorView view = find(tensor, {size}, "");
    std::vector<float> values(size);
    convert_to_f32(view.dtype, view.data.data(), size, values.data());
    checkpoint_->check_intact(view);
    return values;
  }

  std::shared_ptr<const WeightSource> matrix(const std::string& module, std::size_t out, std::size_t in,
                                             bool conv1d) const override {
    const std::vector<std::uint64_t> shape =
        conv1d ? std::vector<std::uint64_t>{in, out} : std::vector<std::uint64_t>{out, in};
    return make_mapped_source(checkpoint_, find(module + ".weight", shape, conv1d ? ", stored (in, out)" : ""), conv1d);
  }

  std::unique_ptr<LinearOp<float>> linear(const std::string& module, std::size_t out, std::size_t in,
                                          bool conv1d) const override {
    std::shared_ptr<const WeightSource> weight = matrix(module, out, in, conv1d);
    const std::string bias = module + ".bias";
    return std::make_unique<DecodingLinear>(std::move(weight),
                                            contains(bias) ? vector(bias, out) : std::vector<float>{});
  }

 private:
  /// The float tensor of that name and shape, or FormatError.
  TensorView find(const std::string& name, const std::vector<std::uint64_t>& shape, std::string_view note) const {
    TensorView view = checkpoint_->tensor(find_tensor_name(*checkpoint_, name).value_or(name));
    NIBBLE_REQUIRE(view.shape == shape, FormatError,
                   "tensor '{}' of checkpoint '{}': expected shape {}{} after config.json, got {}", view.name,
                   checkpoint_->directory().string(), shape_text(shape), note, shape_text(view.shape));
    NIBBLE_REQUIRE(is_float(view.dtype), FormatError,
                   "tensor '{}' of checkpoint '{}': expected F32, F16 or BF16, got {}", view.name,
                   checkpoint_->directory().string(), dtype_name(view.dtype));
    return view;
  }

  std::shared_ptr<const Checkpoint> checkpoint_;
};

}  // namespace

std::optional<std::string> find_tensor_name(const Checkpoint& checkpoint, const std::string& tensor) {
  if (checkpoint.contains(tensor)) return tensor;
  std::string other =
      tensor.starts_with(kGpt2Prefix) ? tensor.substr(kGpt2Prefix.size()) : std::string(kGpt2Prefix) + tensor;
  if (checkpoint.contains(other)) return other;
  return std::nullopt;
}

std::unique_ptr<WeightProvider> make_float_provider(std::shared_ptr<const Checkpoint> checkpoint) {
  return std::make_unique<FloatProvider>(std::move(checkpoint));
}

}  // namespace nibble::model
