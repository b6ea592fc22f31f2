#include "../graph.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "../detail/graph_layout.hpp"
#include "../detail/graph_text.hpp"
#include "../detail/text.hpp"

namespace weft {

namespace {

constexpr double line_height = 15, margin = 24, header = 52;

constexpr const char* style =
    "<style>\n"
    "  text { font: 11px system-ui, \"DejaVu Sans\", sans-serif; fill: #57606a; }\n"
    "  .head { font-size: 14px; font-weight: 600; fill: #1f2328; } .op { font-size: 12px; font-weight: 600; }\n"
    "  .op, .name { fill: #1f2328; } .ground { fill: #ffffff; }\n"
    "  .node rect { fill: #f6f8fa; stroke: #d0d7de; } .leaf rect { fill: #ddf4ff; stroke: #80ccff; }\n"
    "  .keeps rect { stroke: #bf8700; } .broken rect { fill: #ffebe9; stroke: #cf222e; stroke-width: 2; }\n"
    "  .root rect { stroke: #1f2328; stroke-width: 1.6; } .way { fill: none; stroke: #8c959f; } #tip path { fill: "
    "#8c959f; }\n"
    "  .saved { fill: #7d4e00; } .alarm { fill: #cf222e; font-weight: 600; }\n"
    "  @media (prefers-color-scheme: dark) {\n"
    "    text { fill: #9198a1; } .head, .op, .name { fill: #e6edf3; } .ground { fill: #0d1117; }\n"
    "    .node rect { fill: #161b22; stroke: #3d444d; } .leaf rect { fill: #0c2d52; stroke: #1f6feb; }\n"
    "    .keeps rect { stroke: #9e6a03; } .broken rect { fill: #3c1618; stroke: #f85149; }\n"
    "    .root rect { stroke: #e6edf3; } .way { stroke: #6e7681; } #tip path { fill: #6e7681; }\n"
    "    .saved { fill: #e3b341; } .alarm { fill: #ff7b72; }\n"
    "  }\n"
    "</style>\n";

// Letters of a proportional font are about 6.3 units wide at this size, capitals and digits wider.
double width_of(const std::string& text, double size) {
  double units = 0;
  for (char c : text) {
    const auto u = static_cast<unsigned char>(c);
    if ((u & 0xc0) == 0x80) continue;
    units += (c >= 'A' && c <= 'Z') || c == '_' ? 0.70
             : c == 'm' || c == 'w'             ? 0.9
             : c == 'i' || c == 'l' || c == '.' ? 0.36
                                                : 0.62;
  }
  return units * size;
}

detail::Box box_of(const std::vector<std::string>& lines, int layer) {
  double width = 60;
  for (size_t i = 0; i < lines.size(); ++i) width = std::max(width, width_of(lines[i], i == 0 ? 12.5 : 11) + 20);
  return {.width = width, .height = static_cast<double>(lines.size()) * line_height + 9, .layer = layer};
}

/// The drawn graph. A leaf that ops on several layers read is drawn next to each of them, to avoid long edges.
struct Picture {
  std::vector<detail::Box> boxes;
  /// The node of each box.
  std::vector<size_t> nodes;
  std::vector<std::pair<size_t, size_t>> edges;

  explicit Picture(const Graph& graph) {
    std::vector<bool> far(graph.nodes.size());
    for (const auto& [from, to] : graph.edges) {
      if (graph.nodes[from].leaf && graph.nodes[from].depth > graph.nodes[to].depth + 1) far[from] = true;
    }
    std::vector<size_t> box(graph.nodes.size());
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      if (!far[i]) box[i] = add(graph, i, graph.nodes[i].depth);
    }
    for (const auto& [from, to] : graph.edges) {
      edges.emplace_back(far[from] ? add(graph, from, graph.nodes[to].depth + 1) : box[from], box[to]);
    }
  }

