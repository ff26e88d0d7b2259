#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/files/file_lock.h"

namespace nibble {

/// A directory that appears under its name only when it is complete. It is built as NAME.partial, which outlives a
/// killed process: a later run with the same fingerprint finds what was finished under scratch(); another fingerprint,
/// or none, starts afresh.
///
/// Throws InvalidArgument: NAME exists and `overwrite` is false, or is not a model directory (only config.json,
/// weights and the like are ever replaced); NAME.partial or NAME.replaced is there and is not one of ours. FormatError:
/// the file system says no, or another process is building the same directory.
class OutputDirectory {
 public:
  /// `fingerprint` of everything that the files depend on; none for work that no later run goes on with.
  OutputDirectory(const std::filesystem::path& path, bool overwrite,
                  const std::optional<std::string>& fingerprint = std::nullopt);
  ~OutputDirectory();
  OutputDirectory(const OutputDirectory&) = delete;
  OutputDirectory& operator=(const OutputDirectory&) = delete;

  /// Where the files of the finished directory go.
  const std::filesystem::path& partial() const { return partial_; }
  /// Where intermediate files go; removed by publish().
  std::filesystem::path scratch() const { return partial_ / "scratch"; }
  /// Writes a file into partial(), flushed to disk.
  void add_text(std::string_view name, std::string_view text) const;
  /// Removes all of it, for work that a later run could not go on with.
  void discard();
  /// Everything is written: removes scratch files, flushes, and gives the directory its name. Throws as the constructor
  /// does for what has come under NAME meanwhile, and leaves the work to a later run then.
  void publish();

 private:
  void require_free_name() const;

  std::filesystem::path path_, partial_, replaced_;
  bool overwrite_;
  std::optional<DirectoryLock> directory_lock_;  // stays when publish() has removed the file and changes the name
  std::optional<FileLock> lock_;
};

/// Throws InvalidArgument where one of the files or directories that work reads is the directory `output`, or lies in
/// it: it would go with what is replaced.
void require_inputs_outside(const std::filesystem::path& output, std::span<const std::filesystem::path> inputs);

/// Refuses, before any work, a model of whose companions some may not be read. Throws FormatError.
void require_companions(const std::filesystem::path& model);

/// Copies what travels along with a model, where it is there, flushed: the tokenizer's files, licence, README.
void copy_companions(const std::filesystem::path& model, const std::filesystem::path& directory);

}  // namespace nibble
