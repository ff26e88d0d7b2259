#include "quant/kernels/packed_linear.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/isa.h"
#include "quant/kernels/int8_matvec.h"
#include "quant/kernels/packed_products.h"
#include "quant/kernels/packed_source.h"
#include "quant/kernels/token_groups.h"
#include "quant/kernels/window_kernels.h"
#include "quant/kernels/window_products.h"

namespace nibble::quant {
namespace {

class PackedLinear final : public LinearOp<float> {
 public:
  PackedLinear(std::shared_ptr<const PackedSource> source, std::vector<float> bias, Compute compute)
      : weight_(source->weight()), bias_(bias), matrix_(std::move(source), std::move(bias)) {
    if (compute != Compute::kInt8) return;
    if (int8_kernel(*weight_, active_int8_matvec()) != nullptr) int8_ = &active_int8_matvec();
  }

  std::size_t in_features() const override { return weight_->cols; }
  std::size_t out_features() const override { return weight_->rows; }
  std::string kernel_name() const override {
    if (int8_ != nullptr) return fmt::format("packed_int8_{}", int8_->name);
    return fmt::format("packed_exact_{}", isa_name(active_isa()));
  }

  void forward(MatrixView<const float> x, MatrixView<float> y) const override {
    if (x.cols() != in_features() || y.cols() != out_features() || x.rows() != y.rows())
      return matrix_.forward(x, y);  // which says what is wrong with the shapes
    if (int8_ == nullptr)
      return x.rows() > kMostExactTokens ? matrix_.forward(x, y) : multiply_exact(*weight_, bias_, x, y);
    if (x.rows() > kMostInt8MatvecTokens)
      return multiply_int8_tokens(*weight_, *int8_, active_int8_matmul(), bias_, x, y);
    for (std::size_t t = 0; t < x.rows(); ++t) multiply_int8(*weight_, *int8_, bias_, x.row(t), y.row(t));
  }

  std::uint64_t weight_bytes() const override { return weight_->bytes(int8_ != nullptr); }

  void backward_input(MatrixView<const float> dy, MatrixView<float> dx) const override {
    matrix_.backward_input(dy, dx);
  }

 private:
  std::shared_ptr<const PackedWeight> weight_;
  std::vector<float> bias_;
  DecodingLinear matrix_;
  const Int8MatvecTable* int8_ = nullptr;
};

// The same over windows.
class WindowLinear final : public LinearOp<float> {
 public:
  WindowLinear(std::shared_ptr<const PackedSource> source, std::vector<float> bias, Compute compute)
      : weight_(source->weight()),
        bias_(bias),
        matrix_(std::move(source), std::move(bias)),
        int8_(compute == Compute::kInt8 && select_window_int8_kernels(weight_->windows) != nullptr) {}

  std::size_t in_features() const override { return weight_->cols; }
  std::size_t out_features() const override { return weight_->rows; }
  std::string kernel_name() const override {
    if (int8_) return fmt::format("packed_int8_{}", window_int8_isa_name());
    return fmt::format("packed_exact_{}", window_isa_name(weight_->windows));
  }

  void forward(MatrixView<const float> x, MatrixView<float> y) const override {
    if (x.cols() != in_features() || y.cols() != out_features() || x.rows() != y.rows())
      return matrix_.forward(x, y);  // which says what is wrong with the shapes
    if (!int8_) return x.rows() > kMostExactTokens ? matrix_.forward(x, y) : multiply_windows(*weight_, bias_, x, y);
    if (x.rows() > kMostInt8MatvecTokens) return multiply_windows_int8_tokens(*weight_, bias_, x, y);
    for (std::size_t t = 0; t < x.rows(); ++t) multiply_windows_int8(*weight_, bias_, x.row(t), y.row(t));
  }

  std::uint64_t weight_bytes() const override { return weight_->bytes(int8_); }

  void backward_input(MatrixView<const float> dy, MatrixView<float> dx) const override {
    matrix_.backward_input(dy, dx);
  }

 private:
  std::shared_ptr<const PackedWeight> weight_;
  std::vector<float> bias_;
  DecodingLinear matrix_;
  bool int8_;
};

}  // namespace

std::unique_ptr<LinearOp<float>> make_packed_linear(PackedWeight weight, std::vector<float> bias, Compute compute) {
  auto source = std::make_shared<const PackedSource>(std::make_shared<const PackedWeight>(std::move(weight)));
  std::unique_ptr<LinearOp<float>> packed;
  if (source->weight()->windowed())
    packed = std::make_unique<WindowLinear>(source, bias, compute);
  else
    packed = std::make_unique<PackedLinear>(source, bias, compute);
  if (compute != Compute::kBf16) return packed;
  return make_bf16_linear(std::move(packed), std::move(source), std::move(bias));
}

std::unique_ptr<LinearOp<float>> make_packed_linear(const QuantizedTensor& tensor, std::vector<float> bias,
                                                    Compute compute) {
  return make_packed_linear(pack_weight(tensor), std::move(bias), compute);
}

}  // namespace nibble::quant
