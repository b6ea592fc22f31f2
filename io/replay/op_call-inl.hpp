// The op call that launched a faulty kernel: found from the kernel's inputs, converted to C++ and JSON, and replayed.
// Internal to io/.
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
  /// Belongs to the op's record, which lives longer.
  std::string op;
  /// Arguments of the record's function; tensors are on the CPU.
  Values arguments;

  const OpRecord& record() const;
  /// Each tensor with a unique name: the argument's name, with an index in a list.
  std::vector<std::pair<std::string, Tensor>> tensors() const;
};

/// Results of a call, on its device.
struct OpResult {
  std::vector<Tensor> results;
  /// Gradients of the tensor arguments; undefined if an argument has none.
  std::vector<Tensor> gradients;
};
/// Runs the call on a device, and its backward if `arriving` is defined. Raises the op's errors.
OpResult run(const OpCall& call, Device device, const Tensor& arriving);
/// Whether any element of the tensors is NaN (with `nan`) or infinite (with `inf`).
bool has_fault(const std::vector<Tensor>& tensors, bool nan, bool inf);

/// Searches the calls of these ops for one with a kernel of the same sizes, parameters and, bit for bit, the output of
/// the kept call. `known`: tensors that the op's node saved. Takes at most some seconds.
std::optional<OpCall> find_op_call(const KeptCall& kept, const Tensor& output, std::span<const std::string> ops,
                                   std::span<const Tensor> known);

/// Whether both are the same number, text or list of sizes.
bool same_value(const Value& a, const Value& b);
/// "softmax(x, 1)"
std::string short_text(const OpCall& call);
/// Source lines of a program that loads, runs and prints the call, and returns 1 if the fault occurs.
std::string program_of(const OpCall& call, bool backward);

JsonTree json_of(const OpCall& call);
OpCall op_call_in(const JsonNode& place, const TensorMap& tensors);

}  // namespace weft::io
