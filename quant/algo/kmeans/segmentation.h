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

/// Finds an optimal segmentation of grains by a sandwich in convex order, at a price per cluster.
///
/// The sandwich. Group grains into a few cells. Every clustering's cost is sum_i w_i g(x_i) with g = min_k (c_k - x)² =
/// x² + a concave function. Moving the values of a cell to its two end points, keeping weight and mean, makes the
/// concave part's sum smaller, whatever the centroids are: so k-means on the end points (plus a constant) is a lower
/// bound of the cost, and it is tight where no cluster boundary falls inside a cell; the loss is of second order in the
/// cells' widths. A clustering of the real values, from that solution and a few Lloyd steps, is the upper bound.
///
/// The price. The best gain of the end points is a concave function of the number of clusters. So there is a price per
/// cluster at which the best segmentation of all (gain minus price, any number of clusters) is one into k clusters, and
/// the best of these; at every price, that value plus k prices is a bound of what k clusters gain. One pass over the
/// cells finds it: the best cut before each cell, which never moves back. The price is searched from that of the round
/// before, which is rarely wrong. Clusters from one to another of the cells around a boundary are left out at first,
/// and looked for where the last of those cells shows that there is one: for smooth densities the work grows with the
/// cells alone, at worst (all but a few clusters among few cells) with their number times k.
///
/// The rounds. First the best clustering whose cuts are between about 4k cells, then one between cells that are narrow
/// at those cuts and widen away from them: near the optimum, for little. Then the sandwich, over finer cells that widen
/// away from the cuts so far. Passes from both ends give for every cell the most that a clustering with a boundary
/// there can gain at the price: cells where this is below the upper bound are closed. Cells that remain are halved,
/// runs of closed ones merged, and so on until the boundaries of the lower bound's solution fall between single values:
/// then it is the optimum. For smooth densities one to three rounds do, the first over some 40 cells per boundary,
/// hardly more where there are many more grains; at worst the last one is over all of them. Where grains are few, the
/// first round is.
///
/// Thread-compatible; an object keeps its buffers between calls.
class Segmenter {
 public:
  /// Requires 2 <= k < grains.size(). Stops when the optimum is proved, when the bounds are within `gap` of each
  /// other (relative to the cost), or when nothing but inexact grains is left to be cut.
  Segmentation solve(const Grains& grains, std::size_t k, double gap);

 private:
  /// Places where a cluster may end: 0, before everything; one for each open cell; the last, behind everything. Prefix
  /// sums of what lies left of each, padded for vector loads.
  struct Nodes {
    PrefixSums weight, moment;
    std::vector<std::uint32_t> groups;  ///< where each begins, from 1 on, and last_node() + 1
    void resize(std::size_t count);
    void pad(std::size_t count);
  };
  /// Of each node, what is gained at most, less the price, by clusters that end there, and where the last one begins.
  struct Pass {
    std::vector<double> best;
    std::vector<std::int32_t> cut;
  };
  /// The best clustering at some price: its nodes, from the first to the last.
  struct Path {
    std::vector<std::uint32_t> nodes;
    double gain = 0.0;  ///< of the end points, prices not taken off
    std::size_t clusters() const { return nodes.size() - 1; }
  };
  struct Splittable {
    double spread;
    std::uint32_t begin, end;
    bool operator<(const Splittable& other) const { return spread < other.spread; }
  };

  static std::size_t middle_of(const Grains& grains, std::size_t begin, std::size_t end);
  void start(const Grains& grains, std::size_t k);
  void divide(const Grains& grains, std::size_t count);
  double first_price(const Grains& grains, std::size_t k) const;
  void widen_from(const std::vector<std::size_t>& cuts, std::size_t grains, double growth);
  void place_nodes(const Grains& grains, bool spread);
  void run(const Nodes& nodes, Pass& pass) const;
  void trace_back(Path& path) const;
  double find_path(std::size_t k, double allowance, int patience);
  void join(std::size_t k);
  void cut_between_grains(const Grains& grains, std::size_t k);
  void add_cut(const Grains& grains);
  void improve(const Grains& grains, Segmentation& best);
  void close_cells(std::size_t k, double least_gain);
  bool refine(const Grains& grains);
  void mark_open(std::vector<std::uint8_t>& open) const;

  std::size_t cells() const { return borders_.size() - 1; }
  std::size_t last_node() const { return node_cells_.size(); }
  bool exact_cell(const Grains& grains, std::size_t c) const {
    return borders_[c + 1] - borders_[c] == 1 && grains.exact[borders_[c]] != 0;
  }

  std::vector<std::uint32_t> borders_;        ///< cell c is grains [borders_[c], borders_[c + 1])
  std::vector<std::uint8_t> open_;            ///< of a cell: a boundary may fall into or behind it
  std::vector<std::uint32_t> group_borders_;  ///< grains, ascending: about one boundary of clusters between two
  std::vector<std::uint32_t> node_cells_;     ///< of nodes 1 …, the cell
  Nodes nodes_, mirrored_;
  Pass forward_, backward_;
  Path path_, more_, fewer_;
  double least_weight_ = 0.0, price_ = 0.0;
  bool spread_ = false;  ///< nodes are inside cells, not behind them
  std::vector<Splittable> heap_;
  std::vector<std::size_t> cuts_;
  std::vector<double> means_;
  std::vector<std::uint32_t> next_borders_;
  std::vector<std::uint8_t> next_open_;
};

}  // namespace nibble::quant
