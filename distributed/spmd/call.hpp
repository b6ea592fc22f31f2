// Calls of any op on distributed tensors, by name.
//
//   const DTensor y = call("softmax", {x, -1});
//   const std::vector<DTensor> top = call_all("topk", {y, 5});
//   const DTensor z = (y + 1) * y;
//
// The rule in the op's record (<weft/ops/partition.hpp>) determines the placements of inputs and outputs. Inputs are
// resharded, each rank computes on its shards, and gradients are resharded back. Every rank of the mesh makes the same
// calls.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "../../ops/partition.hpp"
#include "dtensor.hpp"

namespace weft::distributed {

/// An argument: as weft::Value, or a distributed tensor. A plain tensor must be equal on all ranks.
using DValue = std::variant<std::monostate, DTensor, std::vector<DTensor>, Tensor, bool, int64_t, double, Dims, DType,
                            std::string, Generator*>;
using DValues = std::vector<DValue>;

/// The rule of a call, as a notation. Only shapes and dtypes of tensors matter; they may be on the device `meta`.
/// Raises the errors of the op.
WEFT_API Notation notation_of(const OpRecord& record, std::span<const Value> arguments);

/// Calls the op with this name; missing arguments have their defaults. An op without a rule gets whole tensors, with a
/// warning; so does an op whose output shapes depend on values. If gradients are recorded, axes that max, min and prod
/// reduce are gathered first. Random numbers start from the calling rank's generator, which must have the same state on
/// all ranks and advances equally; they differ between shards. Raises KeyError for an unknown op; ValueError if no
/// argument is distributed, if two are on different meshes, if an argument that the op writes would have to be
/// resharded, and unless the op returns one tensor; BadArgument and the op's own errors.
WEFT_API DTensor call(std::string_view op, const DValues& arguments, Location where = {});
/// The same for ops with any number of results.
WEFT_API std::vector<DTensor> call_all(std::string_view op, const DValues& arguments, Location where = {});

/// A distributed tensor or a number, with the call site.
struct DOperand {
  DOperand(const DTensor& x, Location where_ = {}) : value(x), where(where_) {}
  DOperand(double number, Location where_ = {}) : value(number), where(where_) {}
  DOperand(int64_t number, Location where_ = {}) : value(number), where(where_) {}
  DOperand(int number, Location where_ = {}) : value(int64_t{number}), where(where_) {}

  DValue value;
  Location where;
};
inline DTensor operator+(const DOperand& a, const DOperand& b) { return call("add", {a.value, b.value}, a.where); }
inline DTensor operator-(const DOperand& a, const DOperand& b) { return call("sub", {a.value, b.value}, a.where); }
inline DTensor operator*(const DOperand& a, const DOperand& b) { return call("mul", {a.value, b.value}, a.where); }
inline DTensor operator/(const DOperand& a, const DOperand& b) { return call("div", {a.value, b.value}, a.where); }
inline DTensor operator-(const DOperand& x) { return call("neg", {x.value}, x.where); }
inline DTensor matmul(const DTensor& a, const DTensor& b, Location where = {}) { return call("matmul", {a, b}, where); }

}  // namespace weft::distributed
