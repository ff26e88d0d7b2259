#pragma once

#include <cstddef>
#include <cstdint>

// The nearest entries of vector palettes, per instruction set. All sets give the same codes.
namespace nibble::quant::vector_kernels {

/// codes[v] = argmin over k of Σ_d (scaled_d[v] - root_d[v] · palette[k · dim + d])², the lowest of equal ones; two
/// fused multiply-adds per term, d ascending. `scaled` and `root` are (dim, stride) planes, of which `count` vectors
/// are read; `dim` 2 or 4, `entries` 1 to 256. least[v] is the minimum.
void nearest_scalar(const float* scaled, const float* root, std::size_t stride, std::size_t count, const float* palette,
                    std::size_t entries, std::size_t dim, std::uint8_t* codes, float* least);
void nearest_avx2(const float* scaled, const float* root, std::size_t stride, std::size_t count, const float* palette,
                  std::size_t entries, std::size_t dim, std::uint8_t* codes, float* least);
void nearest_avx512(const float* scaled, const float* root, std::size_t stride, std::size_t count, const float* palette,
                    std::size_t entries, std::size_t dim, std::uint8_t* codes, float* least);
void nearest_neon(const float* scaled, const float* root, std::size_t stride, std::size_t count, const float* palette,
                  std::size_t entries, std::size_t dim, std::uint8_t* codes, float* least);

/// That of the instruction set in force.
decltype(&nearest_scalar) nearest();

}  // namespace nibble::quant::vector_kernels
