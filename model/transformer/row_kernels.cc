#include "model/transformer/row_kernels.h"

#include "core/isa.h"
#include "model/transformer/row_ops_generic.h"

namespace nibble::model::row_kernels {

const Table kScalar{generic::max_real<float>,
                    generic::exp_row<float>,
                    generic::sum_exp<float>,
                    generic::gelu_row<float>,
                    generic::gelu_backward_row<float>,
                    generic::silu_mul_row<float>,
                    generic::silu_mul_backward_row<float>};

namespace {

const Table& choose() {
  switch (active_isa()) {
#if NIBBLE_HAVE_X86_AVX512
    case Isa::kAvx512:
      return kAvx512;
#endif
#if NIBBLE_HAVE_X86_AVX2
    case Isa::kAvx2:
      return kAvx2;
#endif
    default:
      return kScalar;
  }
}

}  // namespace

const Table& active() {
  static const Table& table = choose();
  return table;
}

}  // namespace nibble::model::row_kernels
