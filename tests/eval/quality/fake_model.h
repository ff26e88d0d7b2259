#pragma once

#include <algorithm>
#include <functional>
#include <stdexcept>
#include <vector>

#include "model/transformer/transformer.h"

namespace nibble::test {

/// A model whose logits are any function of the tokens up to and including the position: no network, all the protocol.
class FakeModel final : public model::Model {
 public:
  using Logits = std::function<std::vector<float>(std::span<const TokenId> prefix)>;

  FakeModel(std::size_t vocabulary, Logits logits) : logits_(std::move(logits)) {
    architecture_.vocabulary = vocabulary;
  }

  model::Architecture& mutable_config() { return architecture_; }
  const model::Architecture& architecture() const override { return architecture_; }
  std::size_t forward_calls() const { return forward_calls_; }

  /// Hands out rows in chunks of three, so that callers must follow where they are.
  void forward(const model::Batch& batch, std::span<const std::size_t> logit_rows, const model::LogitSink<float>& sink,
               const model::ForwardOptions&, const model::Hooks<float>*) const override {
    ++forward_calls_;
    constexpr std::size_t kChunk = 3;
    for (std::size_t begin = 0; begin < logit_rows.size(); begin += kChunk) {
      const auto rows = logit_rows.subspan(begin, std::min(kChunk, logit_rows.size() - begin));
      Matrix<float> logits(rows.size(), architecture_.vocabulary);
      for (std::size_t i = 0; i < rows.size(); ++i) {
        const auto values = logits_(prefix(batch, rows[i]));
        std::copy(values.begin(), values.end(), logits.row(i).begin());
      }
      sink(rows, logits);
    }
  }

  void extend(std::span<const TokenId>, model::KvCache<float>&, std::span<const std::size_t>,
              const model::LogitSink<float>&, const model::ForwardOptions&) const override {
    refuse();
  }
  void embed(const model::Batch&, MatrixView<float>) const override { refuse(); }
  void forward_block(std::size_t, const model::Batch&, MatrixView<float>, const model::ForwardOptions&,
                     const model::Hooks<float>*) const override {
    refuse();
  }
  void backward_block(std::size_t, const model::Batch&, MatrixView<const float>, MatrixView<float>,
                      const model::Hooks<float>*) const override {
    refuse();
  }
  void backward_head(MatrixView<const float>, std::span<const std::int64_t>, std::span<const float>, std::span<float>,
                     MatrixView<float>, const model::Hooks<float>*) const override {
    refuse();
  }
  void forward_head(MatrixView<const float>, std::span<const std::size_t>,
                    const model::LogitSink<float>&) const override {
    refuse();
  }
  void backward_logits(MatrixView<const float>, std::span<const std::size_t>, const model::LogitGradient<float>&,
                       MatrixView<float>, const model::Hooks<float>*) const override {
    refuse();
  }
  void release_block(std::size_t) const override { refuse(); }

 private:
  static std::span<const TokenId> prefix(const model::Batch& batch, std::size_t row) {
    const auto next = std::upper_bound(batch.starts.begin(), batch.starts.end(), row);
    const std::size_t start = *std::prev(next);
    return batch.tokens.subspan(start, row - start + 1);
  }
  [[noreturn]] static void refuse() { throw std::logic_error("FakeModel: only forward() is there"); }

  model::Architecture architecture_;
  Logits logits_;
  mutable std::size_t forward_calls_ = 0;
};

}  // namespace nibble::test
