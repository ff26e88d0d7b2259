#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nibble::model {

/// What a parameter is for. The one vocabulary in which everything outside this folder speaks of weights: names of
/// tensors are a family's own business.
enum class Role {
  kEmbedding,
  kPositions,
  kEmbeddingNorm,
  kAttentionNorm,      ///< in front of the attention
  kAttentionPostNorm,  ///< over what the attention adds
  kMlpNorm,
  kMlpPostNorm,
  kQNorm,
  kKNorm,
  kQ,
  kK,
  kV,
  kO,
  kSinks,
  kRouter,
  kRouterCorrection,  ///< what is added to scores of experts where they are chosen
  kGate,
  kUp,
  kDown,
  kSharedExpertGate,  ///< one output, whose sigmoid scales the shared expert
  kFinalNorm,
  kHead,
};

/// "q", "attention_norm", …: what tables and graphs print.
std::string_view role_name(Role role);

/// Whether it is one of the linear layers inside blocks that recipes quantize by default: q, k, v, o, gate, up, down.
bool is_quantizable(Role role);

/// Some rows of a stored matrix, in order: row i is stored row  first + (i / run) · stride + i % run.
/// Contiguous rows are one run (run = stride = count); q of a matrix that is interleaved by heads has runs of head_dim;
/// gate in alternate rows has runs of 1 and a stride of 2.
struct RowSet {
  std::size_t first = 0, run = 1, stride = 1, count = 0;

  static RowSet contiguous(std::size_t first, std::size_t count) {
    const std::size_t run = count == 0 ? 1 : count;
    return {first, run, run, count};
  }
  std::size_t row(std::size_t i) const { return first + i / run * stride + i % run; }
  bool is_contiguous() const { return run == stride || count <= run; }
  bool operator==(const RowSet&) const = default;
};

/// Where a matrix (out, in) or a vector (out) lies in a checkpoint: the rows `part` of the matrix that `tensor` holds,
/// or of slice `slice` of a stack of such matrices.
struct Stored {
  std::string tensor;       ///< full name, with ".weight" where the file has it
  std::size_t rows = 0;     ///< of the whole stored matrix, as (out, in)
  std::size_t cols = 0;     ///< 0 for a vector
  bool transposed = false;  ///< the file holds it (in, out)
  std::size_t slices = 0;   ///< > 0: the tensor is a stack (slices, …)
  std::size_t slice = 0;
  RowSet part;

  bool is_vector() const { return cols == 0; }
  /// The rows are the whole tensor.
  bool is_whole() const { return slices == 0 && part.first == 0 && part.count == rows && part.is_contiguous(); }
  /// Shape that the tensor has in the file.
  std::vector<std::uint64_t> shape() const;
  bool operator==(const Stored&) const = default;
};

/// The whole of a tensor.
Stored whole_matrix(std::string tensor, std::size_t rows, std::size_t cols, bool transposed = false);
Stored whole_vector(std::string tensor, std::size_t size);

/// A matrix of the network, with its bias if it has one: a linear layer Y = X Wᵀ + b, an embedding, learned positions.
/// Fused tensors of a file are several of these, each with its own rows.
struct Parameter {
  Role role = Role::kQ;
  std::size_t block = 0;              ///< number of blocks for what stands outside them
  std::optional<std::size_t> expert;  ///< of a mixture's experts
  bool shared_expert = false;
  std::string module;  ///< its name in hooks, statistics, recipes, reports: "h.0.attn.c_attn.q", "lm_head"
  std::size_t out = 0, in = 0;
  Stored weight;
  Stored bias;          ///< where a bias is, or would be if one were added
  bool biased = false;  ///< the configuration says that there is one
  std::string
      input_of;        ///< module of the first linear layer of the block that is given the same X; empty if this is it
  std::string fed_by;  ///< module of the norm whose output is exactly X and goes to linear layers alone; or empty
  std::size_t norm_readers = 0;  ///< linear layers that `fed_by` feeds, this one among them
  bool writes_residual = false;
  /// The name that its weight has in quantized checkpoints: `module`, but for a tied head the embedding's.
  std::string weight_module;

  std::uint64_t weights() const { return static_cast<std::uint64_t>(out) * in; }
};

}  // namespace nibble::model
