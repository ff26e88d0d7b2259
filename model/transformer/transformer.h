#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "core/matrix/linear_op.h"
#include "core/matrix/matrix_view.h"
#include "core/token_id.h"
#include "model/architecture/architecture.h"
#include "model/checkpoint/weights.h"
#include "model/transformer/hooks.h"

namespace nibble::model {

template <class T>
class KvCache;

/// Independent sequences of tokens, one after the other: sequence s is tokens [starts[s], starts[s+1]).
/// Positions begin at 0 in each.
struct Batch {
  std::span<const TokenId> tokens;
  std::span<const std::size_t> starts;  ///< ascending, first 0, last tokens.size(): number of sequences + 1 entries
};

/// How attention is computed: `decomposed` materialises the scores of a head, `fused` never does (online softmax over
/// tiles).
enum class Attention { kDecomposed, kFused };

struct ForwardOptions {
  Attention attention = Attention::kFused;
};

/// Receives logits (rows, vocabulary) for batch rows rows[0…]: called on the caller's thread, in ascending order, in
/// chunks.
template <class T>
using LogitSink = std::function<void(std::span<const std::size_t> rows, MatrixView<const T> logits)>;

/// Turns logits (rows, vocabulary) of batch rows rows[0…] into the gradient of a loss with respect to them, in place:
/// called as a LogitSink is.
template <class T>
using LogitGradient = std::function<void(std::span<const std::size_t> rows, MatrixView<T> logits)>;

/// A decoder-only transformer, whatever model/architecture describes, over linear layers of any storage.
///
/// T is float in the product; double and std::complex<double> run the very same code for checks.
/// Memory, kept between calls for the largest batch seen: forward_floats_per_token() or backward_floats_per_token()
/// values of T per token (model/architecture/architecture.h). For GPT-2 and Llama, with n = 1 or 2, these are
///   forward   2 hidden + 2 q_width + 2 kv_width + n intermediate,
///   backward  5 hidden + 4 q_width + 4 kv_width + (n + 2) intermediate + heads;
/// and at most 32 MB of logits, which exist only in chunks of rows. The weights stay where they are
/// (core/matrix/linear_op.h). Results: the number of threads changes no bit. A sequence alone and in a batch agree to
/// rounding: kernels are chosen by how many rows there are, of the batch, of a tile's end, of those that a mixture's
/// expert gets, and some sum in another order. Threads: const calls use the thread pool inside; several transformers
/// may be used at once, one call per object at a time.
template <class T>
class Transformer {
 public:
  virtual ~Transformer() = default;
  virtual const Architecture& architecture() const = 0;

  /// Runs all blocks over `batch` and hands the logits of the batch rows `logit_rows` (ascending) to `sink`.
  /// Throws InvalidArgument: a token id >= vocabulary (with its index), a sequence longer than max_positions for
  /// learned positions, malformed starts. NumericalError when logits hold NaN.
  virtual void forward(const Batch& batch, std::span<const std::size_t> logit_rows, const LogitSink<T>& sink,
                       const ForwardOptions& options = {}, const Hooks<T>* hooks = nullptr) const = 0;

  /// Runs `tokens` as the positions behind cache.length() and hands the logits of the rows `logit_rows` (ascending,
  /// counted within `tokens`) to `sink`. The cache has kept the new keys and values then; they count once the caller
  /// calls cache.advance(). A Sequence (cache/sequence.h) does that, for every kind of cache. Throws InvalidArgument
  /// when the cache has no room, and as forward().
  virtual void extend(std::span<const TokenId> tokens, KvCache<T>& cache, std::span<const std::size_t> logit_rows,
                      const LogitSink<T>& sink, const ForwardOptions& options = {}) const = 0;

  // The pieces, for work that goes block by block (calibration): x is the residual stream (tokens, hidden).
  virtual void embed(const Batch& batch, MatrixView<T> x) const = 0;
  virtual void forward_block(std::size_t block, const Batch& batch, MatrixView<T> x, const ForwardOptions& options,
                             const Hooks<T>* hooks) const = 0;
  /// Recomputes the block from its input `x_in`, and turns `dx` from dL/d(output) into dL/d(input). Cost: about 8/3 of
  /// forward_block() (GPT-2: 2/3 of it to recompute, one product per linear layer, the attention's five); a norm behind
  /// the MLP adds its last product to what is recomputed.
  virtual void backward_block(std::size_t block, const Batch& batch, MatrixView<const T> x_in, MatrixView<T> dx,
                              const Hooks<T>* hooks) const = 0;
  /// Final norm and head, forward and back. For every row with a target (targets[row] >= 0) the loss is -ln p(target);
  /// `losses` gets it per row (0 elsewhere), and dx (tokens, hidden) becomes dL/dx for L = sum of row_weights[row] *
  /// losses[row]. Logits are made and dropped in row chunks.
  virtual void backward_head(MatrixView<const T> x, std::span<const std::int64_t> targets,
                             std::span<const T> row_weights, std::span<T> losses, MatrixView<T> dx,
                             const Hooks<T>* hooks) const = 0;
  /// Final norm and head over x (tokens, hidden), which forward() would have in front of them.
  virtual void forward_head(MatrixView<const T> x, std::span<const std::size_t> logit_rows,
                            const LogitSink<T>& sink) const = 0;
  /// backward_head() for any loss of the logits of `logit_rows` (ascending): dx (tokens, hidden) becomes dL/dx, 0 in
  /// other rows.
  virtual void backward_logits(MatrixView<const T> x, std::span<const std::size_t> logit_rows,
                               const LogitGradient<T>& gradient, MatrixView<T> dx, const Hooks<T>* hooks) const = 0;
  /// Mapped weights of a block (or of the head: block == layers) may leave memory.
  virtual void release_block(std::size_t block) const = 0;
};

using Model = Transformer<float>;

/// Builds the float transformer over `weights`. Throws FormatError for missing tensors or wrong shapes, by name.
std::unique_ptr<Model> make_model(const Architecture& architecture, const WeightProvider& weights);
/// The same network in another scalar, all weights decoded and held densely: for checks on small models.
template <class T>
std::unique_ptr<Transformer<T>> make_dense_transformer(const Architecture& architecture, const WeightProvider& weights);

}  // namespace nibble::model
