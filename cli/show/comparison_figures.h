#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "eval/quality/reference_comparison.h"

namespace nibble::cli {

// How perplexity and evaluate show what --reference found.

nlohmann::ordered_json comparison_json(const std::string& reference, const eval::ReferenceComparison& comparison);
std::vector<std::pair<std::string, std::string>> comparison_facts(const std::string& reference,
                                                                  const eval::ReferenceComparison& comparison);

}  // namespace nibble::cli
