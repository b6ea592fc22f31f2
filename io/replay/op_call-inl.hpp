// The call of an op whose kernel made a fault: found from what the kernel read, as C++, as JSON, and run. Internal to
// io/.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "../json/json_tree-inl.hpp"
#include "../safetensors.hpp"
#include "../../ops/record.hpp"

namespace weft::io {

struct KeptCall;

struct OpCall {
  /// Of its record, which outlives it.
  std::string op;
  /// As the record's function takes them; tensors are on the CPU.
  Values arguments;

  const OpRecord& record() const;
  /// Each tensor with a name of its own: the argument's, numbered in a list.
  std::vector<std::pair<std::string, Tensor>> tensors() const;
};

/// What running it gave, on its device.
struct OpResult {
  std::vector<Tensor> results;
  /// Of the tensor arguments, where a gradient arrived; undefined for those that have none.
  std::vector<Tensor> gradients;
};
/// Runs it on a device, and its backward where a gradient arrives at its result. The op's own errors.
OpResult run(const OpCall& call, Device device, const Tensor& arriving);
/// Whether an element of any of them is what was found.
bool has_fault(const std::vector<Tensor>& tensors, bool nan, bool inf);

/// Looks for the call among those of the ops named: whose kernel has the sizes, the parameters and, bit for bit, the
/// output of the kept one. `known`: tensors that the op's node kept. Takes some seconds at most.
std::optional<OpCall> find_op_call(const KeptCall& kept, const Tensor& output, std::span<const std::string> ops,
                                   std::span<const Tensor> known);

/// Whether both are the same number, text or list of sizes.
bool same_value(const Value& a, const Value& b);
/// "softmax(x, 1)"
std::string short_text(const OpCall& call);
/// Lines of a program that load, run and show it, and end with 1 where the fault is there.
std::string program_of(const OpCall& call, bool backward);

JsonTree json_of(const OpCall& call);
OpCall op_call_in(const JsonPlace& place, const TensorMap& tensors);

}  // namespace weft::io
