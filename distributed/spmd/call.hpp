// Every op on tensors in parts, by its name.
//
//   const DTensor y = call("softmax", {x, -1});
//   const std::vector<DTensor> top = call_all("topk", {y, 5});
//   const DTensor z = (y + 1) * y;
//
// The rule of the op's record (<weft/ops/partition.hpp>) says which parts it needs and what it leaves. Inputs are moved
// there, each rank computes on its parts, and gradients go the way back. Every rank of the mesh makes the same calls.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "../../ops/partition.hpp"
#include "dtensor.hpp"

namespace weft::distributed {

/// An argument: as weft::Value, with tensors in parts. A plain tensor is one that all ranks have alike.
using DValue = std::variant<std::monostate, DTensor, std::vector<DTensor>, Tensor, bool, int64_t, double, Dims, DType,
                            std::string, Generator*>;
using DValues = std::vector<DValue>;

/// The rule of a call, as a notation. Of tensors the shapes and dtypes count alone; those on the device `meta` will do.
/// Errors as those of the op.
WEFT_API Notation notation_of(const OpRecord& record, std::span<const Value> arguments);

/// The op of that name; arguments that are left out have their defaults. An op without a rule, and one whose shapes
/// follow from values, gets whole tensors; of one without a rule a warning tells. Where gradients are recorded, axes
/// that max, min and prod reduce are made whole first. Random numbers begin with the calling rank's generator, which
/// moves on alike on all ranks, and differ from part to part. KeyError for an unknown op; ValueError where no argument
/// is in parts, where two are on different meshes, where an argument that the op writes would have to move, and unless
/// the op gives one tensor; BadArgument and the op's own errors as from its record.
WEFT_API DTensor call(std::string_view op, const DValues& arguments, Location where = {});
/// The same for ops of any number of results.
WEFT_API std::vector<DTensor> call_all(std::string_view op, const DValues& arguments, Location where = {});

/// A tensor in parts or a number, with the place of the call.
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
