#include "quant/algo/kmeans/segmentation.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "quant/algo/kmeans/segmentation_kernels.h"

namespace nibble::quant {
namespace {

namespace kernels = segmentation_kernels;
using kernels::kRows;

constexpr std::size_t kFewGrains = 32;  // per cluster: up to so many, each is a cell from the beginning
constexpr std::size_t kFewInAll = 4096;
constexpr std::size_t kLeastTogether = 4;  // cells of a group: fewer would leave most rows of a block without use
constexpr std::size_t kFirstCells = 4;     // per cluster, of more
constexpr int kSketches = 2;               // clusterings between cells before anything is proved
constexpr int kSketchSteps = 3;            // prices for one of them
constexpr int kPatience = 256;             // prices where a bound is wanted; a dozen is many
constexpr double kSketchGrowth = 3.0;      // of cells away from a cut, while cuts are only sketched
constexpr double kProofGrowth = 1.15;      // and then: boundaries of all clusters together move far at little cost
constexpr int kLloydSteps = 8;             // per round: enough for the next round to be limited by its own cells

TwiceSum difference(TwiceSum a, TwiceSum b) {
  a.add(-b.high);
  a.low -= b.low;
  return a;
}

/// How far sums of k gains and prices may be off: each is right to a few units of its last place, and they are added
/// one by one.
double rounding_allowance(const Grains& grains, std::size_t k) {
  return 0x1p-53 * (2.0 * static_cast<double>(k) + 8.0) * grains.second_moment;
}

/// The first of x[from] … x[end - 1] above `boundary`, looked for outwards from `near`.
std::size_t first_above(const LargeVector<double>& x, std::size_t from, std::size_t end, std::size_t near,
                        double boundary) {
  std::size_t low = std::max(from, near), high = low, step = 1;
  if (low < end && x[low] <= boundary) {
    do {
      low = high + 1;
      high = std::min(end, high + step);
      step *= 2;
    } while (high < end && x[high] <= boundary);
    low = std::min(low, high);
  } else {
    do {
      high = low;
      low = std::max(from, low - std::min(low, step));
      step *= 2;
    } while (low > from && x[low] > boundary);
  }
  const auto begin = x.begin();
  return static_cast<std::size_t>(
      std::upper_bound(begin + static_cast<std::ptrdiff_t>(low), begin + static_cast<std::ptrdiff_t>(high), boundary) -
      begin);
}

/// One pass over the nodes.
struct PassSearch {
  decltype(kernels::active()) best_cuts;
  kernels::Prefixes sums;
  double least_weight, price;
  double* best;
  std::int32_t* cut;

  /// Nodes of one group. Clusters from one of them to another are left out at first. The best cut does not decrease
  /// from node to node (the gain has the quadrangle property): where none such is the best for the last node, none is
  /// for the others. Else each half is a group.
  void group(std::size_t begin, std::size_t end) const {
    blocks(begin, 0, (end - begin + kRows - 1) / kRows, static_cast<std::size_t>(cut[begin - 1]), begin - 1);
    if (!is_beaten_from_inside(begin, end - 1)) return;
    const std::size_t middle = begin + (end - begin) / 2;
    group(begin, middle);
    group(middle, end);
  }

 private:
  /// Blocks of a group, for which a block's result bounds those on either side.
  void blocks(std::size_t group, std::size_t begin, std::size_t end, std::size_t first, std::size_t last) const {
    if (begin == end) return;
    const std::size_t middle = begin + (end - begin) / 2, row = group + middle * kRows;
    best_cuts(sums, least_weight, price, first, last, row, best, cut);
    const auto lowest = static_cast<std::size_t>(cut[row]), highest = static_cast<std::size_t>(cut[row + kRows - 1]);
    blocks(group, begin, middle, first, lowest);
    blocks(group, middle + 1, end, highest, last);
  }

