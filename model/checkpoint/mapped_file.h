#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace nibble::model {

/// A file mapped into memory, read-only, for as long as this object lives.
///
/// A mapped file that shrinks (or whose disk fails) makes reads raise SIGBUS. A process-wide handler, installed with
/// the first mapping, then puts zero pages under the rest of the mapping and marks it as lost; the read goes on with
/// zeros, on whatever thread, and check_intact() throws. So the rule for readers is: read, then check_intact(), then
/// use. SIGBUS from elsewhere goes to whoever handled it before.
///
/// Threads: const calls may run concurrently.
class MappedFile {
 public:
  /// Throws FormatError unless `path` is a readable regular file (symbolic links are followed).
  explicit MappedFile(std::filesystem::path path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::span<const std::byte> bytes() const { return {data_, size_}; }
  /// Throws FormatError when what has been read so far may not be what the file held when it was opened: it was written
  /// to since (as far as its time tells: a few milliseconds), is smaller, or a read failed. Cost: one fstat().
  void check_intact() const;
  /// Tells the kernel that the pages under `part` are not needed for a while; reading them later is fine.
  void release(std::span<const std::byte> part) const;
  /// hash_hex(part), read and released piece by piece, so that a large one is never in memory whole. Throws FormatError
  /// as check_intact().
  std::string hash(std::span<const std::byte> part) const;

 private:
  struct Registration;  ///< how the signal handler finds this mapping
  std::filesystem::path path_;
  int file_ = -1;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  std::int64_t written_ns_ = 0;  ///< when it was, last, before it was opened
  Registration* registration_ = nullptr;
  friend struct SigbusRegistry;
};

}  // namespace nibble::model
