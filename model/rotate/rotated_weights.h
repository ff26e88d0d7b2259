#pragma once

#include <cstdint>
#include <memory>

#include "model/checkpoint/weight_provider.h"
#include "model/rotate/rotatable.h"

namespace nibble::model {

struct RotationOptions {
  std::uint64_t seed = 0;
  bool values = true;  ///< rotate each head's values as well, where nothing stands between them and the output matrix
};

/// The same network in another basis, its weights alone changed: with the residual stream x replaced by x Q, and each
/// head's values v by v R (one R for each key-value head),
///
///     embeddings     E Q
///     what reads     W diag(g) Q        g the gain of the norm in front, which becomes 1
///     what writes    Qᵀ W, bias b Q
///     values         Rᵀ W_v, output W_o diag(R, …)
///
/// A norm's bias b goes into the biases of what reads it, W b, where all of them have one; else it becomes (b / g) Q.
/// Logits are those of the model in exact arithmetic. The residual stream of a network with LayerNorm is rotated by a Q
/// that keeps the vector of ones.
///
/// `from` describes `weights`; `to` the result, which differs from it by a head that is no longer tied where
/// must_untie() says so. Both and `weights` must outlive the result. Throws InvalidArgument: why_not_rotatable(); a
/// norm whose gain is 0 where its bias is not, with no biases behind it. Source   QuaRot (arXiv:2404.00456), SpinQuant
/// (arXiv:2405.16406): their R1 and R2. Cost     2 · width · (log width) operations per weight; memory of the sources
/// in rotated_sources.h.
std::unique_ptr<WeightProvider> make_rotated_provider(const Architecture& from, const Architecture& to,
                                                      const WeightProvider& weights, const RotationOptions& options);

}  // namespace nibble::model
