#include "quant/algo/windows/window_rounding.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <optional>
#include <vector>

#include "core/error.h"
#include "core/machine/thread_pool.h"
#include "quant/format/windowed_codes.h"

namespace nibble::quant {
namespace {

// Rows of a piece of a stream that is searched anew while the rest stays: longer ones gain no more, shorter ones are
// too stiff between windows that are given (docs/results/curvature.md).
constexpr std::size_t kSearchedRows = 32, kLeastSearchedRows = 4;

// Rows [first, first + count) of streams whose windows before them are known.
class LaterWindows final : public BasicColumnRounding<std::uint16_t> {
 public:
  LaterWindows(std::span<const float> palette, unsigned bits, unsigned window_bits, std::size_t first,
               std::span<const float> scales, MatrixView<const std::uint16_t> codes, std::span<const float> weights)
      : palette_(palette), first_(first), scales_(scales), codes_(codes), roots_(weights.begin(), weights.end()) {
    for (float& root : roots_) root = std::sqrt(root);
    for (std::size_t t = 0; t < thread_count(); ++t) searches_.emplace_back(palette, bits, window_bits);
  }

  bool whole_columns() const override { return true; }
  void round(std::size_t column, std::size_t first_row, std::span<const float> values, std::uint16_t* codes,
             float* decoded) const override {
    NIBBLE_REQUIRE(first_row == 0 && values.size() == roots_.size(), InvalidArgument,
                   "WindowRounding: rows [{}, {}) of {}: windows overlap, so a column is rounded whole", first_row,
                   first_row + values.size(), roots_.size());
    thread_local std::vector<float> targets, factors;
    targets.resize(roots_.size());
    factors.resize(roots_.size());
    for (std::size_t i = 0; i < roots_.size(); ++i) {
      targets[i] = values[i] * roots_[i];
      factors[i] = (scales_.empty() ? 1.0f : scales_[i]) * roots_[i];
    }
    WindowSearch& search = searches_[thread_index()];
    search.search_between(first_ == 0 ? std::nullopt : std::optional(codes_(first_ - 1, column)), std::nullopt, targets,
                          factors, {codes, roots_.size()});
    decode(column, 0, {codes, roots_.size()}, decoded);
  }
  void decode(std::size_t /*column*/, std::size_t first_row, std::span<const std::uint16_t> codes,
              float* decoded) const override {
    for (std::size_t r = 0; r < codes.size(); ++r)
      decoded[r] = (scales_.empty() ? 1.0f : scales_[first_row + r]) * palette_[codes[r]];
  }

