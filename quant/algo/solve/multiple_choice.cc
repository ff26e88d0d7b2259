#include "quant/algo/solve/multiple_choice.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "core/error.h"

namespace nibble::quant {
namespace {

using Items = std::span<const std::vector<KnapsackWay>>;

double priced(const KnapsackWay& choice, double price) {
  return choice.loss + price * static_cast<double>(choice.size);
}

// The choice with the least priced loss; of equal ones the smallest.
std::size_t cheapest(const std::vector<KnapsackWay>& item, double price) {
  std::size_t best = 0;
  for (std::size_t c = 1; c < item.size(); ++c) {
    const double difference = priced(item[c], price) - priced(item[best], price);
    if (difference < 0.0 || (difference == 0.0 && item[c].size < item[best].size)) best = c;
  }
  return best;
}

KnapsackResult selection_at(Items items, double price) {
  KnapsackResult result;
  for (const auto& item : items) {
    result.chosen.push_back(cheapest(item, price));
    result.loss += item[result.chosen.back()].loss;
    result.size += item[result.chosen.back()].size;
  }
  return result;
}

double bound_at(Items items, double price, std::uint64_t capacity) {
  double bound = -price * static_cast<double>(capacity);
  for (const auto& item : items) bound += priced(item[cheapest(item, price)], price);
  return bound;
}

// The smallest choice of every item; of equally small ones the best.
KnapsackResult smallest_selection(Items items) {
  KnapsackResult result;
  for (const auto& item : items) {
    const auto smallest = std::min_element(item.begin(), item.end(), [](const KnapsackWay& a, const KnapsackWay& b) {
      return a.size != b.size ? a.size < b.size : a.loss < b.loss;
    });
    result.chosen.push_back(static_cast<std::size_t>(smallest - item.begin()));
    result.loss += smallest->loss;
    result.size += smallest->size;
  }
  return result;
}

// Fills what room a selection leaves, always by the exchange that saves most loss per size, then most loss.
void fill_up(Items items, std::uint64_t capacity, KnapsackResult& selection) {
  for (;;) {
    double best_rate = 0.0, best_saving = 0.0;
    std::optional<std::pair<std::size_t, std::size_t>> exchange;
    for (std::size_t i = 0; i < items.size(); ++i) {
      const KnapsackWay& now = items[i][selection.chosen[i]];
      for (std::size_t c = 0; c < items[i].size(); ++c) {
        const KnapsackWay& other = items[i][c];
        const double saving = now.loss - other.loss;
        if (!(saving > 0.0) || selection.size - now.size + other.size > capacity) continue;
        const double rate = other.size > now.size ? saving / static_cast<double>(other.size - now.size)
                                                  : std::numeric_limits<double>::infinity();
        if (rate < best_rate || (rate == best_rate && saving <= best_saving)) continue;
        best_rate = rate, best_saving = saving, exchange = {i, c};
      }
    }
    if (!exchange) return;
    const auto [i, c] = *exchange;
    selection.size = selection.size - items[i][selection.chosen[i]].size + items[i][c].size;
    selection.chosen[i] = c;
  }
}

double loss_of(Items items, const std::vector<std::size_t>& chosen) {
  double loss = 0.0;
  for (std::size_t i = 0; i < items.size(); ++i) loss += items[i][chosen[i]].loss;
  return loss;
}

// Exact search among what the relaxation leaves.
class Search {
 public:
  Search(Items items, std::uint64_t capacity, double price, const KnapsackResult& incumbent, std::size_t max_states)
      : items_(items), capacity_(capacity), price_(price), max_states_(max_states), best_(incumbent) {
    // Rounding of the sums that are compared must not drop the optimum.
    slack_ =
        1e-12 * (std::abs(incumbent.loss) + std::abs(incumbent.lower_bound) + price * static_cast<double>(capacity));
  }

