#include "quant/kernels/bf16/bf16_products.h"
#include "quant/kernels/linear/packed_linear.h"
#include "quant/kernels/linear/token_groups.h"

namespace nibble::quant {
namespace {

// Few tokens, and gradients, go through the exact operator.
class Bf16Linear final : public LinearOp<float> {
 public:
  Bf16Linear(std::unique_ptr<LinearOp<float>> exact, std::unique_ptr<LinearOp<float>> products)
      : exact_(std::move(exact)), products_(std::move(products)) {}

  std::size_t in_features() const override { return exact_->in_features(); }
  std::size_t out_features() const override { return exact_->out_features(); }
  void release() const override { exact_->release(); }
  std::string kernel_name() const override { return products_->kernel_name() + "+" + exact_->kernel_name(); }
  std::uint64_t weight_bytes() const override { return exact_->weight_bytes(); }

  void forward(MatrixView<const float> x, MatrixView<float> y) const override {
    (x.rows() <= kMostExactTokens ? *exact_ : *products_).forward(x, y);
  }
  void backward_input(MatrixView<const float> dy, MatrixView<float> dx) const override {
    exact_->backward_input(dy, dx);
  }

 private:
  std::unique_ptr<LinearOp<float>> exact_, products_;
};

}  // namespace

std::unique_ptr<LinearOp<float>> make_bf16_linear(std::unique_ptr<LinearOp<float>> exact,
                                                  std::shared_ptr<const WeightSource> source, std::vector<float> bias) {
  return std::make_unique<Bf16Linear>(std::move(exact), make_bf16_products(std::move(source), std::move(bias)));
}

}  // namespace nibble::quant
