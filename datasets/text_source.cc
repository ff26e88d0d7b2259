#include "datasets/text_source.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "core/error.h"
#include "core/files/output_file.h"
#include "model/tokenizer/utf8.h"

namespace nibble::datasets {
namespace {

constexpr std::uint64_t kMaxTextBytes = std::uint64_t{1} << 30;  // the text is held in memory, and so are its tokens

std::string join_rows(std::string_view text) {
  std::string joined;
  joined.reserve(text.size() + text.size() / 64);
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t newline = text.find('\n', begin);
    const std::size_t end = newline == std::string_view::npos ? text.size() : newline + 1;
    const std::string_view row = text.substr(begin, end - begin);
    if (begin > 0) joined += "\n\n";
    if (!is_blank(row)) joined += row;
    begin = end;
  }
  return joined;
}

}  // namespace

bool is_blank(std::string_view text) { return text.find_first_not_of(" \t\n\v\f\r") == std::string_view::npos; }

std::string read_evaluation_text(const std::filesystem::path& path, bool hf_join) {
  const std::string extension = path.extension().string();
  constexpr std::string_view kOther[] = {".jsonl", ".ndjson", ".json", ".gz", ".zst"};
  NIBBLE_REQUIRE(std::find(std::begin(kOther), std::end(kOther), extension) == std::end(kOther), FormatError,
                 "'{}': evaluation reads one plain text (.txt, .raw), not {} files", path.string(), extension);
  std::string text = read_text_file(path, kMaxTextBytes);
  NIBBLE_REQUIRE(!text.empty(), FormatError, "'{}': expected text, the file is empty", path.string());
  const std::size_t valid = model::valid_utf8_prefix(text);
  NIBBLE_REQUIRE(valid == text.size(), FormatError, "'{}': invalid UTF-8 at byte {} (0x{:02x}); is this a text file?",
                 path.string(), valid, static_cast<unsigned char>(text[valid]));
  return hf_join ? join_rows(text) : text;
}

}  // namespace nibble::datasets
