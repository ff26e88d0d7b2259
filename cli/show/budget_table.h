#pragma once

#include <string>

#include "quant/job/plan/budget_result.h"

namespace nibble::cli {

/// What a budget could choose from, for people: a row per weight, a column per layout, in each cell bits per weight and
/// predicted loss, the chosen one marked; then the totals and how far from the optimum they are at most.
std::string budget_text(const quant::BudgetResult& budget);

}  // namespace nibble::cli