  bool is_beaten_from_inside(std::size_t begin, std::size_t row) const {
    double most = -std::numeric_limits<double>::infinity();
    for (std::size_t i = begin; i < row; ++i)
      most = std::max(most, best[i] + kernels::gain_between(sums, i, row, least_weight));
    return most - price > best[row];
  }
};

}  // namespace

void Segmenter::Nodes::resize(std::size_t count) {
  weight.resize(count + kRows);
  moment.resize(count + kRows);
}

void Segmenter::Nodes::pad(std::size_t count) {
  for (std::size_t pad = count; pad < count + kRows; ++pad) {
    weight.set(pad, weight.at(count - 1));
    moment.set(pad, moment.at(count - 1));
  }
}

/// Where to divide a cell of several grains: in the middle, or before its last grain where the way from there to the
/// cell's end is most of its width (that grain, alone, then keeps the others' end point near).
std::size_t Segmenter::middle_of(const Grains& grains, std::size_t begin, std::size_t end) {
  const bool wide_end = grains.x[end] - grains.x[end - 1] > 0.5 * (grains.x[end] - grains.x[begin]);
  return wide_end ? end - 1 : begin + (end - begin) / 2;
}

/// Where grains are few, a cell for each. Else about 4k cells, made by dividing at half its width the one that
/// spreading to end points would widen most: for smooth densities this gives every cluster about as many. All are open.
void Segmenter::start(const Grains& grains, std::size_t k) {
  borders_.clear();
  if (grains.size() <= std::min(kFewGrains * k, kFewInAll)) {
    borders_.resize(grains.size() + 1);
    std::iota(borders_.begin(), borders_.end(), 0u);
  } else {
    divide(grains, kFirstCells * k);
    for (const Splittable& cell : heap_) borders_.push_back(cell.begin);
    borders_.push_back(static_cast<std::uint32_t>(grains.size()));
    std::sort(borders_.begin(), borders_.end());
  }
  open_.assign(cells(), 1);
  const std::size_t together = std::max(kLeastTogether, cells() / (2 * k));
  group_borders_.clear();
  for (std::size_t c = together; c < cells(); c += together) group_borders_.push_back(borders_[c]);
}

/// Fills heap_ with `count` cells, or fewer where there is nothing to divide.
void Segmenter::divide(const Grains& grains, std::size_t count) {
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
  while (heap_.size() < count && heap_.front().spread > 0.0) {
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
}

/// What the last of k clusters brings by the rule of fine quantizers (Panter and Dite), a cost of (sum over cells of
/// (weight · width²)^(1/3))³ / 12k². A grain alone in its cell is as wide as the way to the next. Of few digits, in
/// units that go with the values: so cube roots of another library change nothing, and twice the values nothing either.
double Segmenter::first_price(const Grains& grains, std::size_t k) const {
  const int unit = std::ilogb(grains.x[grains.size()] - grains.x[0]);
  double sum = 0.0;
  for (std::size_t c = 0; c < cells(); ++c) {
    const double width = std::ldexp(grains.x[borders_[c + 1]] - grains.x[borders_[c]], -unit);
    sum += std::cbrt(grains.weight.between(borders_[c], borders_[c + 1]) * width * width);
  }
  const double each = sum / static_cast<double>(k);
  int exponent = 0;
  const double digits = std::frexp(each * each * each / 6.0, &exponent);
  return std::ldexp(std::nearbyint(std::ldexp(digits, 8)), exponent - 8 + 2 * unit);
}

/// Cells of one grain on either side of each cut, and up to half the way to the next cut cells that begin `growth`
/// times as far away as the one before. All are open.
void Segmenter::widen_from(const std::vector<std::size_t>& cuts, std::size_t grains, double growth) {
  const auto further = [&](std::size_t away) {
    return static_cast<std::size_t>(static_cast<double>(away) * growth) + 1;
  };
  borders_.assign(1, 0);
  group_borders_.clear();
  for (std::size_t q = 0; q < cuts.size(); ++q) {
    const std::size_t cut = cuts[q];
    const std::size_t low = q == 0 ? 0 : cuts[q - 1] + (cut - cuts[q - 1]) / 2;
    const std::size_t high = q + 1 == cuts.size() ? grains : cut + (cuts[q + 1] - cut) / 2;
    const std::size_t first = borders_.size();
    for (std::size_t away = 1; away < cut - low; away = further(away))
      borders_.push_back(static_cast<std::uint32_t>(cut - away));
    std::reverse(borders_.begin() + static_cast<std::ptrdiff_t>(first), borders_.end());
    borders_.push_back(static_cast<std::uint32_t>(cut));
    for (std::size_t away = 1; away < high - cut; away = further(away))
      borders_.push_back(static_cast<std::uint32_t>(cut + away));
    if (high > cut) borders_.push_back(static_cast<std::uint32_t>(high));
    group_borders_.push_back(static_cast<std::uint32_t>(high));
  }
  borders_.erase(std::unique(borders_.begin(), borders_.end()), borders_.end());
  open_.assign(cells(), 1);
}

/// Nodes behind the open cells, where real clusters can end. Or, with `spread`, each cell's weight on its two end
/// points so that the mean stays: end points of neighbours coincide, and left of a boundary inside an open cell lies
/// everything up to its left end point.
void Segmenter::place_nodes(const Grains& grains, bool spread) {
  spread_ = spread;
  node_cells_.clear();
  nodes_.groups.assign(1, 1);
  auto next_group = group_borders_.begin();
  nodes_.resize(cells() + 2);
  nodes_.weight.set(0, {});
  nodes_.moment.set(0, {});
  for (std::size_t c = 0; c < cells(); ++c) {
    if (open_[c] == 0) continue;
    while (next_group != group_borders_.end() && *next_group <= borders_[c]) {
      if (const std::size_t node = node_cells_.size() + 1; node > nodes_.groups.back())
        nodes_.groups.push_back(static_cast<std::uint32_t>(node));
      ++next_group;
    }
    node_cells_.push_back(static_cast<std::uint32_t>(c));
    const std::size_t begin = borders_[c], end = borders_[c + 1];
    const double x0 = grains.x[begin], x1 = grains.x[end];
    TwiceSum weight = grains.weight.at(end), moment = grains.moment.at(end);
    if (spread && !exact_cell(grains, c) && x1 > x0) {
      const double cell_weight = grains.weight.between(begin, end), cell_moment = grains.moment.between(begin, end);
      const double left = std::clamp((x1 * cell_weight - cell_moment) / (x1 - x0), 0.0, cell_weight);
      weight = grains.weight.at(begin);
      weight.add(left);
      moment = grains.moment.at(begin);
      moment.add(left * x0);
    }
    nodes_.weight.set(node_cells_.size(), weight);
    nodes_.moment.set(node_cells_.size(), moment);
  }
  node_cells_.push_back(static_cast<std::uint32_t>(cells()));
  if (last_node() > nodes_.groups.back()) nodes_.groups.push_back(static_cast<std::uint32_t>(last_node()));
  nodes_.groups.push_back(static_cast<std::uint32_t>(last_node() + 1));
  nodes_.weight.set(last_node(), grains.weight.at(grains.size()));
  nodes_.moment.set(last_node(), grains.moment.at(grains.size()));
  nodes_.pad(last_node() + 1);
}

/// Fills `pass` at the price in force.
void Segmenter::run(const Nodes& nodes, Pass& pass) const {
  pass.best.resize(last_node() + 1 + kRows);
  pass.cut.resize(last_node() + 1 + kRows);
  pass.best[0] = 0.0;
  pass.cut[0] = 0;
  const PassSearch search{
      .best_cuts = kernels::active(),
      .sums = {nodes.weight.high.data(), nodes.weight.low.data(), nodes.moment.high.data(), nodes.moment.low.data()},
      .least_weight = least_weight_,
      .price = price_,
      .best = pass.best.data(),
      .cut = pass.cut.data()};
  for (std::size_t g = 0; g + 1 < nodes.groups.size(); ++g) search.group(nodes.groups[g], nodes.groups[g + 1]);
}

void Segmenter::trace_back(Path& path) const {
  path.nodes.assign(1, static_cast<std::uint32_t>(last_node()));
  while (path.nodes.back() > 0) path.nodes.push_back(static_cast<std::uint32_t>(forward_.cut[path.nodes.back()]));
  std::reverse(path.nodes.begin(), path.nodes.end());
  path.gain = forward_.best[last_node()] + price_ * static_cast<double>(path.clusters());
}

/// Fills path_, with k clusters where any price gives so many or two paths that are level can be joined to so many, and
/// forward_ at such a price. Returns a bound of what k clusters of the end points gain, rounding not allowed for.
double Segmenter::find_path(std::size_t k, double allowance, int patience) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const auto wanted = static_cast<double>(k);
  double bound = kInfinity;
  bool has_more = false, has_fewer = false;
  double low = 0.0, high = kInfinity;  // prices of more_ and of fewer_, where there are such
  double level = -kInfinity;           // what both have at the price in force, if it is where they are level
  for (int step = 1;; ++step) {
    run(nodes_, forward_);
    trace_back(path_);
    const double value = forward_.best[last_node()], price = price_;
    bound = std::min(bound, value + price * wanted);
    if (path_.clusters() == k) return bound;
    if (has_more && has_fewer && (value <= level || step >= patience)) {
      join(k);
      return bound;
    }
    const bool is_more = path_.clusters() > k;
    (is_more ? has_more : has_fewer) = true;
    (is_more ? low : high) = price;
    // As gains fall where values are dense, with the cube of their number, from the price between this number and the
    // next one to k: a price from another round is most often just beside those for k.
    const double share = (static_cast<double>(path_.clusters()) + (is_more ? -0.5 : 0.5)) / wanted;
    price_ = price * share * share * share;
    std::swap(path_, is_more ? more_ : fewer_);
    level = -kInfinity;
    const double further = 1.0 + static_cast<double>(step - 1) / wanted;
    if (!has_more) {
      price_ /= further;
      if (price_ * wanted >= 0x1p-10 * allowance) continue;
      price_ = price;  // further clusters bring nothing
      std::swap(path_, fewer_);
      return bound;
    }
    if (!has_fewer) {
      price_ *= further;
      continue;
    }
    if (step % 2 == 1 && low < price_ && price_ < high) continue;
    price_ = (more_.gain - fewer_.gain) / static_cast<double>(more_.clusters() - fewer_.clusters());
    if (low < price_ && price_ < high) {
      level = fewer_.gain - price_ * static_cast<double>(fewer_.clusters()) + 0.125 * allowance;
    } else {  // only by rounding
      price_ = 0.5 * (low + high);
      level = kInfinity;
    }
  }
}

/// A path of k clusters from more_ and fewer_, which are level: fewer_'s nodes up to where a cluster of its own holds
/// one of more_'s with the right number behind it, then more_'s. Two clusters that overlap gain no less than one inside
/// the other (the same property by which best cuts never move back), so the joined path is level too.
void Segmenter::join(std::size_t k) {
  const std::size_t ahead = more_.clusters() - k;
  std::size_t i = 0;
  while (more_.nodes[i + ahead + 1] > fewer_.nodes[i + 1]) ++i;
  path_.nodes.assign(fewer_.nodes.data(), fewer_.nodes.data() + i + 1);
  path_.nodes.insert(path_.nodes.end(), more_.nodes.data() + i + ahead + 1, more_.nodes.data() + more_.nodes.size());
}

/// The path as cuts between grains: behind an exact cell, else in the middle.
void Segmenter::cut_between_grains(const Grains& grains, std::size_t k) {
  cuts_.clear();
  for (std::size_t i = 1; i + 1 < path_.nodes.size(); ++i) {
    const std::size_t c = node_cells_[path_.nodes[i] - 1], begin = borders_[c];
    cuts_.push_back(!spread_ || exact_cell(grains, c) ? borders_[c + 1] : begin + (borders_[c + 1] - begin + 1) / 2);
  }
  while (cuts_.size() + 1 < k) add_cut(grains);
}

/// Where further clusters bring next to nothing beside all that is gained: one in the middle of the values that weigh
/// most, by weight · width², of those that are together.
void Segmenter::add_cut(const Grains& grains) {
  double most = -1.0;
  std::size_t at = 0, first = 0, end = 0;
  for (std::size_t q = 0; q <= cuts_.size(); ++q) {
    const std::size_t begin = q == 0 ? 0 : cuts_[q - 1], next = q == cuts_.size() ? grains.size() : cuts_[q];
    if (next < begin + 2) continue;
    const double width = grains.x[next - 1] - grains.x[begin];
    const double moment = grains.weight.between(begin, next) * width * width;
    if (!(moment > most)) continue;
    most = moment;
    at = q;
    first = begin;
    end = next;
  }
  const double middle = 0.5 * (grains.x[first] + grains.x[end - 1]);
  const std::size_t cut = first_above(grains.x, first + 1, end - 1, first + (end - first) / 2, middle);
  cuts_.insert(cuts_.begin() + static_cast<std::ptrdiff_t>(at), cut);
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
      if (weight > 0.0) gain += moment * means_[q];
    }
    if (gain > best.gain) {
      best.gain = gain;
      best.cuts = cuts_;
    } else if (step > 0) {
      return;
    }
    std::size_t from = 0;
    for (std::size_t q = 0; q + 1 < clusters; ++q)
      from = cuts_[q] = first_above(grains.x, from, m, cuts_[q], 0.5 * (means_[q] + means_[q + 1]));
  }
}

