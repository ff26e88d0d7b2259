#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "model/checkpoint/checkpoint.h"
#include "quant/store/model_weights.h"

namespace nibble::eval {

/// One operation of the network.
struct GraphNode {
  std::string operation;             ///< "rms_norm", "linear", "rotary", "attention", "activation", "route", "add", …
  std::string title;                 ///< "q", "attention_norm", "attention": what it is here
  std::vector<std::string> details;  ///< settings, for people: "8 heads of 64, 2 for keys and values", "window 512"
  std::string module;                ///< name of its weight in the first block of the section; empty without one
  std::string storage;               ///< "F16", "palette 4-bit tensor"; empty without a weight
  std::vector<std::uint64_t> shape;  ///< of its output per token: {384}; {heads, head_dim} for attention
  std::uint64_t weights = 0;         ///< of this node in one block; all experts together
  std::uint64_t bytes = 0;           ///< stored for them
  double operations = 0.0;           ///< floating-point operations per token, those over context aside
  std::vector<std::size_t> inputs;   ///< nodes of this section, in order; all before this one
};

/// Nodes in an order in which they can run. Blocks that are alike in everything but their weights' values are one
/// section.
struct GraphSection {
  std::string name;                 ///< "embedding", "blocks 0 to 5", "head"
  std::vector<std::size_t> blocks;  ///< whose computation this is; empty outside the blocks
  std::vector<GraphNode> nodes;     ///< the first is what comes in
};

/// The computation of a model as it runs, from the description that the network is built from.
struct ModelGraph {
  std::string summary;
  std::vector<GraphSection> sections;
};

/// Throws FormatError where a weight is missing. Cost: no weight is read.
ModelGraph graph_of(const std::shared_ptr<const model::Checkpoint>& checkpoint,
                    const quant::QuantizedWeights& quantized);

/// The graph as text in the DOT language, as a picture of its own, and as data for other programs.
std::string graph_dot(const ModelGraph& graph);
std::string graph_svg(const ModelGraph& graph);
std::string graph_json(const ModelGraph& graph);

}  // namespace nibble::eval
