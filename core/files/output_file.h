#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace nibble {

/// Whether a file waits for the disk before it gets its name. Without that a killed process loses nothing, but a power
/// cut may leave anything under the name: for files that can be made again and tell whether they are whole.
enum class Flush { kNo, kYes };

/// Whether others are kept from writing the same file meanwhile. Not where another library opens partial() too, and a
/// lock of its own is in its way.
enum class Lock { kNo, kYes };

/// Whether what is there under the name is replaced. If not, nor is what comes while the file is written, by whomever.
enum class Replace { kNo, kYes };

/// What a file written under this name would replace: a link's file, not the link. Throws InvalidArgument for a pipe, a
/// device or a socket.
std::filesystem::path file_to_replace(const std::filesystem::path& path);

/// Writes a file so that its final name only ever shows complete contents: bytes go to NAME.partial, and from there to
/// the disk while more are written; commit() flushes the rest and renames. Destroyed without commit(), the partial file
/// is removed. Throws FormatError with path and reason, also while another process writes the same file;
/// InvalidArgument as file_to_replace(), and from the constructor and commit() for what Replace::kNo leaves.
class OutputFile {
 public:
  /// Replaces a NAME.partial left by a killed run. The directory must exist.
  explicit OutputFile(const std::filesystem::path& path, Flush flush = Flush::kYes, Lock lock = Lock::kYes,
                      Replace replace = Replace::kYes);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);
  /// Where the bytes are until commit().
  const std::filesystem::path& partial() const { return partial_; }
  std::uint64_t bytes_written() const { return written_; }
  void commit();

 private:
  void start_flushing();

  std::filesystem::path path_, partial_;
  int file_ = -1;
  bool flushed_, replaces_;
  std::uint64_t written_ = 0, on_their_way_ = 0;  // bytes; of them, those that the disk has been told of
};

/// Writes the whole of a file at once, as OutputFile does.
void write_file(const std::filesystem::path& path, std::span<const std::byte> bytes);
void write_file(const std::filesystem::path& path, std::string_view text);

/// While one lives, files written under `directory` are renamed into place but not flushed to disk: for scratch that is
/// quickly made, soon deleted, and after a power cut not trusted. A killed process loses nothing of it.
class UnflushedDirectory {
 public:
  explicit UnflushedDirectory(const std::filesystem::path& directory);
  ~UnflushedDirectory();
  UnflushedDirectory(const UnflushedDirectory&) = delete;
  UnflushedDirectory& operator=(const UnflushedDirectory&) = delete;

 private:
  std::string prefix_;
};

/// The whole of a small text file. Throws FormatError when it cannot be read or exceeds `limit` bytes.
std::string read_text_file(const std::filesystem::path& path, std::uint64_t limit);

/// fsync of a directory, so that a rename inside it survives a power cut (but see UnflushedDirectory). Throws
/// FormatError.
void sync_directory(const std::filesystem::path& directory);

}  // namespace nibble
