#include <algorithm>

#include "core/dtype.h"
#include "core/thread_pool.h"
#include "quant/kernels/linear/packed_linear.h"
#include "quant/kernels/linear/token_groups.h"

namespace nibble::quant {
namespace {

// The rows of another source, rounded to bfloat16 and kept as floats.
class RoundedSource final : public WeightSource {
 public:
  explicit RoundedSource(std::shared_ptr<const WeightSource> source) : source_(std::move(source)) {}
  std::size_t rows() const override { return source_->rows(); }
  std::size_t cols() const override { return source_->cols(); }
  bool stored_transposed() const override { return source_->stored_transposed(); }
  void release() const override { source_->release(); }
  void check_intact() const override { source_->check_intact(); }

  void decode_rows(std::size_t begin, std::size_t end, float* destination) const override {
    source_->decode_rows(begin, end, destination);
    round_to_bf16({destination, (end - begin) * cols()}, destination);
  }
  void decode_rows_transposed(std::size_t begin, std::size_t end, float* destination) const override {
    source_->decode_rows_transposed(begin, end, destination);
    round_to_bf16({destination, (end - begin) * cols()}, destination);
  }

 private:
  std::shared_ptr<const WeightSource> source_;
};

// Products of two bfloat16 numbers are exact in float32, so the float32 library multiplies rounded floats just as a
// bf16 unit would, in another order of sums. Without AMX it is the fastest way as well: vdpbf16ps starts every other
// cycle on an Emerald Rapids core, half of the float32 rate (docs/results/speed.md).
class Bf16Linear final : public LinearOp<float> {
 public:
  Bf16Linear(std::unique_ptr<LinearOp<float>> exact, std::shared_ptr<const WeightSource> source,
             std::vector<float> bias)
      : exact_(std::move(exact)), matrix_(std::make_shared<RoundedSource>(std::move(source)), std::move(bias)) {}

  std::size_t in_features() const override { return exact_->in_features(); }
  std::size_t out_features() const override { return exact_->out_features(); }
  void release() const override { exact_->release(); }
  std::string kernel_name() const override { return "gemm_bf16+" + exact_->kernel_name(); }
  std::uint64_t weight_bytes() const override { return exact_->weight_bytes(); }

  void forward(MatrixView<const float> x, MatrixView<float> y) const override {
    if (x.rows() <= kMostExactTokens) return exact_->forward(x, y);
    thread_local std::vector<float> buffer;  // the calling thread's, for all threads; kept, because new pages cost
    buffer.resize(std::max(buffer.size(), x.rows() * x.cols()));
    const MatrixView<float> rounded(buffer.data(), x.rows(), x.cols());
    parallel_for(x.rows(), [&](std::size_t t) { round_to_bf16(x.row(t), rounded.row(t).data()); });
    matrix_.forward(rounded, y);
  }

  void backward_input(MatrixView<const float> dy, MatrixView<float> dx) const override {
    exact_->backward_input(dy, dx);
  }

 private:
  std::unique_ptr<LinearOp<float>> exact_;
  DecodingLinear matrix_;
};

}  // namespace

std::unique_ptr<LinearOp<float>> make_bf16_linear(std::unique_ptr<LinearOp<float>> exact,
                                                  std::shared_ptr<const WeightSource> source, std::vector<float> bias) {
  return std::make_unique<Bf16Linear>(std::move(exact), std::move(source), std::move(bias));
}

}  // namespace nibble::quant
