#include "quant/algo/segmentation.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/isa.h"
#include "quant/algo/segmentation_kernels.h"

namespace nibble::quant {
namespace {

namespace kernels = segmentation_kernels;
using kernels::kRows;
using BestCuts = decltype(&kernels::best_cuts_scalar);

constexpr int kLloydSteps = 8;  // per round: enough for the next round to be limited by its own cells

BestCuts best_cuts() {
#if NIBBLE_HAVE_X86_AVX512
  if (active_isa() >= Isa::kAvx512) return kernels::best_cuts_avx512;
#endif
#if NIBBLE_HAVE_X86_AVX2
  if (active_isa() >= Isa::kAvx2) return kernels::best_cuts_avx2;
#endif
  return kernels::best_cuts_scalar;
}

double square_over(double moment, double weight) { return moment * moment / weight; }

std::size_t padded(std::size_t count) { return (count + kRows - 1) / kRows * kRows; }

/// One layer's rows, all relative to the first cell of the previous layer's window. The best cut does not decrease from
/// row to row (the cost has the quadrangle property), so a block's result bounds those of the blocks on either side.
struct LayerSearch {
  BestCuts best_cuts;
  const double *weight, *moment, *previous;
  double least_weight;
  std::size_t first_row, rows;
  double* gain;
  std::int32_t* cut;