 private:
  size_t add(const Graph& graph, size_t node, int layer) {
    boxes.push_back(box_of(detail::node_lines(graph, graph.nodes[node]), layer));
    nodes.push_back(node);
    return boxes.size() - 1;
  }
};

std::string tip_of(const Graph& graph, const GraphNode& node) {
  std::string out = node.where.known() ? node.op + " at " + node.where.text() : node.op;
  for (size_t b : node.saved) {
    const SavedBuffer& buffer = graph.buffers[b];
    out += "\nkeeps " + detail::bytes_text(buffer.bytes);
    if (buffer.of_leaf) out += " of a leaf";
    if (buffer.users > 1) out += fmt::format(", as {} nodes do", buffer.users);
    if (const std::string letter = detail::buffer_letter(graph, b); !letter.empty()) out += ": " + letter;
  }
  return out;
}

const char* class_of_line(const std::string& line, size_t i, const GraphNode& node) {
  if (i == 0) return "op";
  if (line.starts_with("keeps")) return "saved";
  return line.starts_with("OVERWRITTEN") || (node.released && line == "freed") ? "alarm" : "";
}

std::string drawn(const Graph& graph, size_t index, const detail::Box& box) {
  const GraphNode& node = graph.nodes[index];
  const auto lines = detail::node_lines(graph, node);
  const bool keeps =
      std::any_of(node.saved.begin(), node.saved.end(), [&](size_t b) { return !graph.buffers[b].of_leaf; });
  std::string kind = node.overwritten ? " broken" : node.leaf ? " leaf" : keeps ? " keeps" : "";
  if (index == 0) kind += " root";
  std::string out = fmt::format(
      "<g class=\"node{}\"><title>{}</title><rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" "
      "rx=\"6\"/>\n",
      kind, detail::markup(tip_of(graph, node)), box.x - box.width / 2, box.y - box.height / 2, box.width, box.height);
  for (size_t i = 0; i < lines.size(); ++i) {
    out += fmt::format("<text class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>\n",
                       class_of_line(lines[i], i, node), box.x,
                       box.y - box.height / 2 + line_height * static_cast<double>(i + 1) + 1, detail::markup(lines[i]));
  }
  return out + "</g>\n";
}

// Joins the points by curves with vertical tangents.
std::string drawn(const std::vector<detail::Point>& way) {
  std::string d = fmt::format("M{:.1f} {:.1f}", way[0].x, way[0].y);
  for (size_t i = 1; i < way.size(); ++i) {
    const double last = i + 1 == way.size() ? 5 : 0, y = way[i].y - last, half = (way[i - 1].y + y) / 2;
    d += fmt::format("C{:.1f} {:.1f} {:.1f} {:.1f} {:.1f} {:.1f}", way[i - 1].x, half, way[i].x, half, way[i].x, y);
  }
  return fmt::format("<path class=\"way\" d=\"{}\" marker-end=\"url(#tip)\"/>\n", d);
}

}  // namespace

std::string Graph::svg() const {
  Picture picture(*this);
  const detail::LaidOut place = detail::lay_out(picture.boxes, picture.edges);
  const std::string summary = detail::graph_summary(*this);
  const double width = std::max(place.width + 2 * margin, width_of(summary, 14) + 2 * margin);
  const double shift = (width - place.width) / 2, height = place.height + header + margin;
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" "
      "height=\"{1:.0f}\">\n{2}<defs><marker id=\"tip\" viewBox=\"0 0 8 8\" refX=\"2\" refY=\"4\" markerWidth=\"7\" "
      "markerHeight=\"7\" orient=\"auto\"><path d=\"M0 0L8 4L0 8Z\"/></marker></defs>\n"
      "<rect class=\"ground\" width=\"{0:.0f}\" height=\"{1:.0f}\"/>\n"
      "<text class=\"head\" x=\"{3}\" y=\"30\">{4}</text>\n<g transform=\"translate({5:.1f} {6})\">\n",
      width, height, style, margin, detail::markup(summary), shift, header);
  for (const auto& way : place.ways) out += drawn(way);
  for (size_t i = 0; i < picture.boxes.size(); ++i) out += drawn(*this, picture.nodes[i], picture.boxes[i]);
  return out + "</g>\n</svg>\n";
}

}  // namespace weft
