#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/matrix/dtype.h"
#include "model/architecture/architecture.h"
#include "model/checkpoint/tensor_view.h"
#include "model/checkpoint/weight_provider.h"

namespace nibble::model {

/// A matrix, or a stack of them, that lies in a file in a form of the file format's own, possibly cut up or joined with
/// others there: no array of numbers, but rows that the checkpoint decodes.
struct EncodedTensor {
  std::string storage;             ///< for people: "Q4_K", or "Q4_K + Q6_K" where parts differ
  std::uint64_t bytes = 0;         ///< that it takes in the files
  Stored place;                    ///< all of it: its shape, orientation and slices are those that its family gives it
  std::vector<TensorView> stored;  ///< where it lies: U8 (rows, bytes of a row), named as the file does
};

/// A model's weights and what it says of itself. Tensors go by the names of its family's checkpoints, whatever a file
/// calls them.
///
/// A directory in the shape of Hugging Face has config.json and model.safetensors or model.safetensors.index.json with
/// shards; model/gguf has another kind, model/open opens either. Files are memory-mapped, never loaded whole.
///
/// Everything is checked before use with overflow-safe arithmetic: header size and JSON, duplicate keys, unknown
/// dtypes, overlapping or out-of-file offsets, shape x dtype against bytes, shard paths that leave the directory,
/// tensors that the index promises and no shard holds. Symbolic links to files are followed (download caches are made
/// of them). A tensor held by a shard but absent from the index is a tensor like any other. Every dtype opens; who
/// needs floats checks for them. A file that shrinks while mapped reads as zeros: call check_intact() after reading and
/// before using. Threads: const calls may run concurrently.
class Checkpoint {
 public:
  /// Opens a directory of safetensors files. Throws FormatError naming file, what was expected and what was found.
  static std::shared_ptr<const Checkpoint> open(const std::filesystem::path& directory);
  virtual ~Checkpoint() = default;

  virtual const std::filesystem::path& directory() const = 0;  ///< or the file that it is
  /// What the model says of itself, as the text of a config.json: the file itself, or made of what another format has.
  virtual const std::string& metadata() const = 0;
  /// metadata() parsed, on first use. Throws FormatError as parse_architecture().
  virtual const Architecture& architecture() const = 0;
  virtual const std::vector<std::string>& tensor_names() const = 0;  ///< sorted
  virtual bool contains(const std::string& name) const = 0;
  /// Throws FormatError ("missing tensor …", with the nearest name) if absent, InvalidArgument if it is encoded().
  /// Cheap, but for copies of name and shape.
  virtual TensorView tensor(const std::string& name) const = 0;
  /// Not null where the tensor is no array of numbers.
  virtual const EncodedTensor* encoded(const std::string&) const { return nullptr; }
  /// Matrix `slice` of such a tensor as rows (out, in). Throws InvalidArgument for a name or slice that it is not.
  virtual std::shared_ptr<const WeightSource> decoded(const std::string& name, std::size_t slice) const;
  /// How its weights are read, where that is not as plain or narrow floats under the architecture's names; else null.
  virtual std::unique_ptr<WeightProvider> make_provider() const { return nullptr; }
  /// How many tensors the files hold besides, of a model that sees as well: its language model is all that is here
  /// (text_part.h).
  virtual std::size_t tensors_of_other_parts() const { return 0; }
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
