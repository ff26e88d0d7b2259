#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "model/architecture/architecture.h"
#include "model/checkpoint/tensor_view.h"

namespace nibble::model {

/// A checkpoint directory in the shape of Hugging Face: config.json and model.safetensors or
/// model.safetensors.index.json with shards. Files are memory-mapped, never loaded whole.
///
/// Everything is checked before use with overflow-safe arithmetic: header size and JSON, duplicate keys, unknown
/// dtypes, overlapping or out-of-file offsets, shape x dtype against bytes, shard paths that leave the directory,
/// tensors that the index promises and no shard holds. Symbolic links to files are followed (download caches are made
/// of them). A tensor held by a shard but absent from the index is a tensor like any other. Every dtype opens; who
/// needs floats checks for them. A file that shrinks while mapped reads as zeros: call check_intact() after reading and
/// before using. Threads: const calls may run concurrently.
class Checkpoint {
 public:
  /// Opens `directory`. Throws FormatError naming file, what was expected and what was found.
  static std::shared_ptr<const Checkpoint> open(const std::filesystem::path& directory);
  virtual ~Checkpoint() = default;

  virtual const std::filesystem::path& directory() const = 0;
  /// What the model says of itself, as the text of a config.json: the file itself, or made of what another format has.
  virtual const std::string& metadata() const = 0;
  /// metadata() parsed, on first use. Throws FormatError as parse_architecture().
  virtual const Architecture& architecture() const = 0;
  virtual const std::vector<std::string>& tensor_names() const = 0;  ///< sorted
  virtual bool contains(const std::string& name) const = 0;
  /// Throws FormatError ("missing tensor …", with the nearest name) if absent. Cheap, but for copies of name and shape.
  virtual TensorView tensor(const std::string& name) const = 0;
  /// Bytes of all tensors.
  virtual std::uint64_t tensor_bytes() const = 0;
  /// Throws FormatError when bytes of `tensor` read so far may be wrong, because its file shrank or a read failed. The
  /// sources of weights.h call it themselves.
  virtual void check_intact(const TensorView& tensor) const = 0;
  /// Tells the kernel that a tensor's pages are not needed for a while (madvise); reading it later is fine.
  virtual void release(const TensorView& tensor) const = 0;
  /// Hash of config.json and of every tensor's name, dtype, shape and bytes in name order: the same for the same model
  /// however it is sharded. Computed on first use (reads all files once), then kept.
  virtual std::string fingerprint() const = 0;
};

}  // namespace nibble::model
