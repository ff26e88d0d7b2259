#include "model/transformer/cache/attention_kernels.h"

#include "core/machine/isa.h"
#include "core/matrix/dtype.h"

namespace nibble::model::attention_kernels {
namespace {

float decode(float stored) { return stored; }
float decode(std::uint16_t stored) { return f16_to_f32(stored); }
float decode(std::int8_t stored) { return static_cast<float>(stored); }

template <class Stored>
void scores(ConstFloatRows q, const KeyBlocks<Stored>& keys, float scale, FloatRows out) {
  for (std::size_t i = 0; i < keys.n; ++i) {
    const Stored* key = keys.values + i / kKeyBlock * kKeyBlock * keys.dim + i % kKeyBlock;
    for (std::size_t r = 0; r < q.rows; ++r) {
      float sum = 0.0f;
      for (std::size_t j = 0; j < keys.dim; ++j) sum += q.values[r * q.stride + j] * decode(key[j * kKeyBlock]);
      out.values[r * out.stride + i] = sum * (keys.scales != nullptr ? scale * keys.scales[i] : scale);
    }
  }
}

template <class Stored>
void add_weighted(ConstFloatRows weights, const Rows<Stored>& values, FloatRows out) {
  for (std::size_t i = 0; i < values.n; ++i) {
    const Stored* value = values.values + i * values.dim;
    for (std::size_t r = 0; r < weights.rows; ++r) {
      const float weight =
          weights.values[r * weights.stride + i] * (values.scales != nullptr ? values.scales[i] : 1.0f);
      for (std::size_t j = 0; j < values.dim; ++j) out.values[r * out.stride + j] += weight * decode(value[j]);
    }
  }
}

template <class Stored>
constexpr Kernels<Stored> kKernels{scores<Stored>, add_weighted<Stored>};

}  // namespace

const Table kScalar{kKernels<float>, kKernels<std::uint16_t>, kKernels<std::int8_t>};

const Table& active() {
  static const Table& table = *choose_variant(&kScalar, NIBBLE_AVX2_VARIANT(&kAvx2), NIBBLE_AVX512_VARIANT(&kAvx512),
                                              NIBBLE_NEON_VARIANT(&kNeon));
  return table;
}

}  // namespace nibble::model::attention_kernels
