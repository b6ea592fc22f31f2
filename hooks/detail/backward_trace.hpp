// Traces gradients from op to op. Not public.
#pragma once

#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "../../autograd/node.hpp"
#include "../history.hpp"
#include "program_tracer.hpp"

namespace weft::detail {

/// Traces the backward passes of one step. Not thread-safe; for the passes of one thread.
class BackwardTracer {
 public:
  void add_parameter(const TensorImpl* leaf, size_t index) {
    parameters_[leaf] = index;
    program.add_parameter(leaf, index);
  }

  void saw_node(const Node& node, std::span<const Tensor> incoming, std::span<const Tensor> outgoing);
  void saw_leaf(const Node& node);
  void saw_broadcast(const Tensor& a, const Tensor& b, const Tensor& result);
  /// Moves the observations of this step into the history, and adds new sites to it.
  void finish(int64_t step, History& history);

  ProgramTracer program;

 private:
  /// The gradients that arrived at a node that has not run yet.
  struct Waiting {
    int32_t from = Passage::loss;
    double largest_norm = 0, last_norm = 0;
    int senders = 0;
  };
  size_t site_of(const Node& node);
  void feeding_parameters(const Node& node, int depth, std::vector<size_t>& out) const;

  std::unordered_map<const TensorImpl*, size_t> parameters_;
  std::unordered_map<const Node*, Waiting> waiting_;
  std::map<std::pair<std::string, std::string>, size_t> numbers_;
  std::vector<OpSite> sites_;
  std::vector<MutualBroadcast> broadcasts_;
  Trace trace_;
};

/// Adds a trace. If there are too many, every second one is dropped, but never the newest.
void keep_trace(Trace&& trace, History& history);

/// Between these calls, the tracer receives this thread's backward passes, broadcasts and other events of the program,
/// and kernels if the tracer searches. An expired tracer receives nothing.
void start_tracing(const Shared<BackwardTracer>& tracer);
void stop_tracing(const BackwardTracer* tracer);

}  // namespace weft::detail
