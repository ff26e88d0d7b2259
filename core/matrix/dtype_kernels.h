#pragma once

#include <cstddef>
#include <cstdint>

// Bulk conversions per instruction set, behind convert_to_f32(), convert_to_f16(), round_to_bf16() and
// convert_to_bf16() of core/matrix/dtype.h. F16 and BF16 sources need no alignment. All sets give the same bits.
namespace nibble::dtype_kernels {

void f16_to_f32_avx2(const void* source, std::size_t count, float* destination);
void bf16_to_f32_avx2(const void* source, std::size_t count, float* destination);
void f32_to_f16_avx2(const float* source, std::size_t count, void* destination);
void round_to_bf16_avx2(const float* source, std::size_t count, float* destination);
void f16_to_f32_avx512(const void* source, std::size_t count, float* destination);
void f16_to_f32_neon(const void* source, std::size_t count, float* destination);
void bf16_to_f32_avx512(const void* source, std::size_t count, float* destination);
void bf16_to_f32_neon(const void* source, std::size_t count, float* destination);
void f32_to_f16_avx512(const float* source, std::size_t count, void* destination);
void f32_to_f16_neon(const float* source, std::size_t count, void* destination);
void round_to_bf16_avx512(const float* source, std::size_t count, float* destination);
void f32_to_bf16_avx512(const float* source, std::size_t count, void* destination);
void round_to_bf16_neon(const float* source, std::size_t count, float* destination);

}  // namespace nibble::dtype_kernels
