#include "core/matrix/bf16_gemm.h"

#include <dnnl.hpp>

#include "core/error.h"
#include "core/machine/isa.h"
#include "core/matrix/gemm_library.h"

namespace nibble {
namespace {

using dnnl::memory;

template <class T>
memory::desc description(MatrixView<T> view, memory::data_type type, Transpose transpose = Transpose::kNo) {
  const auto dim = [](std::size_t n) { return static_cast<memory::dim>(n); };
  if (transpose == Transpose::kYes)
    return {{dim(view.cols()), dim(view.rows())}, type, memory::dims{1, dim(view.stride())}};
  return {{dim(view.rows()), dim(view.cols())}, type, memory::dims{dim(view.stride()), 1}};
}

void multiply(Transpose transpose_b, MatrixView<const std::uint16_t> a, MatrixView<const std::uint16_t> b,
              MatrixView<float> c) {
  thread_local const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  thread_local dnnl::stream stream(engine);
  const auto a_form = description(a, memory::data_type::bf16);
  const auto b_form = description(b, memory::data_type::bf16, transpose_b);
  const auto c_form = description(c, memory::data_type::f32);
  // The library keeps what it compiles for a shape, so this is quick from the second time on.
#if DNNL_VERSION_MAJOR >= 3
  const dnnl::matmul product(dnnl::matmul::primitive_desc(engine, a_form, b_form, c_form));
#else
  const dnnl::matmul product(dnnl::matmul::primitive_desc(dnnl::matmul::desc(a_form, b_form, c_form), engine));
#endif
  const auto place = [](const std::uint16_t* data) { return const_cast<std::uint16_t*>(data); };  // it only reads
  product.execute(stream, {{DNNL_ARG_SRC, memory(a_form, engine, place(a.data()))},
                           {DNNL_ARG_WEIGHTS, memory(b_form, engine, place(b.data()))},
                           {DNNL_ARG_DST, memory(c_form, engine, c.data())}});
  stream.wait();
}

}  // namespace

bool has_bf16_gemm() { return has_avx512_bf16(); }

void bf16_gemm(Transpose transpose_b, MatrixView<const std::uint16_t> a, MatrixView<const std::uint16_t> b,
               MatrixView<float> c) {
  NIBBLE_REQUIRE(has_bf16_gemm(), InvalidArgument, "bf16_gemm: this processor has no bfloat16 instructions in force");
  const bool turned = transpose_b == Transpose::kYes;
  const std::size_t k = turned ? b.cols() : b.rows(), n = turned ? b.rows() : b.cols();
  NIBBLE_REQUIRE(a.rows() == c.rows() && n == c.cols() && a.cols() == k && k > 0, InvalidArgument,
                 "bf16_gemm: A ({}, {}) times op(B) ({}, {}) does not give C ({}, {})", a.rows(), a.cols(), k, n,
                 c.rows(), c.cols());
  if (c.empty()) return;
  prepare_gemm_library();
  try {
    multiply(transpose_b, a, b, c);
  } catch (const dnnl::error& error) {
    throw NumericalError(
        fmt::format("bf16_gemm: oneDNN failed on ({}, {}) x ({}, {}): {}", a.rows(), a.cols(), k, n, error.what()));
  }
}

}  // namespace nibble
