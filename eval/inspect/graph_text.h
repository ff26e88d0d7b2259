#pragma once

#include <string>
#include <vector>

#include "eval/inspect/model_graph.h"

namespace nibble::eval {

/// The lines that a node shows: title and module, settings, storage with bytes and operations, shape.
std::vector<std::string> node_lines(const GraphNode& node);

}  // namespace nibble::eval
