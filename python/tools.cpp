// The tools on hooks for Python: the anomaly guard, the profiler, pictures of graphs.
#include "../hooks/anomaly.hpp"
#include "../hooks/graph.hpp"
#include "../hooks/profiler.hpp"

#include <memory>

#include "caster.hpp"
#include "methods.hpp"
#include "replay.hpp"

namespace weft::python {

namespace {

/// A guard that begins and ends with a `with` block.
struct Guard {
  AnomalyOptions options;
  std::unique_ptr<AnomalyGuard> guard = {};
};

nb::dict node_dict(const Graph& graph, const GraphNode& node) {
  nb::dict out;
  out["op"] = node.op, out["name"] = node.name, out["location"] = node.where.text(), out["leaf"] = node.leaf;
  out["released"] = node.released, out["overwritten"] = node.overwritten;
  out["dtype"] = node.dtype ? nb::cast(*node.dtype) : nb::none();
  out["shape"] = nb::none();
  if (node.shape) out["shape"] = nb::tuple(nb::cast(std::vector<int64_t>(node.shape->begin(), node.shape->end())));
  int64_t saved = 0;
  for (const size_t buffer : node.saved) saved += graph.buffers[buffer].bytes;
  out["saved_bytes"] = saved;
  return out;
}

nb::dict event_dict(const ProfiledEvent& event) {
  constexpr const char* kinds[] = {"kernel", "node", "span"};
  nb::dict out;
  out["kind"] = kinds[static_cast<int>(event.kind)];
  out["backward"] = event.backward, out["op"] = event.op, out["called"] = event.called, out["kernel"] = event.kernel;
  out["location"] = event.where.text();
  out["begin_ns"] = event.begin, out["end_ns"] = event.end, out["allocated"] = event.allocated;
  out["shape"] = nb::tuple(nb::cast(std::vector<int64_t>(event.shape.begin(), event.shape.end())));
  out["device"] = event.device, out["thread"] = event.thread, out["stream"] = event.stream;
  return out;
}

void bind_graph(nb::module_& m) {
  nb::class_<Graph>(m, "Graph", "A recorded graph, as data and as a picture; in a notebook it shows itself.")
      .def("svg", &Graph::svg, "A self-contained picture: inputs at the top, the tensor at the bottom.")
      .def("dot", &Graph::dot, "The graph for Graphviz' dot.")
      .def("_repr_svg_", &Graph::svg)
      .def_prop_ro("saved_bytes", &Graph::saved_bytes, "Bytes kept for backward alone, each buffer once.")
      .def_prop_ro(
          "left_out", [](const Graph& self) { return self.left_out; }, "Nodes beyond most_nodes.")
      .def_prop_ro(
          "edges", [](const Graph& self) { return self.edges; },
          "From a producer to the node that reads its result, by their places in `nodes`.")
      .def_prop_ro(
          "nodes",
          [](const Graph& self) {
            nb::list out;
            for (const GraphNode& node : self.nodes) out.append(node_dict(self, node));
            return out;
          },
          "A dict for each node, the tensor's own first: op, name, location, leaf, released, overwritten, dtype, "
          "shape, saved_bytes.");
  m.def("_draw_graph", [](const Tensor& tensor, const std::vector<std::pair<std::string, Tensor>>& names, bool shapes,
                          size_t max_nodes) {
    GraphOptions options{.shapes = shapes, .most_nodes = max_nodes};
    for (const auto& [name, leaf] : names) options.names.emplace_back(name, leaf);
    const Location where = here();
    return draw_graph(tensor, options, where);
  });
}

}  // namespace

/// Names of the ops whose first argument is a tensor, and which so are methods.
static nb::set ops_of_tensors() {
  nb::set names;
  for (const std::span<const OpRecord> table : {method_table(), op_records()}) {
    for (const OpRecord& op : table) {
      const std::vector<Argument>& arguments = op.signature().arguments;
      using Kind = ArgumentType::Kind;
      const Kind kind = arguments.empty() || arguments[0].variadic ? Kind::any : arguments[0].type.kind;
      if (kind == Kind::tensor || kind == Kind::operand) names.add(nb::str(op.name));
    }
  }
  return names;
}

void bind_tools(nb::module_& m) {
  m.def("_ops_of_tensors", ops_of_tensors);
  nb::class_<Guard>(m, "_AnomalyGuard")
      .def("__init__",
           [](Guard* self, bool forward, bool backward, const std::string& repro) {
             new (self) Guard{{.backward = backward, .forward = forward, .repro = repro}};
           })
      .def("enter", [](Guard& self) { self.guard = std::make_unique<AnomalyGuard>(self.options); })
      .def("leave", [](Guard& self) { self.guard.reset(); });
  nb::class_<Profiler>(m, "_Profiler")
      .def("__init__",
           [](Profiler* self, bool synchronize, bool device_spans, size_t most_events) {
             new (self)
                 Profiler({.synchronize = synchronize, .device_spans = device_spans, .most_events = most_events});
           })
      .def(
          "start", [](Profiler& self) { self.start(here()); }, "Begins; events of an earlier run are dropped.")
      .def(
          "stop", [](Profiler& self) { self.stop(here()); }, "Ends, on the thread that started it.")
      .def(
          "table",
          [](const Profiler& self, bool by_line, size_t rows) {
            return self.table({by_line, rows});
          },
          nb::arg("by_line") = false, nb::arg("rows") = 25, "Ops by the time of their kernels, for a terminal.")
      .def("chrome_trace", &Profiler::chrome_trace, "Text in Chrome's trace format, for ui.perfetto.dev.")
      .def_prop_ro(
          "events",
          [](const Profiler& self) {
            nb::list out;
            for (const ProfiledEvent& event : self.events()) out.append(event_dict(event));
            return out;
          },
          "A dict for each event: kind (kernel, node, span), backward, op, called, kernel, location, begin_ns, end_ns, "
          "allocated, shape, device, thread, stream.");
  bind_graph(m);
  bind_replay(m);
}

}  // namespace weft::python
