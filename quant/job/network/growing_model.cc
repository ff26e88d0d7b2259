#include "quant/job/network/growing_model.h"

#include <utility>

#include "model/transformer/build.h"

namespace nibble::quant {
namespace {

// The checkpoint's weights but for some matrices.
class ReplacedMatrices final : public model::WeightProvider {
 public:
  using Sources = std::map<std::string, std::shared_ptr<const WeightSource>>;
  ReplacedMatrices(const model::WeightProvider& base, Sources replaced) : base_(base), replaced_(std::move(replaced)) {}

  bool contains(const std::string& tensor) const override { return base_.contains(tensor); }
  std::vector<float> vector(const model::Stored& stored) const override { return base_.vector(stored); }
  std::shared_ptr<const WeightSource> matrix(const model::Parameter& parameter) const override {
    const auto found = replaced_.find(parameter.weight_module);
    return found != replaced_.end() ? found->second : base_.matrix(parameter);
  }
  std::unique_ptr<LinearOp<float>> linear(const model::Parameter& parameter) const override {
    const auto found = replaced_.find(parameter.weight_module);
    return found != replaced_.end() ? std::make_unique<DecodingLinear>(found->second, model::bias_of(parameter, base_))
                                    : base_.linear(parameter);
  }

 private:
  const model::WeightProvider& base_;
  Sources replaced_;
};

}  // namespace

// A linear layer whose weight can change.
class GrowingModel::Layer final : public LinearOp<float> {
 public:
  explicit Layer(std::unique_ptr<LinearOp<float>> op) : op_(std::move(op)) {}
  std::size_t in_features() const override { return op_->in_features(); }
  std::size_t out_features() const override { return op_->out_features(); }
  void forward(MatrixView<const float> x, MatrixView<float> y) const override { op_->forward(x, y); }
  void backward_input(MatrixView<const float> dy, MatrixView<float> dx) const override { op_->backward_input(dy, dx); }
  void release() const override { op_->release(); }
  std::unique_ptr<LinearOp<float>> exchange(std::unique_ptr<LinearOp<float>> op) {
    return std::exchange(op_, std::move(op));
  }

 private:
  std::unique_ptr<LinearOp<float>> op_;
};

GrowingModel::GrowingModel(const model::Architecture& architecture,
                           std::shared_ptr<const model::WeightProvider> weights,
                           std::map<std::string, std::shared_ptr<const WeightSource>> replaced)
    : weights_(std::move(weights)) {
  const ReplacedMatrices start(*weights_, std::move(replaced));
  model_ = model::build_transformer<float>(architecture, start, [&](const model::Parameter& layer) {
    auto op = std::make_unique<Layer>(start.linear(layer));
    layers_[layer.module] = op.get();
    return op;
  });
}

GrowingModel::~GrowingModel() = default;

std::unique_ptr<LinearOp<float>> GrowingModel::replace(const std::string& module,
                                                       std::shared_ptr<const WeightSource> weight,
                                                       std::vector<float> bias) {
  return layers_.at(module)->exchange(std::make_unique<DecodingLinear>(std::move(weight), std::move(bias)));
}

void GrowingModel::put_back(const std::string& module, std::unique_ptr<LinearOp<float>> former) {
  layers_.at(module)->exchange(std::move(former));
}

}  // namespace nibble::quant