  void blocks(std::size_t begin, std::size_t end, std::size_t first, std::size_t last) const {
    if (begin == end) return;
    const std::size_t middle = begin + (end - begin) / 2, at = middle * kRows;
    best_cuts(weight, moment, previous, least_weight, first_row + at, first, last, gain + at, cut + at);
    const auto lowest = static_cast<std::size_t>(cut[at]);
    const auto highest = static_cast<std::size_t>(cut[std::min(at + kRows, rows) - 1]);
    blocks(begin, middle, first, lowest);
    blocks(middle + 1, end, highest, last);
  }
};

}  // namespace

/// About 4k cells, half of them alike in number of grains, half alike in width; every boundary may be anywhere.
void Segmenter::start(const Grains& grains, std::size_t k) {
  const std::size_t m = grains.size(), slices = 2 * k;
  borders_.clear();
  if (m <= 2 * slices) {
    for (std::size_t g = 0; g <= m; ++g) borders_.push_back(static_cast<std::uint32_t>(g));
  } else {
    const auto x = grains.x.begin();
    const double low = grains.x.front(), width = (grains.x[m] - low) / static_cast<double>(slices);
    for (std::size_t i = 0; i <= slices; ++i) {
      borders_.push_back(static_cast<std::uint32_t>(m * i / slices));
      const auto at = std::upper_bound(x, x + static_cast<std::ptrdiff_t>(m), low + width * static_cast<double>(i));
      borders_.push_back(static_cast<std::uint32_t>(at - x));
    }
    std::sort(borders_.begin(), borders_.end());
    borders_.erase(std::unique(borders_.begin(), borders_.end()), borders_.end());
  }
  windows_.first.assign(k - 1, 0);
  windows_.last.assign(k - 1, static_cast<std::uint32_t>(cells() - 1));
  bool all_exact = true;
  for (std::size_t c = 0; c < cells() && all_exact; ++c) all_exact = exact_cell(grains, c);
  if (!all_exact) return;
  for (std::size_t q = 0; q + 1 < k; ++q) {  // at least one value for each of the other clusters
    windows_.first[q] = static_cast<std::uint32_t>(q);
    windows_.last[q] = static_cast<std::uint32_t>(cells() + q - k);
  }
}

/// Spreads each cell's weight on its two end points so that the mean stays; end points of neighbours coincide. Entry c
/// sums everything up to the left end point of cell c, which is what lies left of a boundary inside the cell.
void Segmenter::place_end_points(const Grains& grains) {
  const std::size_t count = cells();
  left_.weight.resize(count + kRows);
  left_.moment.resize(count + kRows);
  mirrored_.weight.resize(count + kRows);
  mirrored_.moment.resize(count + kRows);
  for (std::size_t c = 0; c < count; ++c) {
    const std::size_t begin = borders_[c], end = borders_[c + 1];
    const double x0 = grains.x[begin], x1 = grains.x[end];
    const double weight = grains.weight[end] - grains.weight[begin];
    const double moment = grains.moment[end] - grains.moment[begin];
    if (exact_cell(grains, c) || !(x1 > x0)) {
      left_.weight[c] = grains.weight[end];
      left_.moment[c] = grains.moment[end];
    } else {
      const double left = std::clamp((x1 * weight - moment) / (x1 - x0), 0.0, weight);
      left_.weight[c] = grains.weight[begin] + left;
      left_.moment[c] = grains.moment[begin] + left * x0;
    }
    mirrored_.weight[count - 1 - c] = total_weight_ - left_.weight[c];
    mirrored_.moment[count - 1 - c] = total_moment_ - left_.moment[c];
  }
  for (Prefixes* prefixes : {&left_, &mirrored_}) {
    std::fill_n(prefixes->weight.end() - kRows, kRows, prefixes->weight[count - 1]);
    std::fill_n(prefixes->moment.end() - kRows, kRows, prefixes->moment[count - 1]);
  }
}

void Segmenter::run(const Prefixes& prefixes, const Windows& windows, Layers& layers) const {
  const std::size_t count = windows.first.size();
  layers.offset.assign(count + 1, 0);
  for (std::size_t q = 0; q < count; ++q)
    layers.offset[q + 1] = layers.offset[q] + padded(windows.last[q] - windows.first[q] + 1);
  layers.gain.resize(layers.offset.back());
  layers.cut.resize(layers.offset.back());
  for (std::size_t c = windows.first[0]; c <= windows.last[0]; ++c)
    layers.gain[c - windows.first[0]] = square_over(prefixes.moment[c], std::max(prefixes.weight[c], least_weight_));
  for (std::size_t q = 1; q < count; ++q) run_layer(prefixes, windows, q, layers);
}

void Segmenter::run_layer(const Prefixes& prefixes, const Windows& windows, std::size_t q, Layers& layers) const {
  const std::size_t base = windows.first[q - 1], rows = windows.last[q] - windows.first[q] + 1;
  const LayerSearch search{.best_cuts = best_cuts(),
                           .weight = prefixes.weight.data() + base,
                           .moment = prefixes.moment.data() + base,
                           .previous = layers.gain.data() + layers.offset[q - 1],
                           .least_weight = least_weight_,
                           .first_row = windows.first[q] - base,
                           .rows = rows,
                           .gain = layers.gain.data() + layers.offset[q],
                           .cut = layers.cut.data() + layers.offset[q]};
  search.blocks(0, padded(rows) / kRows, 0, windows.last[q - 1] - base);
}

/// The best clustering of the end points: the cell of every boundary, and its gain.
double Segmenter::trace_back(std::vector<std::uint32_t>& path) const {
  const std::size_t boundaries = windows_.first.size();
  path.resize(boundaries);
  double best = -std::numeric_limits<double>::infinity();
  const std::size_t last = boundaries - 1;
  for (std::size_t c = windows_.first[last]; c <= windows_.last[last]; ++c) {
    const double weight = std::max(total_weight_ - left_.weight[c], least_weight_);
    const double gain = forward_.gain[forward_.offset[last] + c - windows_.first[last]] +
                        square_over(total_moment_ - left_.moment[c], weight);
    if (gain > best) {
      best = gain;
      path[last] = static_cast<std::uint32_t>(c);
    }
  }
  for (std::size_t q = last; q > 0; --q) {
    const std::int32_t cut = forward_.cut[forward_.offset[q] + path[q] - windows_.first[q]];
    path[q - 1] = windows_.first[q - 1] + static_cast<std::uint32_t>(cut);
  }
  return best;
}

/// Boundaries of a path as cuts between grains: behind an exact cell; several in one cell share out its grains.
void Segmenter::cut_between_grains(const Grains& grains, const std::vector<std::uint32_t>& path) {
  cuts_.clear();
  for (std::size_t q = 0; q < path.size();) {
    const std::size_t c = path[q], begin = borders_[c], count = borders_[c + 1] - begin;
    std::size_t together = 1;
    while (q + together < path.size() && path[q + together] == c) ++together;
    for (std::size_t i = 1; i <= together; ++i)
      cuts_.push_back(exact_cell(grains, c) ? begin + 1 : begin + (count * i + together) / (together + 1));
    q += together;
  }
}

/// Lloyd's iteration from cuts_, between grains; keeps the best clustering seen in `best`.
void Segmenter::improve(const Grains& grains, Segmentation& best) {
  const std::size_t m = grains.size(), clusters = cuts_.size() + 1;
  means_.resize(clusters);
  for (int step = 0; step <= kLloydSteps; ++step) {
    double gain = 0.0;
    for (std::size_t q = 0; q < clusters; ++q) {
      const std::size_t begin = q == 0 ? 0 : cuts_[q - 1], end = q + 1 == clusters ? m : cuts_[q];
      const double weight = grains.weight[end] - grains.weight[begin];
      const double moment = grains.moment[end] - grains.moment[begin];
      means_[q] = weight > 0.0 ? moment / weight : grains.x[begin];
      if (weight > 0.0) gain += square_over(moment, weight);
    }
    if (step == 0 || gain > best.gain) {
      if (gain > best.gain) {
        best.gain = gain;
        best.cuts = cuts_;
      }
    } else {
      return;
    }
    auto from = grains.x.begin();
    for (std::size_t q = 0; q + 1 < clusters; ++q) {
      const double boundary = 0.5 * (means_[q] + means_[q + 1]);
      from = std::upper_bound(from, grains.x.begin() + static_cast<std::ptrdiff_t>(m), boundary);
      cuts_[q] = static_cast<std::size_t>(from - grains.x.begin());
    }
  }
}

/// Takes cells out of the windows through which no clustering reaches `least_gain`.
bool Segmenter::narrow(double least_gain) {
  const std::size_t boundaries = windows_.first.size(), count = cells();
  Windows& next = mirrored_windows_;  // free again once the backward gains are there
  for (std::size_t q = 0; q < boundaries; ++q) {
    const std::size_t r = boundaries - 1 - q, first = windows_.first[q], last = windows_.last[q];
    const double* forward = forward_.gain.data() + forward_.offset[q];
    const double* backward = backward_.gain.data() + backward_.offset[r];
    const auto reaches = [&](std::size_t c) { return forward[c - first] + backward[last - c] >= least_gain; };
    std::size_t low = first, high = last;
    while (low < high && !reaches(low)) ++low;
    while (high > low && !reaches(high)) --high;
    next.first[r] = static_cast<std::uint32_t>(low);
    next.last[r] = static_cast<std::uint32_t>(high);
  }
  std::reverse(next.first.begin(), next.first.end());
  std::reverse(next.last.begin(), next.last.end());
  for (std::size_t q = 1; q < boundaries; ++q) next.first[q] = std::max(next.first[q], next.first[q - 1]);
  for (std::size_t q = boundaries - 1; q > 0; --q) next.last[q - 1] = std::min(next.last[q - 1], next.last[q]);
  for (std::size_t q = 0; q < boundaries; ++q)
    if (next.first[q] > next.last[q]) return false;
  (void)count;
  std::swap(windows_, next);
  return true;
}

/// Halves the cells inside windows and merges runs of the others. False when there was nothing left to halve.
bool Segmenter::refine(const Grains& grains) {
  const std::size_t count = cells();
  next_borders_.clear();
  first_child_.resize(count);
  last_child_.resize(count);
  bool halved = false, previous_closed = false;
  std::size_t low = 0;  // the first window that does not end before cell c
  for (std::size_t c = 0; c < count; ++c) {
    while (low < windows_.last.size() && windows_.last[low] < c) ++low;
    const bool is_open = low < windows_.first.size() && windows_.first[low] <= c;
    if (is_open || !previous_closed) next_borders_.push_back(borders_[c]);
    first_child_[c] = last_child_[c] = static_cast<std::uint32_t>(next_borders_.size() - 1);
    const std::uint32_t grains_here = borders_[c + 1] - borders_[c];
    if (is_open && grains_here > 1) {
      next_borders_.push_back(borders_[c] + grains_here / 2);
      ++last_child_[c];
      halved = true;
    }
    previous_closed = !is_open;
  }
  next_borders_.push_back(static_cast<std::uint32_t>(grains.size()));
  if (!halved) return false;
  std::swap(borders_, next_borders_);
  for (std::size_t q = 0; q < windows_.first.size(); ++q) {
    windows_.first[q] = first_child_[windows_.first[q]];
    windows_.last[q] = last_child_[windows_.last[q]];
  }
  return true;
}

void Segmenter::mark_open(std::vector<std::uint8_t>& open) const {
  open.assign(borders_.back(), 0);
  for (std::size_t q = 0; q < windows_.first.size(); ++q) {
    const std::size_t begin = borders_[windows_.first[q]], end = borders_[windows_.last[q] + 1];
    std::fill(open.begin() + static_cast<std::ptrdiff_t>(begin), open.begin() + static_cast<std::ptrdiff_t>(end),
              std::uint8_t{1});
  }
}

Segmentation Segmenter::solve(const Grains& grains, std::size_t k, double gap) {
  total_weight_ = grains.weight.back();
  total_moment_ = grains.moment.back();
  // Smaller differences of prefix sums are rounding noise; without a floor, noise over nothing would be a huge gain.
  least_weight_ = std::ldexp(total_weight_, -56);
  start(grains, k);

  Segmentation best;
  best.gain = -1.0;
  best.gain_bound = std::numeric_limits<double>::infinity();
  while (true) {
    place_end_points(grains);
    run(left_, windows_, forward_);
    const double relaxed_gain = trace_back(path_);
    cut_between_grains(grains, path_);
    improve(grains, best);

    // First-order error of sum S²/W = sum W·mean² when prefix sums are off by a few units of their last place.
    double sum_mean = 0.0, sum_square = 0.0;
    for (std::size_t q = 0; q < k; ++q) {
      const std::size_t begin = q == 0 ? 0 : best.cuts[q - 1], end = q + 1 == k ? grains.size() : best.cuts[q];
      const double weight = grains.weight[end] - grains.weight[begin];
      const double mean = weight > 0.0 ? (grains.moment[end] - grains.moment[begin]) / weight : 0.0;
      sum_mean += std::abs(mean);
      sum_square += mean * mean;
    }
    const double allowance =
        std::numeric_limits<double>::epsilon() * (4.0 * std::sqrt(total_weight_ * grains.second_moment) * sum_mean +
                                                  2.0 * total_weight_ * sum_square + 2.0 * grains.second_moment);
    best.gain_bound = std::max(best.gain, std::min(best.gain_bound, relaxed_gain + allowance));

    best.optimal = std::all_of(path_.begin(), path_.end(), [&](std::uint32_t c) { return exact_cell(grains, c); });
    const double cost = grains.second_moment - best.gain;
    if (best.optimal || best.gain_bound - best.gain <= gap * cost) return best;

    const std::size_t boundaries = k - 1;
    mirrored_windows_.first.resize(boundaries);
    mirrored_windows_.last.resize(boundaries);
    for (std::size_t q = 0; q < boundaries; ++q) {
      mirrored_windows_.first[boundaries - 1 - q] = static_cast<std::uint32_t>(cells() - 1 - windows_.last[q]);
      mirrored_windows_.last[boundaries - 1 - q] = static_cast<std::uint32_t>(cells() - 1 - windows_.first[q]);
    }
    run(mirrored_, mirrored_windows_, backward_);
    narrow(best.gain - allowance);
    if (!refine(grains)) {
      mark_open(best.open);
      return best;
    }
  }
}

}  // namespace nibble::quant
