#pragma once

#include <algorithm>
#include <numeric>
#include <span>
#include <vector>

#include "model/transformer/cache/sequence.h"
#include "model/transformer/transformer.h"

namespace nibble::test {

/// Logits of all rows of a batch of sequences with these lengths, from one forward().
template <class T>
Matrix<T> logits_of(const model::Transformer<T>& model, std::span<const TokenId> tokens,
                    const std::vector<std::size_t>& lengths, const model::ForwardOptions& options = {},
                    const model::Hooks<T>* hooks = nullptr) {
  Matrix<T> logits(tokens.size(), model.architecture().vocabulary);
  std::vector<std::size_t> starts{0}, rows(tokens.size());
  for (const std::size_t length : lengths) starts.push_back(starts.back() + length);
  std::iota(rows.begin(), rows.end(), std::size_t{0});
  model.forward(
      {tokens, starts}, rows,
      [&](std::span<const std::size_t> chunk, MatrixView<const T> values) {
        for (std::size_t i = 0; i < chunk.size(); ++i)
          std::copy_n(values.row(i).data(), values.cols(), logits.row(chunk[i]).data());
      },
      options, hooks);
  return logits;
}

/// The same of one sequence.
template <class T>
Matrix<T> logits_of(const model::Transformer<T>& model, std::span<const TokenId> tokens,
                    const model::ForwardOptions& options = {}) {
  return logits_of(model, tokens, std::vector<std::size_t>{tokens.size()}, options);
}

/// The same from a sequence that starts empty and grows by `steps` tokens, one after the other and again from the first
/// step, until all are in.
template <class T>
Matrix<T> extended_logits_of(model::Sequence<T>& sequence, std::span<const TokenId> tokens,
                             const std::vector<std::size_t>& steps, std::size_t vocabulary,
                             const model::ForwardOptions& options = {}) {
  Matrix<T> logits(tokens.size(), vocabulary);
  for (std::size_t first = 0, call = 0; first < tokens.size(); ++call) {
    const auto part = tokens.subspan(first, std::min(steps[call % steps.size()], tokens.size() - first));
    sequence.extend(
        part, part.size(),
        [&](std::span<const std::size_t> chunk, MatrixView<const T> values) {
          for (std::size_t i = 0; i < chunk.size(); ++i)
            std::copy_n(values.row(i).data(), values.cols(), logits.row(first + chunk[i]).data());
        },
        options);
    first += part.size();
  }
  return logits;
}

template <class T>
Matrix<T> extended_logits_of(const model::Transformer<T>& model, std::span<const TokenId> tokens, std::size_t step,
                             const model::ForwardOptions& options = {}) {
  const auto sequence = model::make_sequence(model, {.capacity = tokens.size()});
  return extended_logits_of(*sequence, tokens, {step}, model.architecture().vocabulary, options);
}

}  // namespace nibble::test
