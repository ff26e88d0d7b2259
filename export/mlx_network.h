#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "model/architecture/architecture.h"

namespace nibble::exporting {

// What mlx-lm makes of a network. Its implementations take much for granted that config.json decides elsewhere, and
// have defaults of their own. Source: mlx_lm/models of version 0.32.2.

/// Why its implementation of the family computes another network than this one, whatever config.json says; empty where
/// it computes this one, but for what mlx_notes() tells.
std::string mlx_objection(const model::Architecture& architecture);

/// Whether its implementation of the family has no bias at a layer, whatever config.json says.
bool mlx_lacks_bias(const model::Architecture& architecture, const model::Parameter& layer);

/// What it computes a little otherwise, or otherwise beyond some length: for the user.
std::vector<std::string> mlx_notes(const model::Architecture& architecture);

/// States in config.json all that its implementation reads and might take for something else where it is absent.
void state_mlx_network(nlohmann::ordered_json& config, const model::Architecture& architecture);

}  // namespace nibble::exporting
