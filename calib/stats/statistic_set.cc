#include "calib/stats/statistic_set.h"

#include <array>
#include <utility>

#include "core/error.h"
#include "core/text/suggest.h"

namespace nibble::calib {
namespace {

constexpr std::array<std::string_view, 5> kNames = {"activations", "fisher", "hessian", "guided-hessian",
                                                    "output-hessian"};
constexpr std::array<bool StatisticSet::*, 5> kMembers = {&StatisticSet::activations, &StatisticSet::fisher,
                                                          &StatisticSet::hessian, &StatisticSet::guided_hessian,
                                                          &StatisticSet::output_hessian};

}  // namespace

StatisticSet parse_statistic_set(std::string_view text) {
  StatisticSet set;
  while (true) {
    const std::size_t comma = text.find(',');
    const std::string_view word = text.substr(0, comma);
    bool known = false;
    for (std::size_t i = 0; i < kNames.size(); ++i) {
      if (kNames[i] == word) set.*kMembers[i] = known = true;
    }
    NIBBLE_REQUIRE(
        known, InvalidArgument,
        "statistics: expected a list of activations, fisher, hessian, guided-hessian, output-hessian, got '{}'{}", word,
        did_you_mean(word, kNames));
    if (comma == std::string_view::npos) return set;
    text.remove_prefix(comma + 1);
  }
}

StatisticSet either(const StatisticSet& a, const StatisticSet& b) {
  StatisticSet both;
  for (const auto member : kMembers) both.*member = a.*member || b.*member;
  return both;
}

std::string to_text(const StatisticSet& set) {
  std::string text;
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (set.*kMembers[i]) text.append(text.empty() ? "" : ",").append(kNames[i]);
  }
  return text;
}

}  // namespace nibble::calib
