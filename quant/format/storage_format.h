#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "quant/format/quantized_tensor.h"

namespace nibble::quant {

/// The forms in which a weight can be stored.
enum class Format : std::uint8_t { kPalette, kUniform, kInt4Block, kBlockPalette, kFloat16 };

/// One of them: all that recipes, checkpoints, budgets and reports know of it. What its codes mean, and how they are
/// packed, decoded and trained, is its coding's (quantized_tensor.h). To add one: a file like int4_block_format.cc, and
/// a line of storage_formats().
struct StorageFormat {
  Format format = Format::kPalette;
  std::string_view name;         ///< in recipes, quantization_config and results
  std::optional<Coding> coding;  ///< empty: no codes, the values themselves, as a plain tensor
  /// Bits of a code, or of a value: the widths there are. Several: the recipe's `bits` chooses.
  std::span<const unsigned> bits;
  /// TensorSpec::group_size where a recipe does not say (palettes: of granularity channel-group), and those that it may
  /// say; none: any but 0.
  std::size_t group_size = 0;
  std::span<const std::size_t> group_sizes;
  /// The keys of a recipe that mean something with it, beside `format`; some only with others
  /// (recipe_keys.h).
  std::span<const std::string_view> keys;
  std::string (*describe)(const TensorSpec& spec) = nullptr;  ///< for people: "palette 4-bit tensor"

  bool takes(std::string_view key) const;
};

/// All formats, the default first.
std::span<const StorageFormat* const> storage_formats();

/// The line of a format.
const StorageFormat& storage_format(Format format);
/// Null for an unknown name.
const StorageFormat* find_storage_format(std::string_view name);

// The lines, each defined in the file of its name.
extern const StorageFormat kPaletteFormat, kUniformFormat, kInt4BlockFormat, kBlockPaletteFormat, kFloat16Format;

}  // namespace nibble::quant
