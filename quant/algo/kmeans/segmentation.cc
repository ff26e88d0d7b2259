#include "quant/algo/kmeans/segmentation.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "quant/algo/kmeans/segmentation_kernels.h"

namespace nibble::quant {
namespace {

namespace kernels = segmentation_kernels;
using kernels::kRows;
using BestCuts = decltype(&kernels::best_cuts_scalar);

constexpr int kLloydSteps = 8;  // per round: enough for the next round to be limited by its own cells

double square_over(double moment, double weight) { return moment * moment / weight; }

TwiceSum difference(TwiceSum a, TwiceSum b) {
  a.add(-b.high);
  a.low -= b.low;
  return a;
}

std::size_t padded(std::size_t count) { return (count + kRows - 1) / kRows * kRows; }

/// One layer's rows, all relative to the first cell of the previous layer's window. The best cut does not decrease from
/// row to row (the cost has the quadrangle property), so a block's result bounds those of the blocks on either side.
struct LayerSearch {
  BestCuts best_cuts;
  kernels::Prefixes sums;
  const double* previous;
  double least_weight;
  std::size_t first_row, rows;
  double* gain;
  std::int32_t* cut;

  void blocks(std::size_t begin, std::size_t end, std::size_t first, std::size_t last) const {
    if (begin == end) return;
    const std::size_t middle = begin + (end - begin) / 2, at = middle * kRows;
    best_cuts(sums, previous, least_weight, first_row + at, first, last, gain + at, cut + at);
    const auto lowest = static_cast<std::size_t>(cut[at]);
    const auto highest = static_cast<std::size_t>(cut[std::min(at + kRows, rows) - 1]);
    blocks(begin, middle, first, lowest);
    blocks(middle + 1, end, highest, last);
  }
};

}  // namespace

double gain_of(const Grains& grains, const std::vector<std::size_t>& cuts) {
  double gain = 0.0;
  for (std::size_t q = 0; q <= cuts.size(); ++q) {
    const std::size_t begin = q == 0 ? 0 : cuts[q - 1], end = q == cuts.size() ? grains.size() : cuts[q];
    const double weight = grains.weight.between(begin, end);
    if (weight > 0.0) gain += square_over(grains.moment.between(begin, end), weight);
  }
  return gain;
}

double rounding_allowance(const Grains& grains, std::size_t k) {
  return 0x1p-53 * (static_cast<double>(k) + 8.0) * grains.second_moment;
}

/// Where to divide a cell of several grains: in the middle, or before its last grain where the way from there to the
/// cell's end is most of its width (that grain, alone, then keeps the others' end point near).
std::size_t Segmenter::middle_of(const Grains& grains, std::size_t begin, std::size_t end) {
  const bool wide_end = grains.x[end] - grains.x[end - 1] > 0.5 * (grains.x[end] - grains.x[begin]);
  return wide_end ? end - 1 : begin + (end - begin) / 2;
}

/// About 4k cells, made by dividing at half its width the one that spreading to end points would widen most: for smooth
/// densities this gives every cluster about as many. Every boundary may be anywhere.
void Segmenter::start(const Grains& grains, std::size_t k) {
  heap_.clear();
  const auto push = [&](std::size_t begin, std::size_t end) {
    double spread = 0.0;  // weight · (mean - x0) · (x1 - mean): what end points add to the second moment, at most
    if (end - begin > 1) {
      const double weight = grains.weight.between(begin, end), moment = grains.moment.between(begin, end);
      if (weight > 0.0) spread = (moment - weight * grains.x[begin]) * (grains.x[end] - moment / weight);
    }
    heap_.push_back({spread, static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end)});
    std::push_heap(heap_.begin(), heap_.end());
  };
  push(0, grains.size());
  while (heap_.size() < 4 * k && heap_.front().spread > 0.0) {
    const std::size_t begin = heap_.front().begin, end = heap_.front().end;
    std::pop_heap(heap_.begin(), heap_.end());
    heap_.pop_back();
    std::size_t middle = middle_of(grains, begin, end);
    if (middle != end - 1) {
      const auto x = grains.x.begin();
      const auto at =
          std::upper_bound(x + static_cast<std::ptrdiff_t>(begin) + 1, x + static_cast<std::ptrdiff_t>(end) - 1,
                           0.5 * (grains.x[begin] + grains.x[end]));
      middle = static_cast<std::size_t>(at - x);
    }
    push(begin, middle);
    push(middle, end);
  }
  borders_.clear();
  for (const Splittable& cell : heap_) borders_.push_back(cell.begin);
  borders_.push_back(static_cast<std::uint32_t>(grains.size()));
  std::sort(borders_.begin(), borders_.end());

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
  for (EndPoints* points : {&points_, &mirrored_}) {
    points->weight.resize(count + kRows);
    points->moment.resize(count + kRows);
  }
  const TwiceSum total_weight = grains.weight.at(grains.size()), total_moment = grains.moment.at(grains.size());
  for (std::size_t c = 0; c < count; ++c) {
    const std::size_t begin = borders_[c], end = borders_[c + 1];
    const double x0 = grains.x[begin], x1 = grains.x[end];
    TwiceSum weight = grains.weight.at(end), moment = grains.moment.at(end);
    if (!exact_cell(grains, c) && x1 > x0) {
      const double cell_weight = grains.weight.between(begin, end), cell_moment = grains.moment.between(begin, end);
      const double left = std::clamp((x1 * cell_weight - cell_moment) / (x1 - x0), 0.0, cell_weight);
      weight = grains.weight.at(begin);
      weight.add(left);
      moment = grains.moment.at(begin);
      moment.add(left * x0);
    }
    points_.weight.set(c, weight);
    points_.moment.set(c, moment);
    mirrored_.weight.set(count - 1 - c, difference(total_weight, weight));
    mirrored_.moment.set(count - 1 - c, difference(total_moment, moment));
  }
  for (EndPoints* points : {&points_, &mirrored_}) {
    for (std::size_t pad = count; pad < count + kRows; ++pad) {
      points->weight.set(pad, points->weight.at(count - 1));
      points->moment.set(pad, points->moment.at(count - 1));
    }
  }
}

