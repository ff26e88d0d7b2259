#include "datasets/token_file.h"

#include <algorithm>
#include <fstream>
#include <system_error>

#include "core/error.h"

namespace nibble::datasets {
namespace {

std::size_t id_bytes(const std::filesystem::path& path) {
  const std::string extension = path.extension().string();
  if (extension == ".u16") return 2;
  if (extension == ".u32") return 4;
  throw FormatError(
      fmt::format("'{}': expected token ids in a .u16 or .u32 file, got extension '{}'", path.string(), extension));
}

}  // namespace

std::vector<std::uint32_t> read_token_file(const std::filesystem::path& path, std::size_t vocabulary,
                                           std::size_t limit) {
  const std::size_t width = id_bytes(path);
  std::error_code error;
  const std::uintmax_t bytes = std::filesystem::file_size(path, error);
  NIBBLE_REQUIRE(!error, FormatError, "cannot read '{}': {}", path.string(), error.message());
  NIBBLE_REQUIRE(bytes > 0, FormatError, "'{}': expected token ids, the file is empty", path.string());
  NIBBLE_REQUIRE(bytes % width == 0, FormatError, "'{}': expected a multiple of {} bytes, got {}", path.string(), width,
                 bytes);

  std::ifstream file(path, std::ios::binary);
  std::vector<std::uint32_t> ids(std::min<std::uintmax_t>(bytes / width, limit));
  std::vector<char> piece(std::size_t{1} << 16);
  for (std::size_t index = 0; index < ids.size();) {
    const std::size_t count = std::min(piece.size() / width, ids.size() - index);
    file.read(piece.data(), static_cast<std::streamsize>(count * width));
    NIBBLE_REQUIRE(file.good(), FormatError, "cannot read '{}' at byte {}", path.string(), index * width);
    for (std::size_t i = 0; i < count; ++i, ++index) {
      std::uint32_t id = 0;
      for (std::size_t b = 0; b < width; ++b)
        id |= std::uint32_t{static_cast<unsigned char>(piece[i * width + b])} << (8 * b);
      NIBBLE_REQUIRE(id < vocabulary, FormatError,
                     "'{}': id {} at index {} is outside the vocabulary of {}; was it made with another tokenizer?",
                     path.string(), id, index, vocabulary);
      ids[index] = id;
    }
  }
  return ids;
}

}  // namespace nibble::datasets
