#include "export/probe_logits.h"

#include <numeric>

namespace nibble::exporting {

std::vector<float> logits_of(const model::Model& transformer, const std::vector<TokenId>& tokens, std::size_t rows) {
  const std::vector<std::size_t> starts{0, tokens.size()};
  std::vector<std::size_t> wanted(rows);
  std::iota(wanted.begin(), wanted.end(), tokens.size() - rows);
  std::vector<float> all;
  transformer.forward({tokens, starts}, wanted, [&](std::span<const std::size_t>, MatrixView<const float> logits) {
    for (std::size_t r = 0; r < logits.rows(); ++r) all.insert(all.end(), logits.row(r).begin(), logits.row(r).end());
  });
  return all;
}

}  // namespace nibble::exporting
