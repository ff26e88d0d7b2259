#include "model/checkpoint/weights.h"

#include "core/checked_math.h"
#include "core/error.h"
#include "model/checkpoint/narrow_tensors.h"
#include "model/checkpoint/safetensors_file.h"

namespace nibble::model {
namespace {

// One matrix or vector of a stack of them.
TensorView slice_of(TensorView view, const Stored& stored) {
  if (stored.slices == 0) return view;
  const std::size_t bytes = view.data.size() / stored.slices;
  view.data = view.data.subspan(stored.slice * bytes, bytes);
  view.shape.erase(view.shape.begin());
  return view;
}

class FloatProvider final : public WeightProvider {
 public:
  explicit FloatProvider(std::shared_ptr<const Checkpoint> checkpoint)
      : checkpoint_(std::move(checkpoint)), narrow_(*checkpoint_) {}

  bool contains(const std::string& tensor) const override {
    return find_tensor_name(*checkpoint_, tensor).has_value() || narrow_.find(tensor).has_value();
  }

  std::vector<float> vector(const Stored& stored) const override {
    const TensorView view = slice_of(find_stored(*checkpoint_, stored), stored);
    std::vector<float> whole(stored.rows);
    convert_to_f32(view.dtype, view.data.data(), whole.size(), whole.data());
    checkpoint_->check_intact(view);
    std::vector<float> values(stored.part.count);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = whole.at(stored.part.row(i));
    return values;
  }

  std::shared_ptr<const WeightSource> matrix(const Parameter& parameter) const override {
    // A part of a fused tensor may have been given a tensor of its own by a quantization of the others.
    const Stored own = whole_matrix(parameter.weight_module + ".weight", parameter.out, parameter.in);
    const Stored& stored = !contains(parameter.weight.tensor) && contains(own.tensor) ? own : parameter.weight;
    const auto narrow = narrow_.find(stored.tensor);
    auto source = narrow ? narrow_.source(checkpoint_, *narrow, stored)
                         : make_mapped_source(checkpoint_, slice_of(find_stored(*checkpoint_, stored), stored),
                                              stored.transposed);
    const bool all = stored.part.is_contiguous() && stored.part.first == 0 && stored.part.count == stored.rows;
    return all ? source : make_row_set_source(std::move(source), stored.part);
  }

  std::unique_ptr<LinearOp<float>> linear(const Parameter& parameter) const override {
    return std::make_unique<DecodingLinear>(matrix(parameter), bias_of(parameter, *this));
  }

 private:
  std::shared_ptr<const Checkpoint> checkpoint_;
  NarrowTensors narrow_;
};

}  // namespace

std::vector<float> bias_of(const Parameter& parameter, const WeightProvider& weights) {
  if (weights.contains(parameter.bias.tensor)) return weights.vector(parameter.bias);
  NIBBLE_REQUIRE(!parameter.biased, FormatError,
                 "missing tensor '{}': expected a bias there, after config.json's model_type and the keys that its "
                 "family reads",
                 parameter.bias.tensor);
  return {};
}

std::vector<float> gain_of(const NormSpec& norm, const WeightProvider& weights) {
  std::vector<float> gain = norm.gain ? weights.vector(*norm.gain) : std::vector<float>{};
  for (const Stored& group : norm.group_gains) {
    const std::vector<float> values = weights.vector(group);
    gain.insert(gain.end(), values.begin(), values.end());
  }
  return gain;
}

std::optional<std::string> find_tensor_name(const Checkpoint& checkpoint, const std::string& tensor) {
  const Architecture& architecture = checkpoint.architecture();
  for (std::string& name : architecture.candidates(tensor))
    if (checkpoint.contains(name) && !architecture.undeclared_biases.contains(name)) return std::move(name);
  return std::nullopt;
}

TensorView find_stored(const Checkpoint& checkpoint, const Stored& stored) {
  TensorView view = checkpoint.tensor(find_tensor_name(checkpoint, stored.tensor).value_or(stored.tensor));
  const std::vector<std::uint64_t> shape = stored.shape();
  NIBBLE_REQUIRE(view.shape == shape, FormatError,
                 "tensor '{}' of checkpoint '{}': expected shape {}{} after config.json, got {}", view.name,
                 checkpoint.directory().string(), shape_text(shape), stored.transposed ? ", stored (in, out)" : "",
                 shape_text(view.shape));
  NIBBLE_REQUIRE(is_float(view.dtype), FormatError, "tensor '{}' of checkpoint '{}': expected F32, F16 or BF16, got {}",
                 view.name, checkpoint.directory().string(), dtype_name(view.dtype));
  return view;
}

std::unique_ptr<WeightProvider> make_float_provider(std::shared_ptr<const Checkpoint> checkpoint) {
  if (auto own = checkpoint->make_provider()) return own;
  return std::make_unique<FloatProvider>(std::move(checkpoint));
}

}  // namespace nibble::model
