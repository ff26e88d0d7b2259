#include "quant/kernels/linear/packed_linear.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/machine/isa.h"
#include "quant/kernels/int8/int8_matvec.h"
#include "quant/kernels/linear/packed_products.h"
#include "quant/kernels/linear/packed_source.h"
#include "quant/kernels/linear/token_groups.h"
#include "quant/kernels/linear/window_products.h"
#include "quant/kernels/windows/window_kernels.h"

namespace nibble::quant {
namespace {

// Of few tokens, and where they are others of many: "avx512_vbmi+amx".
std::string int8_names() {
  const char* of_many = active_int8_matmul().name;
  return active_int8_matvec().name + (of_many == nullptr ? std::string() : std::string("+") + of_many);
}

// What codes and windows have in common: which products serve how many tokens. `Products` multiplies.
template <class Products>
class PackedLinear final : public LinearOp<float> {
 public:
  PackedLinear(std::shared_ptr<const PackedSource> source, std::vector<float> bias, Compute compute)
      : products_{*source->weight(), bias},
        weight_(source->weight()),
        matrix_(std::move(source), std::move(bias)),
        int8_(compute == Compute::kInt8 && weight_->has_bytes() && products_.has_int8()) {}

  std::size_t in_features() const override { return weight_->cols; }
  std::size_t out_features() const override { return weight_->rows; }
  std::string kernel_name() const override {
    return int8_ ? "packed_int8_" + int8_names() : fmt::format("packed_exact_{}", products_.exact_name());
  }

  void forward(MatrixView<const float> x, MatrixView<float> y) const override {
    if (x.cols() != in_features() || y.cols() != out_features() || x.rows() != y.rows())
      return matrix_.forward(x, y);  // which says what is wrong with the shapes
    if (!int8_) return x.rows() > kMostExactTokens ? matrix_.forward(x, y) : products_.exact(x, y);
    if (x.rows() > kMostInt8MatvecTokens) return products_.int8_tokens(x, y);
    for (std::size_t t = 0; t < x.rows(); ++t) products_.int8(x.row(t), y.row(t));
  }

  std::uint64_t weight_bytes() const override { return weight_->bytes(int8_); }

  void backward_input(MatrixView<const float> dy, MatrixView<float> dx) const override {
    matrix_.backward_input(dy, dx);
  }

 private:
  Products products_;
  std::shared_ptr<const PackedWeight> weight_;
  DecodingLinear matrix_;
  bool int8_;
};

struct CodeProducts {
  const PackedWeight& weight;
  std::vector<float> bias;

  bool has_int8() const { return int8_kernel(weight, active_int8_matvec()).run != nullptr; }
  std::string_view exact_name() const { return active_vectors_name(); }
  void exact(MatrixView<const float> x, MatrixView<float> y) const { multiply_exact(weight, bias, x, y); }
  void int8(std::span<const float> x, std::span<float> y) const {
    multiply_int8(weight, active_int8_matvec(), bias, x, y);
  }
  void int8_tokens(MatrixView<const float> x, MatrixView<float> y) const {
    multiply_int8_tokens(weight, active_int8_matvec(), active_int8_matmul(), bias, x, y);
  }
};

struct WindowProducts {
  const PackedWeight& weight;
  std::vector<float> bias;

  bool has_int8() const { return select_window_int8_kernels(weight.windows) != nullptr; }
  std::string_view exact_name() const { return window_isa_name(weight.windows); }
  void exact(MatrixView<const float> x, MatrixView<float> y) const { multiply_windows(weight, bias, x, y); }
  void int8(std::span<const float> x, std::span<float> y) const { multiply_windows_int8(weight, bias, x, y); }
  void int8_tokens(MatrixView<const float> x, MatrixView<float> y) const {
    multiply_windows_int8_tokens(weight, bias, x, y);
  }
};

}  // namespace

std::unique_ptr<LinearOp<float>> make_packed_linear(PackedWeight weight, std::vector<float> bias, Compute compute) {
  auto source = std::make_shared<const PackedSource>(std::make_shared<const PackedWeight>(std::move(weight)));
  std::unique_ptr<LinearOp<float>> packed;
  if (source->weight()->windowed())
    packed = std::make_unique<PackedLinear<WindowProducts>>(source, bias, compute);
  else
    packed = std::make_unique<PackedLinear<CodeProducts>>(source, bias, compute);
  if (compute != Compute::kBf16) return packed;
  return make_bf16_linear(std::move(packed), std::move(source), std::move(bias));
}

std::unique_ptr<LinearOp<float>> make_packed_linear(const QuantizedTensor& tensor, std::vector<float> bias,
                                                    Compute compute) {
  return make_packed_linear(pack_weight(tensor), std::move(bias), compute);
}

}  // namespace nibble::quant
