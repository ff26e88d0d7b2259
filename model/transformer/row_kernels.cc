#include "model/transformer/row_kernels.h"

#include "core/machine/isa.h"
#include "model/transformer/row_ops_generic.h"

namespace nibble::model::row_kernels {
namespace {

template <class F>
constexpr ActivationKernels kKernels{generic::activation_row<F, float>, generic::activation_backward_row<F, float>,
                                     generic::gated_row<F, float>, generic::gated_backward_row<F, float>};

}  // namespace

const Table kScalar{generic::max_real<float>,
                    generic::exp_row<float>,
                    generic::sum_exp<float>,
                    kKernels<generic::Silu>,
                    kKernels<generic::GeluTanh>,
                    kKernels<generic::Gelu>,
                    kKernels<generic::Relu>,
                    kKernels<generic::Relu2>,
                    generic::clamped_swiglu_row<float>,
                    generic::clamped_swiglu_backward_row<float>};

const Table& active() {
  static const Table& table = *choose_variant(&kScalar, NIBBLE_AVX2_VARIANT(&kAvx2), NIBBLE_AVX512_VARIANT(&kAvx512),
                                              NIBBLE_NEON_VARIANT(&kNeon));
  return table;
}

}  // namespace nibble::model::row_kernels
