#include "eval/storage/entropy.h"

#include <array>
#include <cmath>
#include <numbers>

namespace nibble::eval {
namespace {

// Counts of byte-sized symbols; add up with their sizes as weights.
struct Histogram {
  std::array<std::uint32_t, 256> counts{};
  std::uint64_t total = 0;

  void add(std::uint32_t symbol) {
    ++counts[symbol];
    ++total;
  }
  /// total · H, in bits, bias-corrected; at most total · log2(cells).
  double bits() const {
    if (total == 0) return 0.0;
    double sum = 0.0;
    std::size_t cells = 0;
    for (const std::uint32_t count : counts) {
      if (count == 0) continue;
      ++cells;
      sum += count * std::log2(static_cast<double>(total) / count);
    }
    const double corrected = sum + 0.5 * static_cast<double>(cells - 1) / std::numbers::ln2;
    return std::min(corrected, static_cast<double>(total) * std::log2(static_cast<double>(cells)));
  }
};

// Conditional entropy of pairs (context, symbol).
class PairCounts {
 public:
  void add(std::uint32_t context, std::uint32_t symbol) { by_context_[context].add(symbol); }
  double bits_per_value() const {
    double bits = 0.0;
    std::uint64_t total = 0;
    for (const Histogram& histogram : by_context_) {
      bits += histogram.bits();
      total += histogram.total;
    }
    return total > 0 ? bits / static_cast<double>(total) : Entropies::kNone;
  }

 private:
  std::vector<Histogram> by_context_ = std::vector<Histogram>(256);
};

}  // namespace

Entropies entropies(std::span<const std::uint32_t> values, std::span<const RowSpan> rows, unsigned width) {
  Entropies result;
  const auto count = static_cast<double>(values.size());
  if (values.empty()) return result;
  for (unsigned shift = 0; shift < width; shift += 8) {
    Histogram histogram;
    for (const std::uint32_t v : values) histogram.add(v >> shift & 0xFFu);
    result.order0 += histogram.bits() / count;
  }
  if (width > 8) return result;

  PairCounts previous, above;
  double row_bits = 0.0;
  for (const RowSpan& row : rows) {
    const auto own = values.subspan(row.begin, row.size);
    Histogram histogram;
    for (std::size_t j = 0; j < own.size(); ++j) {
      histogram.add(own[j]);
      if (j > 0) previous.add(own[j - 1], own[j]);
      if (row.below_previous) above.add(values[row.begin - row.size + j], own[j]);
    }
    row_bits += histogram.bits();
  }
  result.given_previous = previous.bits_per_value();
  result.given_above = above.bits_per_value();
  result.within_row = row_bits / count;
  return result;
}

}  // namespace nibble::eval
