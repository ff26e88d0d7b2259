#include <algorithm>

#include "core/error.h"
#include "model/transformer/layers/experts.h"
#include "model/transformer/scalar.h"

namespace nibble::model {
namespace {

template <class T>
std::vector<T> down_bias(const MlpSpec& spec, const WeightProvider& weights) {
  const std::vector<float> bias = bias_of(spec.down, weights);
  return {bias.begin(), bias.end()};
}

void check_rule(const ExpertsSpec& spec, const RoutingRule& rule) {
  const std::size_t count = spec.experts.size(), groups = spec.groups;
  NIBBLE_REQUIRE(groups == 1 || (groups > 1 && count % groups == 0 && count / groups >= 2), InvalidArgument,
                 "mixture {}: expected groups of two experts or more, of one size, got {} for {}", spec.router.module,
                 groups, count);
  NIBBLE_REQUIRE(
      spec.active_groups >= 1 && spec.active_groups <= groups && spec.active <= spec.active_groups * (count / groups),
      InvalidArgument, "mixture {}: {} of {} groups do not have {} active experts", spec.router.module,
      spec.active_groups, groups, spec.active);
  NIBBLE_REQUIRE(rule.correction.empty() || rule.correction.size() == count, InvalidArgument,
                 "mixture {}: expected a correction of {} experts, got {}", spec.router.module, count,
                 rule.correction.size());
  NIBBLE_REQUIRE(spec.scale > 0.0, InvalidArgument, "mixture {}: expected a positive scale, got {}", spec.router.module,
                 spec.scale);
}

}  // namespace

template <class T>
Experts<T>::Experts(const ExpertsSpec& spec, const typename Mlp<T>::MakeLinear& make_linear,
                    const WeightProvider& weights)
    : rule_(spec, spec.correction ? weights.vector(*spec.correction) : std::vector<float>()),
      router_{spec.router.module, nullptr} {
  const std::size_t count = spec.experts.size(), hidden = spec.router.in;
  NIBBLE_REQUIRE(spec.active >= 1 && spec.active <= count && spec.router.out == count, InvalidArgument,
                 "mixture {}: expected 1 to {} active experts and a router for {}, got {} and one for {}",
                 spec.router.module, count, count, spec.active, spec.router.out);
  check_rule(spec, rule_);
  const auto make_mlp = [&](const MlpSpec& mlp) {
    NIBBLE_REQUIRE(mlp.down.out == hidden, InvalidArgument, "mixture {}: the router reads {} values, but {} writes {}",
                   spec.router.module, hidden, mlp.down.module, mlp.down.out);
    return Mlp<T>(mlp, make_linear, down_bias<T>(mlp, weights));
  };
  router_.op = make_linear(spec.router);
  for (const MlpSpec& mlp : spec.experts) {
    experts_.push_back(make_mlp(mlp));
    widest_ = std::max(widest_, experts_.back().intermediate());
    widest_inner_ = std::max(widest_inner_, experts_.back().inner_width());
  }
  if (spec.shared) shared_.emplace(make_mlp(*spec.shared));
  if (!spec.shared_gate) return;
  NIBBLE_REQUIRE(spec.shared && spec.shared_gate->out == 1 && spec.shared_gate->in == hidden, InvalidArgument,
                 "mixture {}: the gate {} must be (1, {}) and have a shared expert", spec.router.module,
                 spec.shared_gate->module, hidden);
  shared_gate_ = NamedLinear<T>{spec.shared_gate->module, make_linear(*spec.shared_gate)};
}

template <class T>
void Experts<T>::check_shapes(MatrixView<const T> x, MatrixView<const T> y) const {
  const std::size_t hidden = router_.op->in_features();
  NIBBLE_REQUIRE(x.cols() == hidden && y.cols() == hidden && x.rows() == y.rows(), InvalidArgument,
                 "mixture {}: expected two matrices (tokens, {}), got ({}, {}) and ({}, {})", router_.module, hidden,
                 x.rows(), x.cols(), y.rows(), y.cols());
}

template <class T>
MatrixView<T> Experts<T>::route_rows(MatrixView<const T> x, FeedForwardScratch<T>& scratch,
                                     const Hooks<T>* hooks) const {
  const auto logits = scratch.router_logits.view(x.rows(), experts_.size());
  if (!router_.forward(x, logits, hooks)) return {};
  route<T>(rule_, logits, scratch.routing);
  return logits;
}

template <class T>
bool Experts<T>::ends_in_experts(const Hooks<T>* hooks) const {
  return hooks != nullptr &&
         std::any_of(experts_.begin(), experts_.end(), [&](const Mlp<T>& mlp) { return mlp.ends(*hooks); });
}

template <class T>
bool Experts<T>::ends_in_shared(const Hooks<T>* hooks) const {
  return hooks != nullptr &&
         ((shared_ && shared_->ends(*hooks)) || (shared_gate_ && hooks->ends_at(shared_gate_->module)));
}

template <class T>
void Experts<T>::forward_group(const ExpertGroup& group, MatrixView<const T> x, MatrixView<T> y,
                               FeedForwardScratch<T>& scratch, const Hooks<T>* hooks, bool ends) const {
  const Routing<T>& routing = scratch.routing;
  const GatheredRows<T> gathered(group, routing, x, scratch.gathered);
  const auto outputs = scratch.outputs.view(group.rows(), x.cols());
  const auto inner = scratch.inner.view(group.rows(), widest_inner_);
  for_experts<T>(group, routing, hooks != nullptr, [&](std::size_t e, std::size_t first, std::size_t count) {
    const Mlp<T>& mlp = experts_[e];
    if (ends && !mlp.ends(*hooks)) return;
    const auto rows = inner.block(first, 0, count, mlp.inner_width());
    mlp.forward(gathered.part(first, count), outputs.rows_slice(first, count),
                {rows, rows.cols_slice(0, mlp.intermediate()), {}, {}}, hooks, {routing.tokens_of(e)});
  });
  if (!ends) scatter_add<T>(routing, outputs, group.first_place, true, y);
}

template <class T>
bool Experts<T>::forward_shared(MatrixView<const T> x, MatrixView<T> y, FeedForwardScratch<T>& scratch,
                                const Hooks<T>* hooks) const {
  const auto output = scratch.outputs.view(x.rows(), x.cols());
  if (!shared_->forward(x, output, scratch, hooks)) return false;
  if (!shared_gate_) {
    add<T>(output, y);
    return true;
  }
  const auto share = shared_weights(x, scratch, hooks);
  if (share.empty() && x.rows() > 0) return false;
  for_row_pieces(x.rows(), x.cols(), [&](std::size_t t, std::size_t first, std::size_t count) {
    const T weight = share[t];
    const T* in = output.row(t).data() + first;
    T* sum = y.row(t).data() + first;
    for (std::size_t i = 0; i < count; ++i) sum[i] += weight * in[i];
  });
  return true;
}

template <class T>
std::span<T> Experts<T>::shared_weights(MatrixView<const T> x, FeedForwardScratch<T>& scratch,
                                        const Hooks<T>* hooks) const {
  const auto share = scratch.shared_weights.view(x.rows(), 1);
  if (!shared_gate_->forward(x, share, hooks)) return {};
  for (std::size_t t = 0; t < x.rows(); ++t) share(t, 0) = generic::sigmoid(share(t, 0));
  return {share.data(), x.rows()};
}

template <class T>
bool Experts<T>::forward(MatrixView<const T> x, MatrixView<T> y, FeedForwardScratch<T>& scratch,
                         const Hooks<T>* hooks) const {
  check_shapes(x, y);
  if (route_rows(x, scratch, hooks).empty() && x.rows() > 0) return false;
  set_zero<T>(y);
  if (ends_in_shared(hooks)) return forward_shared(x, y, scratch, hooks);
  const bool ends = ends_in_experts(hooks);
  for (const ExpertGroup& group : expert_groups<T>(scratch.routing, x.rows()))
    forward_group(group, x, y, scratch, hooks, ends);
  if (ends) return false;
  return !shared_ || forward_shared(x, y, scratch, hooks);
}

template <class T>
void Experts<T>::release() const {
  router_.op->release();
  for (const Mlp<T>& mlp : experts_) mlp.release();
  if (shared_) shared_->release();
  if (shared_gate_) shared_gate_->op->release();
}

#define NIBBLE_INSTANTIATE(T)                                                                                        \
  template Experts<T>::Experts(const ExpertsSpec&, const typename Mlp<T>::MakeLinear&, const WeightProvider&);       \
  template MatrixView<T> Experts<T>::route_rows(MatrixView<const T>, FeedForwardScratch<T>&, const Hooks<T>*) const; \
  template std::span<T> Experts<T>::shared_weights(MatrixView<const T>, FeedForwardScratch<T>&, const Hooks<T>*)     \
      const;                                                                                                         \
  template bool Experts<T>::ends_in_experts(const Hooks<T>*) const;                                                  \
  template bool Experts<T>::ends_in_shared(const Hooks<T>*) const;                                                   \
  template void Experts<T>::forward_group(const ExpertGroup&, MatrixView<const T>, MatrixView<T>,                    \
                                          FeedForwardScratch<T>&, const Hooks<T>*, bool) const;                      \
  template bool Experts<T>::forward_shared(MatrixView<const T>, MatrixView<T>, FeedForwardScratch<T>&,               \
                                           const Hooks<T>*) const;                                                   \
  template void Experts<T>::check_shapes(MatrixView<const T>, MatrixView<const T>) const;                            \
  template bool Experts<T>::forward(MatrixView<const T>, MatrixView<T>, FeedForwardScratch<T>&, const Hooks<T>*)     \
      const;                                                                                                         \
  template void Experts<T>::release() const;
NIBBLE_SCALARS(NIBBLE_INSTANTIATE)
#undef NIBBLE_INSTANTIATE

}  // namespace nibble::model
