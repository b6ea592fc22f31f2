// Following gradients from op to op. Not public.
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

/// Traces the backward passes of one step. Not thread-safe: one thread's passes.
class BackwardTracer {
 public:
  void add_parameter(const TensorImpl* leaf, size_t which) {
    parameters_[leaf] = which;
    program.add_parameter(leaf, which);
  }

  void saw_node(const Node& node, std::span<const Tensor> incoming, std::span<const Tensor> outgoing);
  void saw_leaf(const Node& node);
  void saw_broadcast(const Tensor& a, const Tensor& b, const Tensor& result);
  /// Moves what was seen in this step into the history, whose sites may become more.
  void finish(int64_t step, History& history);

  ProgramTracer program;

 private:
  /// What came to a node that has not run yet.
  struct Waiting {
    int32_t from = Passage::loss;
    double most = 0, only = 0;
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

/// Adds a trace; when there are many, every second one goes. The newest stays.
void keep_trace(Trace&& trace, History& history);

/// While asked to, tells a tracer of this thread's backward passes and broadcasts, of what the program does besides,
/// and of kernels where the tracer searches. A tracer that is gone is told nothing.
void start_tracing(const Shared<BackwardTracer>& tracer);
void stop_tracing(const BackwardTracer* tracer);

}  // namespace weft::detail
