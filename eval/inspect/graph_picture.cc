#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "eval/inspect/graph_text.h"

// The picture: sections side by side, each with its nodes in ranks from top to bottom.
namespace nibble::eval {
namespace {

constexpr double kCharacter = 6.9, kLine = 14.0, kPadding = 8.0, kGapX = 18.0, kGapY = 30.0, kMargin = 24.0;

struct Box {
  std::vector<std::string> lines;
  std::size_t rank = 0;
  double x = 0.0, y = 0.0, width = 0.0, height = 0.0;
};

struct Picture {
  std::vector<Box> boxes;
  double width = 0.0, height = 0.0;
};

std::size_t characters(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '<')
      result += "&lt;";
    else if (c == '>')
      result += "&gt;";
    else if (c == '&')
      result += "&amp;";
    else
      result += c;
  }
  return result;
}

// Rank: the longest way from what comes in. Ranks are rows, centred; within one the order is that of the nodes.
Picture lay_out(const GraphSection& section) {
  Picture picture;
  std::size_t ranks = 0;
  for (const GraphNode& node : section.nodes) {
    Box box;
    box.lines = node_lines(node);
    for (const std::size_t input : node.inputs) box.rank = std::max(box.rank, picture.boxes[input].rank + 1);
    std::size_t longest = 0;
    for (const std::string& line : box.lines) longest = std::max(longest, characters(line));
    box.width = static_cast<double>(longest) * kCharacter + 2 * kPadding;
    box.height = static_cast<double>(box.lines.size()) * kLine + kPadding;
    ranks = std::max(ranks, box.rank + 1);
    picture.boxes.push_back(std::move(box));
  }
  std::vector<double> widths(ranks), heights(ranks);
  for (const Box& box : picture.boxes) {
    widths[box.rank] += box.width + (widths[box.rank] > 0.0 ? kGapX : 0.0);
    heights[box.rank] = std::max(heights[box.rank], box.height);
  }
  picture.width = *std::max_element(widths.begin(), widths.end());
  std::vector<double> x(ranks);
  for (std::size_t r = 0; r < ranks; ++r) x[r] = (picture.width - widths[r]) / 2;
  std::vector<double> y(ranks);
  for (std::size_t r = 1; r < ranks; ++r) y[r] = y[r - 1] + heights[r - 1] + kGapY;
  picture.height = y.back() + heights.back();
  for (Box& box : picture.boxes) {
    box.x = x[box.rank];
    box.y = y[box.rank];
    x[box.rank] += box.width + kGapX;
  }
  return picture;
}

// From the bottom of `from` to the top of `to`; one that jumps over ranks keeps to the side.
std::string edge(const Box& from, const Box& to, double right) {
  const double x0 = from.x + from.width / 2, y0 = from.y + from.height, x1 = to.x + to.width / 2, y1 = to.y;
  std::string path;
  if (to.rank == from.rank + 1) {
    const double middle = (y0 + y1) / 2;
    path = fmt::format("M{:.1f},{:.1f} C{:.1f},{:.1f} {:.1f},{:.1f} {:.1f},{:.1f}", x0, y0, x0, middle, x1, middle, x1,
                       y1);
  } else {
    const double side = right + 12.0 + 4.0 * static_cast<double>(to.rank - from.rank);
    path = fmt::format(
        "M{:.1f},{:.1f} C{:.1f},{:.1f} {:.1f},{:.1f} {:.1f},{:.1f} L{:.1f},{:.1f} C{:.1f},{:.1f} {:.1f},{:.1f} "
        "{:.1f},{:.1f}",
        from.x + from.width, y0 - from.height / 2, side, y0 - from.height / 2, side, y0, side, y0 + 10, side, y1 - 24,
        side, y1 - 8, x1 + 8, y1 - 14, x1 + 4, y1);
  }
  return fmt::format("<path d=\"{}\" marker-end=\"url(#tip)\"/>\n", path);
}

}  // namespace

std::string graph_svg(const ModelGraph& graph) {
  constexpr double kTitle = 40.0, kSide = 70.0;  // room for the heading; for edges along the side of a section
  std::vector<Picture> pictures;
  double width = kMargin, height = 0.0;
  for (const GraphSection& section : graph.sections) {
    pictures.push_back(lay_out(section));
    width += pictures.back().width + kSide + kMargin;
    height = std::max(height, pictures.back().height);
  }
  height += 2 * kMargin + 2 * kTitle;
  std::string body;
  double x = kMargin;
  for (std::size_t s = 0; s < pictures.size(); ++s) {
    const Picture& picture = pictures[s];
    body += fmt::format("<g transform=\"translate({:.1f},{:.1f})\">\n", x, kMargin + 2 * kTitle - 10.0);
    body += fmt::format("<text class=\"name\" x=\"0\" y=\"-14\">{}</text>\n", escaped(graph.sections[s].name));
    for (std::size_t n = 0; n < picture.boxes.size(); ++n)
      for (const std::size_t input : graph.sections[s].nodes[n].inputs)
        body += edge(picture.boxes[input], picture.boxes[n], picture.width);
    for (std::size_t n = 0; n < picture.boxes.size(); ++n) {
      const Box& box = picture.boxes[n];
      const bool has_weight = !graph.sections[s].nodes[n].storage.empty();
      body +=
          fmt::format("<rect class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" rx=\"4\"/>\n",
                      has_weight ? "weight" : "plain", box.x, box.y, box.width, box.height);
      for (std::size_t line = 0; line < box.lines.size(); ++line)
        body += fmt::format("<text class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", line == 0 ? "title" : "line",
                            box.x + kPadding, box.y + kLine * static_cast<double>(line + 1), escaped(box.lines[line]));
    }
    body += "</g>\n";
    x += picture.width + kSide + kMargin;
  }
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} "
      "{1:.0f}\">\n"
      "<style>text{{font:11px monospace;fill:#1b1f24}}.name{{font:bold 14px sans-serif}}.title{{font-weight:bold}}"
      "rect{{stroke:#6b7785}}.weight{{fill:#e8eef7}}.plain{{fill:#ffffff}}path{{fill:none;stroke:#6b7785}}</style>\n"
      "<defs><marker id=\"tip\" markerWidth=\"8\" markerHeight=\"8\" refX=\"7\" refY=\"4\" orient=\"auto\">"
      "<path d=\"M0,0 L8,4 L0,8 z\" style=\"fill:#6b7785\"/></marker></defs>\n"
      "<rect width=\"100%\" height=\"100%\" style=\"fill:#ffffff;stroke:none\"/>\n"
      "<text class=\"name\" x=\"{2:.0f}\" y=\"{3:.0f}\">{4}</text>\n{5}</svg>\n",
      width, height, kMargin, kMargin + 10.0, escaped(graph.summary), body);
}

}  // namespace nibble::eval
