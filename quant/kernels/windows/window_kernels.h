#pragma once

#include <cstddef>
#include <cstdint>

#include "quant/kernels/packing/window_layout.h"

namespace nibble::quant {

/// What the codes of windowed panels mean.
struct WindowTables {
  const float* entries;        ///< (2^bits)
  const std::uint8_t* planes;  ///< (4, 256): byte p of entry i % 2^bits, lowest first; null beyond 8 bits
  const std::uint8_t* bytes;   ///< (256): entries in 8 bits, repeated; null beyond 8 bits
};

/// Some panels of a windowed weight (quant/kernels/packing/window_layout.h) and some vectors of activations.
struct WindowMatvecArgs {
  const std::uint8_t* codes;  ///< (panels, panel_bytes)
  std::size_t panels, panel_bytes, halves;
  WindowLayout layout;
  WindowTables tables;
  const float* x;  ///< (tokens, x_stride), padded with zeros to 32 · halves
  std::size_t x_stride, tokens;
  float* y;  ///< (tokens, y_stride): 128 sums per panel, at float_place()
  std::size_t y_stride;
};

/// y[t, p, float_place(r)] = sum over inputs j of entries[code_rj] x_tj, in float32 with FMA where the processor has
/// it, inputs one after the other.
///
/// Result   within (n + 1) eps(float) sum_j |w_rj x_tj| of the exact sum, n = padded inputs. The same bits for a token
///          whatever others come with it.
using WindowMatvec = void (*)(const WindowMatvecArgs&);

/// w (32, 128), aligned to 64 bytes: w[j, float_place(r)] = entries[code_rj] of one half group of a panel.
using WindowDecode = void (*)(const WindowLayout& layout, const WindowTables& tables, const std::uint8_t* panel,
                              std::size_t half, float* w);

struct WindowKernels {
  WindowMatvec matvec;
  WindowDecode decode;
};

/// One token of quantized activations (int8_matvec.h).
struct WindowInt8Args {
  const std::uint8_t* codes;
  std::size_t panels, panel_bytes, halves;
  WindowLayout layout;
  WindowTables tables;
  const std::int8_t* x;        ///< (32 · halves)
  const float* x_scales;       ///< (halves)
  const std::int32_t* x_sums;  ///< (halves): sums of x
  float* y;                    ///< (panels, 128), at byte_place()
};

/// y[p, byte_place(r)] = sum over half groups b of s_b sum over j in b of bytes[code_rj] x8_j; inner sums are exact
/// integers (at most 32 · 255 · 127), outer ones float32 with FMA.
using WindowInt8Matvec = void (*)(const WindowInt8Args&);

/// Bytes of vector m (byte_place()) of a panel's half groups [first, first + halves): (8 halves, 64), as the products
/// of bytes of the same instruction set like them.
using WindowUnpack = void (*)(const WindowLayout& layout, const WindowTables& tables, const std::uint8_t* panel,
                              std::size_t m, std::size_t first, std::size_t halves, std::uint8_t* bytes);

/// Kernels of windows of up to 8 bits on products of bytes.
struct WindowInt8Kernels {
  WindowInt8Matvec matvec;
  WindowUnpack unpack;
};

/// By tier of instructions. Those with indices take windows of up to 8 bits: step - 1, and whether there are more than
/// 64 entries, or only that; others take any window.
extern const WindowKernels kWindowScalar, kWindowAvx2, kWindowAvx512, kWindowAvx512Vbmi[4][2], kWindowNeon;
extern const WindowInt8Kernels kWindowInt8Scalar, kWindowInt8Avx2[2], kWindowInt8Avx2Vnni[2], kWindowInt8Avx512[4][2],
    kWindowInt8Avx512Vnni[4][2], kWindowInt8Avx512Vbmi[4][2], kWindowInt8Neon[2], kWindowInt8NeonDotprod[2],
    kWindowInt8NeonI8mm[2];

/// The kernels of the instruction set in force, and what it is called. Requires WindowLayout::holds().
const WindowKernels& select_window_kernels(const WindowLayout& layout);
const char* window_isa_name(const WindowLayout& layout);
/// Those that go with active_int8_matvec(); null for windows of more than 8 bits.
const WindowInt8Kernels* select_window_int8_kernels(const WindowLayout& layout);

}  // namespace nibble::quant
