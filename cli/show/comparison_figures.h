#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "cli/arguments/token_input.h"
#include "eval/quality/reference_comparison.h"
#include "eval/quality/text_parts.h"

namespace nibble::cli {

// How perplexity and evaluate show what they measured, and what --reference found.

nlohmann::ordered_json comparison_json(const std::string& reference, const eval::ReferenceComparison& comparison);
std::vector<std::pair<std::string, std::string>> comparison_facts(const std::string& reference,
                                                                  const eval::ReferenceComparison& comparison);

/// Each text of an evaluation: its file, size and figures.
nlohmann::ordered_json texts_json(const TokenInput& input, const std::vector<eval::TextPart>& parts);
/// What the texts are for, and where there are several a line for each; nothing for one of which no use is said.
std::vector<std::pair<std::string, std::string>> texts_facts(const TokenInput& input, const std::string& use,
                                                             const std::vector<eval::TextPart>& parts);

}  // namespace nibble::cli
