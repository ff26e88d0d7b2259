#include "quant/format/storage_format.h"

#include <algorithm>
#include <array>

namespace nibble::quant {

bool StorageFormat::takes(std::string_view key) const { return std::find(keys.begin(), keys.end(), key) != keys.end(); }

std::span<const StorageFormat* const> storage_formats() {
  static constexpr std::array<const StorageFormat*, 5> formats{&kPaletteFormat, &kUniformFormat, &kInt4BlockFormat,
                                                               &kBlockPaletteFormat, &kFloat16Format};
  return formats;
}

const StorageFormat& storage_format(Format format) {
  const auto formats = storage_formats();
  return **std::find_if(formats.begin(), formats.end(), [&](const auto* line) { return line->format == format; });
}

const StorageFormat* find_storage_format(std::string_view name) {
  const auto formats = storage_formats();
  const auto found = std::find_if(formats.begin(), formats.end(), [&](const auto* line) { return line->name == name; });
  return found == formats.end() ? nullptr : *found;
}

}  // namespace nibble::quant