void Segmenter::run(const EndPoints& points, const Windows& windows, Layers& layers) const {
  const std::size_t count = windows.first.size();
  layers.offset.assign(count + 1, 0);
  for (std::size_t q = 0; q < count; ++q)
    layers.offset[q + 1] = layers.offset[q] + padded(windows.last[q] - windows.first[q] + 1);
  layers.gain.resize(layers.offset.back());
  layers.cut.resize(layers.offset.back());
  for (std::size_t c = windows.first[0]; c <= windows.last[0]; ++c)
    layers.gain[c - windows.first[0]] =
        square_over(points.moment.at(c).value(), std::max(points.weight.at(c).value(), least_weight_));
  for (std::size_t q = 1; q < count; ++q) run_layer(points, windows, q, layers);
}

void Segmenter::run_layer(const EndPoints& points, const Windows& windows, std::size_t q, Layers& layers) const {
  const std::size_t base = windows.first[q - 1], rows = windows.last[q] - windows.first[q] + 1;
  const LayerSearch search{.best_cuts = kernels::active(),
                           .sums = {points.weight.high.data() + base, points.weight.low.data() + base,
                                    points.moment.high.data() + base, points.moment.low.data() + base},
                           .previous = layers.gain.data() + layers.offset[q - 1],
                           .least_weight = least_weight_,
                           .first_row = windows.first[q] - base,
                           .rows = rows,
                           .gain = layers.gain.data() + layers.offset[q],
                           .cut = layers.cut.data() + layers.offset[q]};
  search.blocks(0, padded(rows) / kRows, 0, windows.last[q - 1] - base);
}

