#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/byte_stream.h"

namespace nibble::datasets {

/// Where JSON lines have their text, unless somebody says otherwise: as C4's files do.
inline constexpr std::string_view kDefaultField = "text";

/// What became of the records that DocumentReader::document() was asked for.
struct DocumentCounts {
  std::uint64_t documents = 0;      ///< usable ones
  std::uint64_t text_bytes = 0;     ///< in them
  std::uint64_t empty = 0;          ///< blank lines, and documents of white space only
  std::uint64_t invalid_utf8 = 0;   ///< .jsonl: lines that are not UTF-8
  std::uint64_t missing_field = 0;  ///< .jsonl: objects without the field
  std::uint64_t not_text = 0;       ///< .jsonl: the field is not a string
};

/// Documents of many files, one after the other, in bounded memory.
///
///   .jsonl .ndjson .json   every line is a JSON object, the string under `field` a document (C4's files are named
///                          .json). Lines are at most kMaxLineBytes long.
///   .txt .raw              the file is one document; a longer one than kMaxTextBytes is cut into documents of at most
///                          that size: each ends with the last line that ends in its second half, or, where none
///                          does, in the middle of a line. No short rest is left, which would be drawn like the others.
///
/// each also .gz or .zst (datasets/byte_stream.h). Records are lines or pieces of text; those that are no document are
/// skipped and counted. Throws FormatError with file and line: unknown extension, malformed JSON, a line too long,
/// invalid UTF-8 in plain text, and what ByteStream throws.
class DocumentReader {
 public:
  static constexpr std::size_t kMaxLineBytes = std::size_t{64} << 20;
  static constexpr std::size_t kMaxTextBytes = std::size_t{1} << 20;

  /// Checks all names at once; opens the files when their turn comes. Throws InvalidArgument without files.
  DocumentReader(std::vector<std::filesystem::path> files, std::string field);

  /// Goes to the next record; false after the last one of the last file.
  bool next();
  /// Number of the current record, counted over all files from 0.
  std::uint64_t record() const { return records_ - 1; }
  /// Text of the current record, or nothing if it is to be skipped; either way it is counted. Ask once per record; a
  /// record that is not asked for costs only its reading.
  std::optional<std::string> document();

  const DocumentCounts& counts() const { return counts_; }
  /// The keys of the first object that lacked the field, as a hint: "id, url".
  const std::string& keys_instead() const { return keys_instead_; }
  /// Bytes of the files themselves, compressed as they are: read so far, and in all.
  std::uint64_t bytes_read() const;
  std::uint64_t bytes_total() const { return bytes_total_; }

 private:
  bool open_next_file();
  bool fill(std::size_t size);
  bool next_line();
  bool next_piece();
  std::string place() const;
  std::optional<std::string> json_document();
  std::optional<std::string> text_document();

  std::vector<std::filesystem::path> files_;
  std::string field_;
  std::size_t next_file_ = 0;
  std::optional<ByteStream> stream_;
  bool json_lines_ = false;

  std::string buffer_;  // read and not yet handed out: from begin_ on
  std::size_t begin_ = 0;
  std::string_view record_;                     // in buffer_
  std::uint64_t record_offset_ = 0, line_ = 0;  // of the record in its file
  std::uint64_t next_offset_ = 0;

  std::uint64_t records_ = 0, bytes_total_ = 0, bytes_of_finished_files_ = 0;
  DocumentCounts counts_;
  std::string keys_instead_;
};

/// Whether a file's name says that each of its lines is a JSON object, one of whose fields is the text. Throws
/// FormatError for a name that says nothing of the kind of its contents.
bool holds_json_lines(const std::filesystem::path& path);

}  // namespace nibble::datasets
