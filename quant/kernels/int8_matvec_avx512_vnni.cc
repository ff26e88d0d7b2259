#include "quant/kernels/code_vectors.h"
#include "quant/kernels/int8_matvec.h"
#include "quant/kernels/vector_avx512.h"

namespace nibble::quant {
namespace {

using V = Vector512;
using code_vectors::BlockAhead;
using code_vectors::Unit;
using code_vectors::unroll;

// vpermb looks at the low 6 bits of a byte only, and the table repeats to fill them: no masking. Codes of 8 bits are
// integers as they are.
template <int kBits>
struct Lookup {
  __m512i table = _mm512_setzero_si512();
  Lookup(const Int8MatvecArgs& args, std::size_t panel) {
    const std::size_t index = (args.first_panel + panel) / args.panels_per_table;
    if constexpr (kBits <= 4)
      table = _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(args.tables + index * 16)));
    if constexpr (kBits == 6) table = _mm512_loadu_si512(args.tables + index * 64);
  }
  __m512i operator()(__m512i field) const {
    if constexpr (kBits == 8) return field;
    return _mm512_permutexvar_epi8(field, table);
  }
};

__m512i broadcast_four(const std::int8_t* x) {
  int four = 0;
  __builtin_memcpy(&four, x, sizeof four);
  return _mm512_set1_epi32(four);
}

// 16 rows, 32 inputs a block; two accumulators hide some of the latency.
template <int kBits, bool kBlocks>
void shared_panels(const Int8MatvecArgs& args) {
  constexpr std::size_t kInputs = CodeLayout{kBits, kPanelRows}.unit_inputs(), kUnits = kBlockInputs / kInputs;
  const std::uint8_t* codes = args.codes;
  const Ahead<V> ahead(codes, args.panels * args.units * args.unit_bytes);
  const BlockAhead<V, kBits> ahead_of_blocks(args.block_scales, args.block_zeros,
                                             kBlocks ? args.panels * args.blocks : 0);
  for (std::size_t panel = 0; panel < args.panels; ++panel) {
    const Lookup<kBits> lookup(args, panel);
    __m512 total = _mm512_setzero_ps();
    for (std::size_t block = 0; block < args.blocks; ++block) {
      __m512i sums[2] = {_mm512_setzero_si512(), _mm512_setzero_si512()};
      if constexpr (kBlocks) sums[0] = _mm512_set1_epi32(-args.middle * args.x_sums[block]);
      const std::int8_t* x = args.x + block * kBlockInputs;
      unroll<static_cast<int>(kUnits)>([&](auto u) {
        const Unit<V, kBits> unit(codes + u.index * Unit<V, kBits>::kLayout.unit_bytes(), ahead);
        unroll<Unit<V, kBits>::kFields>([&](auto f) {
          const __m512i w = lookup(unit.template field<f.value>());
          auto& sum = sums[(u.value * Unit<V, kBits>::kFields + f.value) % 2];
          sum = _mm512_dpbusd_epi32(sum, w, broadcast_four(x + u.index * kInputs + f.index * 4));
        });
      });
      codes += kUnits * args.unit_bytes;
      __m512i sum = _mm512_add_epi32(sums[0], sums[1]);
      __m512 scale = _mm512_set1_ps(args.x_scales[block]);
      if constexpr (kBlocks) {
        const std::size_t at = (panel * args.blocks + block) * kPanelRows;
        ahead_of_blocks(panel * args.blocks + block);
        scale = _mm512_mul_ps(scale, V::load_half(args.block_scales + at));
        if (args.block_zeros != nullptr) {
          const auto* zeros = reinterpret_cast<const __m128i*>(args.block_zeros + at);
          const __m512i shift =
              _mm512_sub_epi32(_mm512_cvtepu8_epi32(_mm_loadu_si128(zeros)), _mm512_set1_epi32(args.middle));
          sum = _mm512_sub_epi32(sum, _mm512_mullo_epi32(shift, _mm512_set1_epi32(args.x_sums[block])));
        }
      }
      total = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum), scale, total);
    }
    _mm512_storeu_ps(args.y + panel * kPanelRows, total);
  }
}

// One row, 64 inputs a field: each lane has the scale of its own four inputs.
template <int kBits>
void single_rows(const Int8MatvecArgs& args) {
  constexpr std::size_t kInputs = CodeLayout{kBits, 1}.unit_inputs();
  const std::uint8_t* codes = args.codes;
  const Ahead<V> ahead(codes, args.panels * args.units * args.unit_bytes);
  for (std::size_t panel = 0; panel < args.panels; ++panel) {
    const Lookup<kBits> lookup(args, panel);
    __m512 totals[2] = {_mm512_setzero_ps(), _mm512_setzero_ps()};
    for (std::size_t unit = 0; unit < args.units; ++unit, codes += args.unit_bytes) {
      const Unit<V, kBits> loaded(codes, ahead);
      unroll<Unit<V, kBits>::kFields>([&](auto f) {
        const std::size_t input = unit * kInputs + f.index * kVectorBytes;
        const __m512i w = lookup(loaded.template field<f.value>());
        const __m512i sum = _mm512_dpbusd_epi32(_mm512_setzero_si512(), w, _mm512_loadu_si512(args.x + input));
        auto& total = totals[f.value % 2];
        total = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum), _mm512_loadu_ps(args.lane_scales + input / 4), total);
      });
    }
    args.y[panel] = _mm512_reduce_add_ps(_mm512_add_ps(totals[0], totals[1]));
  }
}

void quantize(const float* x, std::size_t count, std::int8_t* x8, float* scales, std::int32_t* sums) {
  for (std::size_t block = 0; block < count / kBlockInputs; ++block, x += kBlockInputs, x8 += kBlockInputs) {
    const __m512 a = _mm512_loadu_ps(x), b = _mm512_loadu_ps(x + 16);
    const float largest = _mm512_reduce_max_ps(_mm512_max_ps(_mm512_abs_ps(a), _mm512_abs_ps(b)));
    const bool has_nan = _mm512_cmp_ps_mask(a, b, _CMP_UNORD_Q) != 0;
    const __m512 inverse = _mm512_set1_ps(largest > 0.0f ? 127.0f / largest : 0.0f);
    const __m512i qa = _mm512_cvtps_epi32(_mm512_mul_ps(a, inverse)),
                  qb = _mm512_cvtps_epi32(_mm512_mul_ps(b, inverse));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(x8), _mm512_cvtsepi32_epi8(qa));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(x8 + 16), _mm512_cvtsepi32_epi8(qb));
    scales[block] = has_nan ? __builtin_nanf("") : largest / 127.0f;
    sums[block] = _mm512_reduce_add_epi32(_mm512_add_epi32(qa, qb));
  }
}

}  // namespace

#define NIBBLE_WIDTH(bits) \
  { shared_panels<bits, false>, single_rows<bits>, shared_panels<bits, true> }
const Int8MatvecTable kInt8MatvecAvx512Vnni{{NIBBLE_WIDTH(1),
                                             NIBBLE_WIDTH(2),
                                             NIBBLE_WIDTH(3),
                                             NIBBLE_WIDTH(4),
                                             NIBBLE_WIDTH(6),
                                             {nullptr, nullptr, shared_panels<8, true>}},
                                            quantize};
#undef NIBBLE_WIDTH

}  // namespace nibble::quant
