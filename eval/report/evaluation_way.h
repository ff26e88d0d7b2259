#pragma once

#include <algorithm>
#include <array>
#include <string_view>

namespace nibble::eval {

/// Settings of an evaluation that say how its text is read: figures of different ones never stand in one table.
inline constexpr std::array<std::string_view, 5> kEvaluationWay{"protocol", "context", "stride", "average", "bos"};

inline bool is_evaluation_way(std::string_view setting) {
  return std::ranges::find(kEvaluationWay, setting) != kEvaluationWay.end();
}

}  // namespace nibble::eval
