#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "core/machine/thread_pool.h"
#include "model/transformer/layers/linear.h"
#include "model/transformer/layers/routing.h"

// Rows of a batch on their way to experts and back.
namespace nibble::model {

/// Experts that are worked on together: those of a range that some row chose, and the places of their rows.
struct ExpertGroup {
  std::vector<std::size_t> experts;
  std::size_t first_place = 0, end_place = 0;
  std::size_t rows() const { return end_place - first_place; }
};

/// All experts that were chosen, ascending, in groups of at most max(tokens, 64) rows.
template <class T>
std::vector<ExpertGroup> expert_groups(const Routing<T>& routing, std::size_t tokens) {
  constexpr std::size_t kLeastRows = 64;
  const std::size_t most = std::max(tokens, kLeastRows);
  std::vector<ExpertGroup> list;
  for (std::size_t e = 0; e + 1 < routing.starts.size(); ++e) {
    if (routing.rows_of(e) == 0) continue;
    if (list.empty() || routing.starts[e + 1] - list.back().first_place > most)
      list.push_back({{}, routing.starts[e], routing.starts[e]});
    list.back().experts.push_back(e);
    list.back().end_place = routing.starts[e + 1];
  }
  return list;
}

/// Runs body(expert, its first row within the group, rows) for all experts of the group: with a thread for each where
/// there are enough of them and no hooks to be called in order, else one after the other.
template <class T, class Body>
void for_experts(const ExpertGroup& group, const Routing<T>& routing, bool in_order, const Body& body) {
  const auto run = [&](std::size_t i) {
    const std::size_t e = group.experts[i];
    body(e, routing.starts[e] - group.first_place, routing.rows_of(e));
  };
  if (!in_order && group.experts.size() >= 2 * thread_count()) return parallel_for(group.experts.size(), run);
  for (std::size_t i = 0; i < group.experts.size(); ++i) run(i);
}

/// gathered (n, cols): row i is row tokens[i] of x.
template <class T>
void gather_rows(MatrixView<const T> x, std::span<const std::size_t> tokens, MatrixView<T> gathered) {
  for_row_pieces(tokens.size(), x.cols(), [&](std::size_t i, std::size_t first, std::size_t count) {
    std::copy_n(x.row(tokens[i]).data() + first, count, gathered.row(i).data() + first);
  });
}

/// The rows of x that experts of a group see. Where each sees all of them, as with a single token, nothing is copied.
template <class T>
class GatheredRows {
 public:
  GatheredRows(const ExpertGroup& group, const Routing<T>& routing, MatrixView<const T> x, Buffer<T>& memory) : x_(x) {
    if (group.rows() == group.experts.size() * x.rows()) return;
    rows_ = memory.view(group.rows(), x.cols());
    gather_rows<T>(x, std::span(routing.tokens).subspan(group.first_place, group.rows()), rows_);
  }
  MatrixView<const T> part(std::size_t first, std::size_t count) const {
    return rows_.empty() ? x_ : MatrixView<const T>(rows_.rows_slice(first, count));
  }

 private:
  MatrixView<const T> x_;
  MatrixView<T> rows_;
};

/// y.row(t) += weight · outputs.row(place - first_place) for the choices of t with places in [first_place, first_place
/// + outputs.rows()), by ascending expert; with weights of 1 unless `weighted`. Each row is written by one thread.
template <class T>
void scatter_add(const Routing<T>& routing, MatrixView<const T> outputs, std::size_t first_place, bool weighted,
                 MatrixView<T> y) {
  for_row_pieces(y.rows(), y.cols(), [&](std::size_t t, std::size_t first, std::size_t count) {
    T* sum = y.row(t).data() + first;
    for (std::size_t c = 0; c < routing.active; ++c) {
      const std::size_t place = routing.place[t * routing.active + c];
      if (place < first_place || place - first_place >= outputs.rows()) continue;
      const T* row = outputs.row(place - first_place).data() + first;
      const T weight = routing.weights[place];
      if (weighted) {
        for (std::size_t i = 0; i < count; ++i) sum[i] += weight * row[i];
      } else {
        for (std::size_t i = 0; i < count; ++i) sum[i] += row[i];
      }
    }
  });
}

template <class T>
void set_zero(MatrixView<T> y) {
  for_row_pieces(y.rows(), y.cols(), [&](std::size_t r, std::size_t first, std::size_t count) {
    std::fill_n(y.row(r).data() + first, count, T(0));
  });
}

}  // namespace nibble::model
