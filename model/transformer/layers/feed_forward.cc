#include "model/transformer/layers/feed_forward.h"

#include <complex>
#include <optional>
#include <vector>

#include "core/error.h"
#include "model/transformer/layers/activation.h"
#include "model/transformer/layers/side_by_side.h"

namespace nibble::model {
namespace {

template <class T>
class DenseMlp final : public FeedForward<T> {
 public:
  DenseMlp(std::vector<NamedLinear<T>> in, NamedLinear<T> out) : in_(std::move(in)), out_(std::move(out)) {}

  void forward(MatrixView<const T> x, MatrixView<T> y, FeedForwardScratch<T>& scratch,
               const Hooks<T>* hooks) const override {
    const auto inner = scratch.inner.view(x.rows(), in_.size() * width());
    forward_side_by_side<T>(in_, x, inner, hooks);
    const auto activated = inner.cols_slice(0, width());
    activate<T>(inner, activated);
    out_.forward(activated, y, hooks);
  }
  void recompute(MatrixView<const T> x, MatrixView<T> y, FeedForwardScratch<T>& scratch) const override {
    const auto inner = scratch.inner.view(x.rows(), in_.size() * width());
    forward_side_by_side<T>(in_, x, inner, nullptr);
    const auto activated = scratch.activated.view(x.rows(), width());
    activate<T>(inner, activated);
    if (!y.empty()) out_.forward(activated, y, nullptr);
  }
  void backward(MatrixView<const T> x, MatrixView<const T> dy, MatrixView<T> dx, FeedForwardScratch<T>& scratch,
                const Hooks<T>* hooks) const override {
    const auto inner = scratch.inner.view(x.rows(), in_.size() * width());
    const auto dactivated = scratch.gradient_activated.view(x.rows(), width());
    out_.backward(scratch.activated.view(x.rows(), width()), dy, dactivated, hooks);
    activation_backward<T>(dactivated, inner);
    backward_side_by_side<T>(in_, x, inner, dx, scratch.part.view(x.rows(), x.cols()), hooks);
  }
  void release() const override {
    for (const auto& linear : in_) linear.op->release();
    out_.op->release();
  }

 private:
  std::size_t width() const { return out_.op->in_features(); }
  std::vector<NamedLinear<T>> in_;
  NamedLinear<T> out_;
};

}  // namespace

template <class T>
std::unique_ptr<FeedForward<T>> make_feed_forward(
    const BlockSpec& block, const std::function<std::unique_ptr<LinearOp<T>>(const Parameter&)>& make_linear,
    const WeightProvider&) {
  NIBBLE_REQUIRE(block.mlp, InvalidArgument, "feed-forward: a mixture");
  std::vector<NamedLinear<T>> in;
  if (block.mlp->gate) in.push_back({block.mlp->gate->module, make_linear(*block.mlp->gate)});
  in.push_back({block.mlp->up.module, make_linear(block.mlp->up)});
  return std::make_unique<DenseMlp<T>>(std::move(in),
                                       NamedLinear<T>{block.mlp->down.module, make_linear(block.mlp->down)});
}

#define NIBBLE_INSTANTIATE(T)                                     \
  template std::unique_ptr<FeedForward<T>> make_feed_forward<T>( \
      const BlockSpec&, const std::function<std::unique_ptr<LinearOp<T>>(const Parameter&)>&, const WeightProvider&);
NIBBLE_INSTANTIATE(float)
NIBBLE_INSTANTIATE(double)
NIBBLE_INSTANTIATE(std::complex<double>)
#undef NIBBLE_INSTANTIATE

}  // namespace nibble::model
