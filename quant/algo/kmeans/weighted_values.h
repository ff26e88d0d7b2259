#pragma once

#include <cstddef>
#include <functional>
#include <span>

namespace nibble::quant {

/// Values with weights that are gone through a few times, piece by piece, because they are too many to be held.
class WeightedValues {
 public:
  using Visit = std::function<void(std::span<const float> x, std::span<const float> w)>;

  virtual ~WeightedValues() = default;
  virtual std::size_t size() const = 0;
  /// Calls `visit` with all of them, in an order that is the same each time; pieces need not be. w is as long as x, or
  /// empty in all pieces: ones.
  virtual void walk(const Visit& visit) const = 0;
};

}  // namespace nibble::quant
