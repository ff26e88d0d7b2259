#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "eval/quality/reference_comparison.h"

namespace nibble::cli {

// How perplexity and evaluate show what they measured, and what --reference found.

/// "25.8312 ± 1.7021" with four digits; without its error where that is NaN (of one window).
std::string estimate_text(double value, double standard_error, int digits);

nlohmann::ordered_json comparison_json(const std::string& reference, const eval::ReferenceComparison& comparison);
std::vector<std::pair<std::string, std::string>> comparison_facts(const std::string& reference,
                                                                  const eval::ReferenceComparison& comparison);

}  // namespace nibble::cli
