#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "model/checkpoint/mapped_file.h"
#include "model/gguf/gguf_header.h"

namespace nibble::model {

/// A GGUF model: one file, or all files of a split opened through the first. Files are memory-mapped, never loaded
/// whole; metadata and the list of tensors are copied and checked on opening (gguf_header.h). A file that shrinks while
/// mapped reads as zeros: call check_intact() after reading and before using. Threads: const calls may run
/// concurrently.
class GgufFile {
 public:
  /// Opens `path`. A file whose `split.count` says more than one must be the first, NAME-00001-of-0000N.gguf; the
  /// others are opened beside it. Throws FormatError naming file, what was expected and what was found: also for parts
  /// that are absent or belong elsewhere, a tensor in two parts, and a sum of tensors that is not
  /// `split.tensors.count`.
  static std::shared_ptr<const GgufFile> open(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return parts_.front()->path(); }
  /// The first file's: the others only have `split.*`.
  const GgufMetadata& metadata() const { return metadata_; }
  std::uint32_t version() const { return version_; }
  const std::vector<GgufTensor>& tensors() const { return tensors_; }  ///< in the order of the files
  const GgufTensor* find(const std::string& name) const;               ///< null if absent
  /// Throws FormatError ("missing tensor …", with the nearest name) if absent.
  const GgufTensor& tensor(const std::string& name) const;
  std::uint64_t tensor_bytes() const;  ///< of all tensors
  /// Throws FormatError when bytes of `tensor` read so far may be wrong, because its file shrank or a read failed.
  void check_intact(const GgufTensor& tensor) const;
  /// The same of any bytes of this file. Throws InvalidArgument for others.
  void check_intact(std::span<const std::byte> bytes) const;
  void release(std::span<const std::byte> bytes) const;
  bool holds(std::span<const std::byte> bytes) const;  ///< whether they lie in one of its parts
  /// Tells the kernel that a tensor's pages are not needed for a while; reading it later is fine.
  void release(const GgufTensor& tensor) const;
  std::string hash(const GgufTensor& tensor) const;  ///< of its bytes: MappedFile::hash()

 private:
  GgufFile() = default;
  const MappedFile* part_of(std::span<const std::byte> bytes) const;  // null for others
  const MappedFile& part_with(std::span<const std::byte> bytes) const;
  void add_part(const std::filesystem::path& path, std::size_t index, std::size_t count);

  std::vector<std::unique_ptr<const MappedFile>> parts_;
  GgufMetadata metadata_;
  std::uint32_t version_ = 3;
  std::vector<GgufTensor> tensors_;
  std::unordered_map<std::string, std::size_t> by_name_;
};

/// NAME-00001-of-00003.gguf: `stem` is NAME.
struct SplitName {
  std::string stem;
  std::uint32_t number = 1, count = 1;  ///< counted from 1
};
/// What the name of a part of a split says; empty for other names.
std::optional<SplitName> parse_split_name(const std::string& file_name);
std::string split_file_name(const SplitName& name);

}  // namespace nibble::model
