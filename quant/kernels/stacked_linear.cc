#include "core/error.h"
#include "quant/kernels/packed_linear.h"

namespace nibble::quant {
namespace {

class StackedLinear final : public LinearOp<float> {
 public:
  explicit StackedLinear(std::vector<std::unique_ptr<LinearOp<float>>> parts) : parts_(std::move(parts)) {
    NIBBLE_REQUIRE(!parts_.empty(), InvalidArgument, "stacked linear: no parts");
    for (const auto& part : parts_) {
      NIBBLE_REQUIRE(part->in_features() == in_features(), InvalidArgument, "stacked linear: parts of {} and {} inputs",
                     in_features(), part->in_features());
      out_ += part->out_features();
    }
  }

  std::size_t in_features() const override { return parts_.front()->in_features(); }
  std::size_t out_features() const override { return out_; }
  std::string kernel_name() const override { return parts_.front()->kernel_name(); }

  void forward(MatrixView<const float> x, MatrixView<float> y) const override {
    check_outputs(y.cols());
    for_parts([&](const LinearOp<float>& part, std::size_t first) {
      part.forward(x, y.cols_slice(first, part.out_features()));
    });
  }

  void backward_input(MatrixView<const float> dy, MatrixView<float> dx) const override {
    check_outputs(dy.cols());
    Matrix<float> share(dx.rows(), dx.cols());
    for_parts([&](const LinearOp<float>& part, std::size_t first) {
      part.backward_input(dy.cols_slice(first, part.out_features()), first == 0 ? dx : share.view());
      for (std::size_t t = 0; first != 0 && t < dx.rows(); ++t)
        for (std::size_t j = 0; j < dx.cols(); ++j) dx(t, j) += share(t, j);
    });
  }

  std::uint64_t weight_bytes() const override {
    std::uint64_t bytes = 0;
    for (const auto& part : parts_) bytes += part->weight_bytes();
    return bytes;
  }

  void release() const override {
    for (const auto& part : parts_) part->release();
  }

 private:
  void check_outputs(std::size_t outputs) const {
    NIBBLE_REQUIRE(outputs == out_, InvalidArgument, "stacked linear: expected {} outputs, got {}", out_, outputs);
  }

  template <class Action>
  void for_parts(const Action& action) const {
    std::size_t first = 0;
    for (const auto& part : parts_) {
      action(*part, first);
      first += part->out_features();
    }
  }

  std::vector<std::unique_ptr<LinearOp<float>>> parts_;
  std::size_t out_ = 0;
};

}  // namespace

std::unique_ptr<LinearOp<float>> make_stacked_linear(std::vector<std::unique_ptr<LinearOp<float>>> parts) {
  return std::make_unique<StackedLinear>(std::move(parts));
}

}  // namespace nibble::quant