/// The best clustering of the end points: the cell of every boundary, and its gain.
double Segmenter::trace_back() {
  const std::size_t boundaries = windows_.first.size(), count = cells();
  path_.resize(boundaries);
  double best = -std::numeric_limits<double>::infinity();
  const std::size_t last = boundaries - 1;
  for (std::size_t c = windows_.first[last]; c <= windows_.last[last]; ++c) {
    const double weight = std::max(mirrored_.weight.at(count - 1 - c).value(), least_weight_);
    const double gain = forward_.gain[forward_.offset[last] + c - windows_.first[last]] +
                        square_over(mirrored_.moment.at(count - 1 - c).value(), weight);
    if (gain > best) {
      best = gain;
      path_[last] = static_cast<std::uint32_t>(c);
    }
  }
  for (std::size_t q = last; q > 0; --q) {
    const std::int32_t cut = forward_.cut[forward_.offset[q] + path_[q] - windows_.first[q]];
    path_[q - 1] = windows_.first[q - 1] + static_cast<std::uint32_t>(cut);
  }
  return best;
}

/// Boundaries of a path as cuts between grains: behind an exact cell; several in one cell share out its grains.
void Segmenter::cut_between_grains(const Grains& grains) {
  cuts_.clear();
  for (std::size_t q = 0; q < path_.size();) {
    const std::size_t c = path_[q], begin = borders_[c], count = borders_[c + 1] - begin;
    std::size_t together = 1;
    while (q + together < path_.size() && path_[q + together] == c) ++together;
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
      const double weight = grains.weight.between(begin, end), moment = grains.moment.between(begin, end);
      means_[q] = weight > 0.0 ? moment / weight : grains.x[begin];
      if (weight > 0.0) gain += square_over(moment, weight);
    }
    if (gain > best.gain) {
      best.gain = gain;
      best.cuts = cuts_;
    } else if (step > 0) {
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
void Segmenter::narrow(double least_gain) {
  const std::size_t boundaries = windows_.first.size();
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
    if (next.first[q] > next.last[q]) return;  // only by rounding: stay with the wider ones
  std::swap(windows_, next);
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
      next_borders_.push_back(static_cast<std::uint32_t>(middle_of(grains, borders_[c], borders_[c + 1])));
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

void Segmenter::mirror_windows() {
  const std::size_t boundaries = windows_.first.size();
  const auto end = static_cast<std::uint32_t>(cells() - 1);
  mirrored_windows_.first.resize(boundaries);
  mirrored_windows_.last.resize(boundaries);
  for (std::size_t q = 0; q < boundaries; ++q) {
    mirrored_windows_.first[boundaries - 1 - q] = end - windows_.last[q];
    mirrored_windows_.last[boundaries - 1 - q] = end - windows_.first[q];
  }
}

Segmentation Segmenter::solve(const Grains& grains, std::size_t k, double gap) {
  // A floor for sums of weights that are zero but for rounding: noise over nothing would be a huge gain.
  least_weight_ = std::ldexp(grains.weight.between(0, grains.size()), -70);
  const double allowance = rounding_allowance(grains, k);
  start(grains, k);

  Segmentation best;
  best.gain = -1.0;
  best.gain_bound = std::numeric_limits<double>::infinity();
  while (true) {
    place_end_points(grains);
    run(points_, windows_, forward_);
    const double relaxed_gain = trace_back();
    cut_between_grains(grains);
    improve(grains, best);
    best.gain_bound = std::max(best.gain, std::min(best.gain_bound, relaxed_gain + allowance));
    best.optimal = std::all_of(path_.begin(), path_.end(), [&](std::uint32_t c) { return exact_cell(grains, c); });
    const double cost = grains.second_moment - best.gain;
    if (best.optimal || best.gain_bound - best.gain <= std::max(gap * cost, 2.0 * allowance)) return best;

    mirror_windows();
    run(mirrored_, mirrored_windows_, backward_);
    narrow(best.gain - allowance);
    if (!refine(grains)) {
      mark_open(best.open);
      return best;
    }
  }
}

}  // namespace nibble::quant