  KnapsackResult run() {
    std::vector<State> front{{0, 0.0, 0, 0}};
    std::vector<double> rest_bound(items_.size() + 1);  // Σ of least priced losses from item i on
    std::vector<std::uint64_t> rest_size(items_.size() + 1);
    for (std::size_t i = items_.size(); i-- > 0;) {
      rest_bound[i] = rest_bound[i + 1] + priced(items_[i][cheapest(items_[i], price_)], price_);
      std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
      for (const KnapsackWay& choice : items_[i]) least = std::min(least, choice.size);
      rest_size[i] = rest_size[i + 1] + least;
    }
    for (std::size_t i = 0; i < items_.size(); ++i) {
      std::vector<State> next;
      for (std::size_t s = 0; s < front.size(); ++s)
        for (std::size_t c = 0; c < items_[i].size(); ++c) {
          const KnapsackWay& choice = items_[i][c];
          const State state{front[s].size + choice.size, front[s].loss + choice.loss, s, c};
          const double bound = state.loss +
                               price_ * (static_cast<double>(state.size) - static_cast<double>(capacity_)) +
                               rest_bound[i + 1];
          if (state.size + rest_size[i + 1] > capacity_ || bound > best_.loss + slack_) continue;
          next.push_back(state);
          if (next.size() > max_states_) return best_;
        }
      keep_undominated(next);
      best_.states += next.size();
      if (best_.states > max_states_) return best_;
      steps_.emplace_back(next.size());
      for (std::size_t s = 0; s < next.size(); ++s) steps_.back()[s] = {next[s].from, next[s].choice};
      front = std::move(next);
    }
    for (std::size_t s = 0; s < front.size(); ++s)
      if (front[s].loss < best_.loss) take(front[s], s);
    best_.lower_bound = best_.loss;
    best_.exact = true;
    return best_;
  }

 private:
  struct State {
    std::uint64_t size;
    double loss;
    std::size_t from, choice;  // the state before, and what was chosen since
  };

  static void keep_undominated(std::vector<State>& states) {
    std::stable_sort(states.begin(), states.end(), [](const State& a, const State& b) {
      return a.size != b.size ? a.size < b.size : a.loss < b.loss;
    });
    double least = std::numeric_limits<double>::infinity();
    std::erase_if(states, [&](const State& state) {
      if (!(state.loss < least)) return true;
      least = state.loss;
      return false;
    });
  }

  void take(const State& state, std::size_t index) {
    best_.loss = state.loss, best_.size = state.size;
    for (std::size_t i = items_.size(); i-- > 0;) {
      best_.chosen[i] = steps_[i][index].second;
      index = steps_[i][index].first;
    }
  }

  Items items_;
  std::uint64_t capacity_;
  double price_, slack_ = 0.0;
  std::size_t max_states_;
  KnapsackResult best_;
  std::vector<std::vector<std::pair<std::size_t, std::size_t>>> steps_;
};

}  // namespace

KnapsackResult choose_ways(std::span<const std::vector<KnapsackWay>> items, std::uint64_t capacity,
                           std::size_t max_states) {
  for (const auto& item : items) {
    NIBBLE_REQUIRE(!item.empty(), InvalidArgument, "an item has nothing to choose from");
    for (const KnapsackWay& choice : item)
      NIBBLE_REQUIRE(std::isfinite(choice.loss), InvalidArgument, "expected finite losses, got {}", choice.loss);
  }
  const KnapsackResult smallest = smallest_selection(items);
  NIBBLE_REQUIRE(smallest.size <= capacity, InvalidArgument, "the smallest choices take {} of the {} there are",
                 smallest.size, capacity);

  // The bound is concave in the price, with its top where the selection's size crosses the capacity.
  double low = 0.0, high = 0.0;
  KnapsackResult best = selection_at(items, 0.0);
  if (best.size > capacity) {
    best = smallest;
    for (high = 1e-12; high < 1e300; high *= 16.0) {
      KnapsackResult selection = selection_at(items, high);
      if (selection.size > capacity) continue;
      if (selection.loss < best.loss) best = std::move(selection);
      break;
    }
    for (int step = 0; step < 100; ++step) {
      const double middle = 0.5 * (low + high);
      KnapsackResult selection = selection_at(items, middle);
      if (selection.size > capacity) {
        low = middle;
        continue;
      }
      high = middle;
      if (selection.loss < best.loss) best = std::move(selection);
    }
  }
  fill_up(items, capacity, best);
  best.loss = loss_of(items, best.chosen);
  best.lower_bound = std::min(best.loss, std::max(bound_at(items, low, capacity), bound_at(items, high, capacity)));
  return Search(items, capacity, high, best, max_states).run();
}

}  // namespace nibble::quant
