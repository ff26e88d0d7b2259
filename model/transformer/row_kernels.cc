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

const Table& active() {
  static const Table& table = *choose_variant(&kScalar, NIBBLE_AVX2_VARIANT(&kAvx2), NIBBLE_AVX512_VARIANT(&kAvx512));
  return table;
}

}  // namespace nibble::model::row_kernels