/// Closes the cells through which no clustering into k reaches `least_gain`.
void Segmenter::close_cells(std::size_t k, double least_gain) {
  const std::size_t last = last_node();
  mirrored_.resize(last + 1);
  const TwiceSum weight = nodes_.weight.at(last), moment = nodes_.moment.at(last);
  for (std::size_t j = 0; j <= last; ++j) {
    mirrored_.weight.set(last - j, difference(weight, nodes_.weight.at(j)));
    mirrored_.moment.set(last - j, difference(moment, nodes_.moment.at(j)));
  }
  mirrored_.groups.clear();
  for (auto group = nodes_.groups.rbegin() + 1; group != nodes_.groups.rend(); ++group)
    mirrored_.groups.push_back(static_cast<std::uint32_t>(last + 1 - *group));
  mirrored_.groups.push_back(static_cast<std::uint32_t>(last + 1));
  mirrored_.pad(last + 1);
  run(mirrored_, backward_);
  const double least = least_gain - price_ * static_cast<double>(k);
  for (std::size_t j = 1; j < last; ++j)
    if (forward_.best[j] + backward_.best[last - j] < least) open_[node_cells_[j - 1]] = 0;
}

/// Halves open cells and merges runs of the others. False when there was nothing left to halve.
bool Segmenter::refine(const Grains& grains) {
  next_borders_.clear();
  next_open_.clear();
  bool halved = false;
  for (std::size_t c = 0; c < cells(); ++c) {
    if (open_[c] != 0 || next_open_.empty() || next_open_.back() != 0) {
      next_borders_.push_back(borders_[c]);
      next_open_.push_back(open_[c]);
    }
    if (open_[c] == 0 || borders_[c + 1] - borders_[c] == 1) continue;
    next_borders_.push_back(static_cast<std::uint32_t>(middle_of(grains, borders_[c], borders_[c + 1])));
    next_open_.push_back(1);
    halved = true;
  }
  next_borders_.push_back(static_cast<std::uint32_t>(grains.size()));
  if (!halved) return false;
  std::swap(borders_, next_borders_);
  std::swap(open_, next_open_);
  return true;
}

