#include "eval/inspect/graph_text.h"

#include <fmt/ranges.h>

#include "core/text/json.h"

namespace nibble::eval {
namespace {

std::string human(double value, const char* unit) {
  const char* prefixes[] = {"", "k", "M", "G", "T"};
  std::size_t step = 0;
  while (value >= 1000.0 && step + 1 < std::size(prefixes)) value /= 1000.0, ++step;
  return fmt::format("{:.{}f} {}{}", value, step == 0 ? 0 : 1, prefixes[step], unit);
}

std::string escaped_label(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result;
}

}  // namespace

std::vector<std::string> node_lines(const GraphNode& node) {
  std::vector<std::string> lines{node.title};
  for (const std::string& detail : node.details) lines.push_back(detail);
  if (!node.storage.empty())
    lines.push_back(fmt::format("{}, {}", node.storage, human(static_cast<double>(node.bytes), "B")));
  if (node.operations > 0.0) lines.push_back(human(node.operations, "FLOP per token"));
  lines.push_back(fmt::format("→ (tokens, {})", fmt::join(node.shape, ", ")));
  return lines;
}

std::string graph_dot(const ModelGraph& graph) {
  std::string text = fmt::format(
      "digraph model {{\n  label=\"{}\";\n  labelloc=t;\n  node [shape=box, fontname=\"sans-serif\", fontsize=10];\n",
      escaped_label(graph.summary));
  for (std::size_t s = 0; s < graph.sections.size(); ++s) {
    const GraphSection& section = graph.sections[s];
    text += fmt::format("  subgraph cluster_{} {{\n    label=\"{}\";\n", s, escaped_label(section.name));
    for (std::size_t n = 0; n < section.nodes.size(); ++n) {
      std::string label;
      for (const std::string& line : node_lines(section.nodes[n])) label += escaped_label(line) + "\\n";
      text +=
          fmt::format("    n{}_{} [label=\"{}\"{}];\n", s, n, label,
                      section.nodes[n].storage.empty() ? ", style=rounded" : ", style=filled, fillcolor=\"#e8eef7\"");
    }
    for (std::size_t n = 0; n < section.nodes.size(); ++n)
      for (const std::size_t input : section.nodes[n].inputs)
        text += fmt::format("    n{}_{} -> n{}_{};\n", s, input, s, n);
    text += "  }\n";
    if (s > 0)
      text += fmt::format("  n{}_{} -> n{}_0 [style=dashed];\n", s - 1, graph.sections[s - 1].nodes.size() - 1, s);
  }
  return text + "}\n";
}

std::string graph_json(const ModelGraph& graph) {
  nlohmann::ordered_json sections = nlohmann::ordered_json::array();
  for (const GraphSection& section : graph.sections) {
    nlohmann::ordered_json nodes = nlohmann::ordered_json::array();
    for (const GraphNode& node : section.nodes) {
      nlohmann::ordered_json object{{"operation", node.operation},
                                    {"title", node.title},
                                    {"details", node.details},
                                    {"shape_per_token", node.shape},
                                    {"inputs", node.inputs}};
      if (!node.module.empty()) object["module"] = node.module;
      if (!node.storage.empty()) {
        object["storage"] = node.storage;
        object["weights"] = node.weights;
        object["bytes"] = node.bytes;
        object["flops_per_token"] = node.operations;
      }
      nodes.push_back(std::move(object));
    }
    sections.push_back({{"name", section.name}, {"blocks", section.blocks}, {"nodes", std::move(nodes)}});
  }
  return nlohmann::ordered_json{{"summary", graph.summary}, {"sections", std::move(sections)}}.dump(2) + "\n";
}

}  // namespace nibble::eval
