#pragma once

#include <algorithm>
#include <functional>
#include <vector>

#include "tests/model/transformer/refusing_model.h"

namespace nibble::test {

/// A model whose logits are any function of the tokens up to and including the position: no network, all the protocol.
class FakeModel final : public RefusingModel {
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

 private:
  static std::span<const TokenId> prefix(const model::Batch& batch, std::size_t row) {
    const auto next = std::upper_bound(batch.starts.begin(), batch.starts.end(), row);
    const std::size_t start = *std::prev(next);
    return batch.tokens.subspan(start, row - start + 1);
  }

  model::Architecture architecture_;
  Logits logits_;
  mutable std::size_t forward_calls_ = 0;
};

}  // namespace nibble::test