 private:
  std::span<const float> palette_;
  std::size_t first_;
  std::span<const float> scales_;  // (count), or empty
  MatrixView<const std::uint16_t> codes_;
  std::vector<float> roots_;  // (count): of the weights
  mutable std::vector<WindowSearch> searches_;
};

}  // namespace

WindowRounding::WindowRounding(std::span<const float> palette, unsigned bits, std::size_t rows,
                               std::span<const float> scales, MatrixView<const float> weights)
    : palette_(palette),
      bits_(bits),
      window_bits_(static_cast<unsigned>(std::bit_width(palette.size()) - 1)),
      rows_(rows),
      scales_(scales),
      weights_(weights) {
  NIBBLE_REQUIRE(rows >= 1 && (scales.empty() || scales.size() == rows) && (weights.empty() || weights.rows() == rows),
                 InvalidArgument, "WindowRounding: {} rows, {} scales and weights ({}, {})", rows, scales.size(),
                 weights.rows(), weights.cols());
  for (std::size_t t = 0; t < thread_count(); ++t) searches_.emplace_back(palette, bits, window_bits_);
}

void WindowRounding::round(std::size_t column, std::size_t first_row, std::span<const float> values,
                           std::uint16_t* codes, float* decoded) const {
  NIBBLE_REQUIRE(first_row == 0 && values.size() == rows_, InvalidArgument,
                 "WindowRounding: rows [{}, {}) of {}: windows overlap, so a column is rounded whole", first_row,
                 first_row + values.size(), rows_);
  thread_local std::vector<float> targets, factors;
  targets.resize(rows_);
  factors.resize(rows_);
  for (std::size_t i = 0; i < rows_; ++i) {
    const float root = weights_.empty() ? 1.0f : std::sqrt(weights_(i, column));
    targets[i] = values[i] * root;
    factors[i] = scale_of(i) * root;
  }
  searches_[thread_index()].search(targets, factors, {codes, rows_});
  decode(column, 0, {codes, rows_}, decoded);
}

void WindowRounding::decode(std::size_t /*column*/, std::size_t first_row, std::span<const std::uint16_t> codes,
                            float* decoded) const {
  for (std::size_t r = 0; r < codes.size(); ++r) decoded[r] = scale_of(first_row + r) * palette_[codes[r]];
}

std::unique_ptr<BasicColumnRounding<std::uint16_t>> WindowRounding::rows(std::size_t first, std::size_t count,
                                                                         MatrixView<const std::uint16_t> codes,
                                                                         std::span<const float> weights) {
  return std::make_unique<LaterWindows>(palette_, bits_, window_bits_, first,
                                        scales_.empty() ? scales_ : scales_.subspan(first, count), codes, weights);
}

std::size_t WindowRounding::rows_ahead() const { return 2 * ((window_bits_ - 1) / bits_); }

void WindowRounding::improve(std::size_t /*column*/, CoupledColumn& loss, std::span<std::uint16_t> codes,
                             std::span<float> values) const {
  for (std::size_t first = 0;; first += kSearchedRows / 2) {
    const std::size_t count = std::min(kSearchedRows, rows_ - first);
    improve_piece(first, count, loss, codes, values);
    if (first + count == rows_) break;
  }
}

void WindowRounding::improve_piece(std::size_t first, std::size_t count, CoupledColumn& loss,
                                   std::span<std::uint16_t> codes, std::span<float> values) const {
  std::array<float, kSearchedRows> targets, factors, changes;
  std::array<std::uint16_t, kSearchedRows> found;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t row = first + i;
    const double curvature = loss.coupling(row, row), root = std::sqrt(std::max(curvature, 0.0));
    const double target = curvature > 0.0 ? static_cast<double>(values[row]) - loss.slope(row) / curvature : 0.0;
    targets[i] = static_cast<float>(target * root);
    factors[i] = static_cast<float>(static_cast<double>(scale_of(row)) * root);
  }
  searches_[thread_index()].search_between(first == 0 ? std::nullopt : std::optional(codes[first - 1]),
                                           first + count == rows_ ? std::nullopt : std::optional(codes[first + count]),
                                           std::span(targets).first(count), std::span(factors).first(count),
                                           std::span(found).first(count));
  double change = 0.0;
  std::array<std::size_t, kSearchedRows> moved;
  std::size_t moves = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t row = first + i;
    changes[i] = scale_of(row) * palette_[found[i]] - values[row];
    if (changes[i] == 0.0f) continue;
    const auto x = static_cast<double>(changes[i]);
    double slope = 2.0 * loss.slope(row) + loss.coupling(row, row) * x;
    for (const std::size_t k : std::span(moved).first(moves))
      slope += 2.0 * loss.coupling(row, first + k) * static_cast<double>(changes[k]);
    change += x * slope;
    moved[moves++] = i;
  }
  if (moves == 0) return;
  if (!(change < 0.0)) {  // rows of the piece are coupled too much to be searched as if they were not
    if (count <= kLeastSearchedRows) return;
    improve_piece(first, count / 2, loss, codes, values);
    return improve_piece(first + count / 2, count - count / 2, loss, codes, values);
  }
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t row = first + i;
    codes[row] = found[i];
    if (changes[i] == 0.0f) continue;
    loss.move(row, changes[i]);
    values[row] = scale_of(row) * palette_[found[i]];
  }
}

}  // namespace nibble::quant
