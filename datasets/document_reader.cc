#include "datasets/document_reader.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <system_error>

#include "core/checked_math.h"
#include "core/error.h"
#include "core/text/strict_json.h"
#include "datasets/text_source.h"
#include "model/tokenizer/utf8.h"

namespace nibble::datasets {
namespace {

constexpr std::size_t kReadBytes = std::size_t{1} << 18;

std::string keys_of(const JsonText& object) {
  return fmt::format("{}{}", fmt::join(object.keys, ", "), object.key_count > object.keys.size() ? ", …" : "");
}

}  // namespace

bool holds_json_lines(const std::filesystem::path& file) {
  const std::string name = file.string();
  std::filesystem::path path = file;
  if (path.extension() == ".gz" || path.extension() == ".zst") path = path.stem();
  const std::string kind = path.extension().string();
  if (kind == ".jsonl" || kind == ".ndjson" || kind == ".json") return true;
  if (kind == ".txt" || kind == ".raw") return false;
  throw FormatError(
      fmt::format("'{}': expected .txt, .raw, .jsonl, .ndjson or .json, also .gz or .zst, got '{}'", name, kind));
}

DocumentReader::DocumentReader(std::vector<std::filesystem::path> files, std::string field)
    : files_(std::move(files)), field_(std::move(field)) {
  NIBBLE_REQUIRE(!files_.empty(), InvalidArgument, "documents: expected at least one file");
  for (const auto& file : files_) {
    require_regular_file(file);
    std::error_code error;
    const std::uintmax_t bytes = std::filesystem::file_size(file, error);
    NIBBLE_REQUIRE(!error, FormatError, "cannot read '{}': {}", file.string(), error.message());
    holds_json_lines(file);
    bytes_total_ += bytes;
  }
}

std::uint64_t DocumentReader::bytes_read() const {
  return bytes_of_finished_files_ + (stream_ ? stream_->file_bytes_read() : 0);
}

bool DocumentReader::open_next_file() {
  bytes_of_finished_files_ = bytes_read();
  stream_.reset();
  if (next_file_ == files_.size()) return false;
  const std::filesystem::path& path = files_[next_file_++];
  json_lines_ = holds_json_lines(path);
  stream_.emplace(path);
  buffer_.clear();
  begin_ = 0;
  line_ = next_offset_ = 0;
  return true;
}

// Reads on until `size` bytes wait in the buffer; false when the file ends before.
bool DocumentReader::fill(std::size_t size) {
  if (buffer_.size() - begin_ >= size) return true;
  buffer_.erase(0, begin_);
  begin_ = 0;
  while (buffer_.size() < size) {
    const std::size_t before = buffer_.size();
    buffer_.resize(before + kReadBytes);
    const std::size_t count = stream_->read(std::span(buffer_).subspan(before));
    buffer_.resize(before + count);
    if (count == 0) return false;
  }
  return true;
}

bool DocumentReader::next() {
  while (true) {
    if (!stream_ && !open_next_file()) return false;
    if (json_lines_ ? next_line() : next_piece()) {
      record_offset_ = next_offset_;
      next_offset_ += record_.size();
      begin_ += record_.size();
      ++records_;
      return true;
    }
    if (!open_next_file()) return false;
  }
}

bool DocumentReader::next_line() {
  std::size_t searched = 0, newline = std::string::npos;
  while (true) {
    newline = buffer_.find('\n', begin_ + searched);
    if (newline != std::string::npos) break;
    searched = buffer_.size() - begin_;
    NIBBLE_REQUIRE(searched <= kMaxLineBytes, FormatError, "'{}', line {}: longer than {} bytes; are these JSON lines?",
                   files_[next_file_ - 1].string(), line_ + 1, kMaxLineBytes);
    if (!fill(searched + 1)) break;
  }
  const std::size_t size = newline == std::string::npos ? buffer_.size() - begin_ : newline + 1 - begin_;
  if (size == 0) return false;
  record_ = std::string_view(buffer_).substr(begin_, size);
  ++line_;
  return true;
}

bool DocumentReader::next_piece() {
  const bool more = fill(2 * kMaxTextBytes);
  const std::string_view waiting = std::string_view(buffer_).substr(begin_);
  if (waiting.empty()) return false;
  std::size_t size = waiting.size();
  if (size > kMaxTextBytes) {
    // The last of a text are halves: one document is as likely to be drawn as another, and a short rest would be all of
    // half the windows.
    const std::size_t most = more ? kMaxTextBytes : divide_up(size, 2), newline = waiting.rfind('\n', most - 1);
    size = newline != std::string_view::npos && newline >= most / 2 ? newline + 1 : most;
    // Not inside a character: its continuation bytes are 10xxxxxx, at most three of them.
    for (int i = 0; i < 3 && (static_cast<unsigned char>(waiting[size]) & 0xC0u) == 0x80u; ++i) --size;
  }
  record_ = waiting.substr(0, size);
  return true;
}

std::string DocumentReader::place() const {
  return fmt::format("'{}', line {}", files_[next_file_ - 1].string(), line_);
}

std::optional<std::string> DocumentReader::document() {
  std::optional<std::string> text;
  if (is_blank(record_)) {
    ++counts_.empty;
  } else {
    text = json_lines_ ? json_document() : text_document();
  }
  if (text) {
    ++counts_.documents;
    counts_.text_bytes += text->size();
  }
  return text;
}

std::optional<std::string> DocumentReader::json_document() {
  if (model::valid_utf8_prefix(record_) != record_.size()) {
    ++counts_.invalid_utf8;
    return std::nullopt;
  }
  JsonText found = strict_json_text(record_, field_, place());
  switch (found.kind) {
    case JsonText::Kind::kAbsent:
      if (++counts_.missing_field == 1) keys_instead_ = keys_of(found);
      return std::nullopt;
    case JsonText::Kind::kOther:
      ++counts_.not_text;
      return std::nullopt;
    case JsonText::Kind::kText:
      break;
  }
  if (is_blank(found.text)) {
    ++counts_.empty;
    return std::nullopt;
  }
  return std::move(found.text);
}

std::optional<std::string> DocumentReader::text_document() {
  const std::size_t valid = model::valid_utf8_prefix(record_);
  NIBBLE_REQUIRE(valid == record_.size(), FormatError,
                 "'{}': invalid UTF-8 at byte {} (0x{:02x}); is this a text file?", files_[next_file_ - 1].string(),
                 record_offset_ + valid, static_cast<unsigned char>(record_[valid]));
  return std::string(record_);
}

}  // namespace nibble::datasets