void Segmenter::mark_open(std::vector<std::uint8_t>& open) const {
  open.clear();
  for (std::size_t c = 0; c < cells(); ++c) open.resize(borders_[c + 1], open_[c]);
}

Segmentation Segmenter::solve(const Grains& grains, std::size_t k, double gap) {
  // No gain of a cluster without weight. A floor far below any weight that counts: sums in twice double precision are
  // off by 2^-106 of all and some, and what is off in S² / W by as much over such a floor is 2^-100 of the second
  // moment.
  least_weight_ = std::ldexp(grains.weight.between(0, grains.size()), -100);
  const double allowance = rounding_allowance(grains, k);
  start(grains, k);
  price_ = first_price(grains, k);

  Segmentation best;
  best.gain = -1.0;
  best.gain_bound = std::numeric_limits<double>::infinity();
  for (int sketch = 1; sketch <= kSketches && cells() < grains.size(); ++sketch) {
    place_nodes(grains, false);
    find_path(k, allowance, kSketchSteps);
    cut_between_grains(grains, k);
    improve(grains, best);
    widen_from(best.cuts, grains.size(), sketch == kSketches ? kProofGrowth : kSketchGrowth);
  }
  while (true) {
    place_nodes(grains, true);
    const double relaxed_gain = find_path(k, allowance, kPatience);
    cut_between_grains(grains, k);
    improve(grains, best);
    best.gain_bound = std::max(best.gain, std::min(best.gain_bound, relaxed_gain + allowance));
    best.optimal = std::all_of(path_.nodes.begin() + 1, path_.nodes.end() - 1,
                               [&](std::uint32_t node) { return exact_cell(grains, node_cells_[node - 1]); });
    const double cost = grains.second_moment - best.gain;
    if (best.optimal || best.gain_bound - best.gain <= std::max(gap * cost, 2.0 * allowance)) return best;

    close_cells(k, best.gain - allowance);
    if (!refine(grains)) {
      mark_open(best.open);
      return best;
    }
  }
}

}  // namespace nibble::quant
