#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "eval/report/entries.h"

namespace nibble::eval {

/// Adds what other commands printed with --json: a storage study (`nibble inspect --compress`), or speeds (`nibble
/// speed`), which become an entry of the model's directory and method. Passes over any other JSON. `what` names the
/// file in messages. Throws FormatError for speeds that are not as `nibble speed` prints them.
void add_measurement(const nlohmann::json& json, const std::string& what, ReportInput& input);

}  // namespace nibble::eval
