// Labels in the drawing of a graph. Not public.
#pragma once

#include <string>
#include <vector>

#include "../graph.hpp"

namespace weft::detail {

std::string bytes_text(int64_t bytes);
/// "A", "B", …: the name of a buffer that several nodes keep; empty for others.
std::string buffer_letter(const Graph& graph, size_t buffer);
/// Lines of a node's label, the title first.
std::vector<std::string> node_lines(const Graph& graph, const GraphNode& node);
std::string graph_summary(const Graph& graph);

}  // namespace weft::detail
