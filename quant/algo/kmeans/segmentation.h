#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "quant/algo/kmeans/grains.h"

namespace nibble::quant {

/// Grains cut into k contiguous clusters, and how far from the best this may be.
///
/// The gain of a clustering is sum over clusters of S²/W (W the sum of weights, S that of weighted values); its k-means
/// cost is second_moment - gain.
struct Segmentation {
  std::vector<std::size_t> cuts;  ///< (k - 1), ascending: cluster q is grains [cuts[q - 1], cuts[q])
  double gain = 0.0;
  /// No clustering of the values, not even one whose boundaries fall inside grains, gains more. Contains an allowance
  /// for rounding, estimated from the sums.
  double gain_bound = 0.0;
  bool optimal = false;  ///< gain is the maximum (up to rounding)
  /// Grains that a boundary of an optimal clustering may fall into or next to; empty when `optimal`.
  std::vector<std::uint8_t> open;  ///< (m)
};

/// The gain of clusters between `cuts`, ascending.
double gain_of(const Grains& grains, const std::vector<std::size_t>& cuts);

/// How far sums of k gains may be off: each is right to a few units of its last place, and they are added one by one.
double rounding_allowance(const Grains& grains, std::size_t k);

/// Finds an optimal segmentation of grains by a sandwich in convex order.
///
/// Group grains into a few cells. Every clustering's cost is sum_i w_i g(x_i) with g = min_k (c_k - x)² = x² + a
/// concave function. Moving the values of a cell to its two end points, keeping weight and mean, makes the concave
/// part's sum smaller, whatever the centroids are: so k-means on the end points (plus a constant) is a lower bound of
/// the cost, and it is tight where no cluster boundary falls inside a cell; the loss is of second order in the cells'
/// widths. A clustering of the real values, from that solution and a few Lloyd steps, is the upper bound. Dynamic
/// programming from both ends over the end points gives for every cell and every q the least cost of a clustering whose
/// q-th boundary falls there: cells where this exceeds the upper bound are out. Cells that remain are halved, runs of
/// others merged, and so on until the boundaries of the lower bound's solution fall between single values: then it is
/// the optimum. For smooth densities each round looks at about 2k cells per boundary, whatever the number of grains; at
/// worst the last round is the plain dynamic program over all of them. Each layer of the program is a monotone maximum
/// search, done by divide and conquer over blocks of eight rows.
///
/// Thread-compatible; an object keeps its buffers between calls.
class Segmenter {
 public:
  /// Requires 2 <= k < grains.size(). Stops when the optimum is proved, when the bounds are within `gap` of each
  /// other (relative to the cost), or when nothing but inexact grains is left to be cut.
  Segmentation solve(const Grains& grains, std::size_t k, double gap);

 private:
  /// Where each boundary may be: inside or behind cells first[q] … last[q].
  struct Windows {
    std::vector<std::uint32_t> first, last;
  };
  /// Gains of the best clusterings of everything up to a boundary, per layer q and cell of its window.
  struct Layers {
    std::vector<std::size_t> offset;
    std::vector<double> gain;
    std::vector<std::int32_t> cut;  ///< the cell of boundary q - 1 in that clustering
  };
  /// End points of cells as prefix sums: entry c is what lies left of a boundary in cell c. Padded for vector loads.
  struct EndPoints {
    PrefixSums weight, moment;
  };

  struct Splittable {
    double spread;
    std::uint32_t begin, end;
    bool operator<(const Splittable& other) const { return spread < other.spread; }
  };

  static std::size_t middle_of(const Grains& grains, std::size_t begin, std::size_t end);
  void start(const Grains& grains, std::size_t k);
  void place_end_points(const Grains& grains);
  void mirror_windows();
  void run(const EndPoints& points, const Windows& windows, Layers& layers) const;
  void run_layer(const EndPoints& points, const Windows& windows, std::size_t q, Layers& layers) const;
  double trace_back();
  void cut_between_grains(const Grains& grains);
  void improve(const Grains& grains, Segmentation& best);
  void narrow(double least_gain);
  bool refine(const Grains& grains);
  void mark_open(std::vector<std::uint8_t>& open) const;

  std::size_t cells() const { return borders_.size() - 1; }
  bool exact_cell(const Grains& grains, std::size_t c) const {
    return borders_[c + 1] - borders_[c] == 1 && grains.exact[borders_[c]] != 0;
  }

  std::vector<std::uint32_t> borders_;  ///< cell c is grains [borders_[c], borders_[c + 1])
  Windows windows_, mirrored_windows_;
  EndPoints points_, mirrored_;
  Layers forward_, backward_;
  double least_weight_ = 0.0;
  std::vector<Splittable> heap_;
  std::vector<std::uint32_t> path_;
  std::vector<std::size_t> cuts_;
  std::vector<double> means_;
  std::vector<std::uint32_t> next_borders_, first_child_, last_child_;
};

}  // namespace nibble::quant
