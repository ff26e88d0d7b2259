#pragma once

#include <optional>
#include <vector>

#include "model/transformer/layers/block.h"
#include "model/transformer/layers/embedding.h"
#include "model/transformer/layers/head.h"
#include "model/transformer/transformer.h"

namespace nibble::model {

/// The parts of a network, put together by build_transformer().
template <class T>
struct DecoderParts {
  Architecture architecture;
  Embedding<T> embedding;
  std::vector<Block<T>> blocks;
  Head<T> head;
};

/// The one implementation of Transformer: embedding, blocks, head. Scratch memory is kept between calls.
template <class T>
class Decoder final : public Transformer<T> {
 public:
  explicit Decoder(DecoderParts<T> parts);
  const Architecture& architecture() const override { return parts_.architecture; }
  void forward(const Batch& batch, std::span<const std::size_t> logit_rows, const LogitSink<T>& sink,
               const ForwardOptions& options, const Hooks<T>* hooks) const override;
  void extend(std::span<const TokenId> tokens, KvCache<T>& cache, std::span<const std::size_t> logit_rows,
              const LogitSink<T>& sink, const ForwardOptions& options) const override;
  void embed(const Batch& batch, MatrixView<T> x) const override;
  void forward_block(std::size_t block, const Batch& batch, MatrixView<T> x, const ForwardOptions& options,
                     const Hooks<T>* hooks) const override;
  void backward_block(std::size_t block, const Batch& batch, MatrixView<const T> x_in, MatrixView<T> dx,
                      const Hooks<T>* hooks) const override;
  void backward_head(MatrixView<const T> x, std::span<const std::int64_t> targets, std::span<const T> row_weights,
                     std::span<T> losses, MatrixView<T> dx, const Hooks<T>* hooks) const override;
  void forward_head(MatrixView<const T> x, std::span<const std::size_t> logit_rows,
                    const LogitSink<T>& sink) const override;
  void backward_logits(MatrixView<const T> x, std::span<const std::size_t> logit_rows, const LogitGradient<T>& gradient,
                       MatrixView<T> dx, const Hooks<T>* hooks) const override;
  void release_block(std::size_t block) const override;
  /// Values of T that calls so far left allocated for blocks: per token forward_floats_per_token() of them, or
  /// backward_floats_per_token().
  std::size_t activations() const { return scratch_.residual.size() + scratch_.block.size(); }

 private:
  /// The rotary embedding of a block, or null.
  Rotary<T>* rotary(std::size_t block) const;
  bool run_blocks(const Layout& layout, MatrixView<T> x, const ForwardOptions& options, KvCache<T>* cache,
                  const Hooks<T>* hooks) const;

  // One call per object at a time, so what calls leave behind for the next one may live here.
  struct Scratch {
    Buffer<T> residual;
    BlockScratch<T> block;
    typename Head<T>::Scratch head;
    std::vector<Rotary<T>> rotaries;  // one for all blocks that have the same
  };
  DecoderParts<T> parts_;
  std::vector<std::optional<std::size_t>> rotary_of_block_;  // which of the rotaries
  mutable Scratch scratch_;
};

}  // namespace nibble::model
