// The fields and names of kernel parameters, for CallWriter and CallReader.
//
// CallWriter and CallReader are generated from the signatures of KernelTable, so a new kernel reaches plug-ins
// without an edit.
#pragma once

#include <algorithm>
#include <type_traits>
#include <vector>

#include "marshal.hpp"
#include "../functors/lists.hpp"

namespace weft::plugin {

/// A parameter as the visitor sees it: read for a writer, filled for a reader.
template <class Visitor, class T>
using Part = std::conditional_t<Visitor::reads, T, const T>;

#define WEFT_OP_NAME(name, ...) #name,
constexpr const char* names_of(UnaryOp op) {
  constexpr const char* names[] = {WEFT_UNARY_OPS(WEFT_OP_NAME)};
  return names[static_cast<int>(op)];
}
constexpr const char* names_of(BinaryOp op) {
  constexpr const char* names[] = {WEFT_BINARY_OPS(WEFT_OP_NAME) WEFT_INTEGER_OPS(WEFT_OP_NAME)};
  return names[static_cast<int>(op)];
}
constexpr const char* names_of(CompareOp op) {
  constexpr const char* names[] = {WEFT_COMPARE_OPS(WEFT_OP_NAME)};
  return names[static_cast<int>(op)];
}
constexpr const char* names_of(TernaryOp op) {
  constexpr const char* names[] = {WEFT_TERNARY_OPS(WEFT_OP_NAME)};
  return names[static_cast<int>(op)];
}
constexpr const char* names_of(OptimizerStep step) {
  constexpr const char* names[] = {WEFT_OPTIMIZER_STEPS(WEFT_OP_NAME)};
  return names[static_cast<int>(step)];
}
#undef WEFT_OP_NAME
constexpr const char* names_of(Reduction r) {
  constexpr const char* names[] = {"sum", "mean", "prod", "max", "min", "any", "all"};
  return names[static_cast<int>(r)];
}
constexpr const char* names_of(ArgReduction r) { return r == ArgReduction::max ? "max" : "min"; }
constexpr const char* names_of(Distribution d) {
  constexpr const char* names[] = {"uniform", "normal", "bernoulli", "integers"};
  return names[static_cast<int>(d)];
}
constexpr const char* names_of(Scatter s) {
  constexpr const char* names[] = {"replace", "sum", "prod", "max", "min"};
  return names[static_cast<int>(s)];
}
constexpr const char* names_of(Pool p) { return p == Pool::max ? "max" : "mean"; }
constexpr const char* names_of(Cell c) {
  constexpr const char* names[] = {"tanh", "relu", "lstm", "gru"};
  return names[static_cast<int>(c)];
}
constexpr const char* names_of(Activation a) {
  constexpr const char* names[] = {"none", "relu", "gelu", "gelu_tanh", "silu", "selu"};
  return names[static_cast<int>(a)];
}
constexpr const char* names_of(Convolution c) {
  constexpr const char* names[] = {"forward", "by_data", "by_weight"};
  return names[static_cast<int>(c)];
}

/// How many enumerators there are.
template <class E>
constexpr int count_of() {
  if constexpr (requires { E::count; }) return static_cast<int>(E::count);
  else if constexpr (std::is_same_v<E, Reduction>) return static_cast<int>(Reduction::all) + 1;
  else if constexpr (std::is_same_v<E, ArgReduction>) return static_cast<int>(ArgReduction::min) + 1;
  else if constexpr (std::is_same_v<E, Distribution>) return static_cast<int>(Distribution::integers) + 1;
  else if constexpr (std::is_same_v<E, Scatter>) return static_cast<int>(Scatter::min) + 1;
  else if constexpr (std::is_same_v<E, Pool>) return static_cast<int>(Pool::mean) + 1;
  else if constexpr (std::is_same_v<E, Cell>) return static_cast<int>(Cell::gru) + 1;
  else if constexpr (std::is_same_v<E, Activation>) return static_cast<int>(Activation::selu) + 1;
  else return static_cast<int>(E::by_weight) + 1;
}

/// Parameters that are one number each, and have no name of their own in C++.
template <class T>
concept Number = std::is_arithmetic_v<T> || std::is_same_v<T, Scalar>;

template <class V>
void describe(V& v, Part<V, View>& view) {
  v.view(view);
}
template <class V, Number T>
void describe(V& v, T& number) {
  v.number(v.next_name(), number);
}
template <class V, class E>
  requires std::is_enum_v<E>
void describe(V& v, E& value) {
  if constexpr (V::reads) value = static_cast<E>(v.variant(count_of<E>()));
  else v.variant(static_cast<int>(value), names_of(value));
}
template <class V>
void describe(V& v, Part<V, PhiloxSeed>& seed) {
  v.number("key", seed.key);
  v.number("subsequence", seed.subsequence);
  v.number("offset", seed.offset);
}
template <class V>
void describe(V& v, Part<V, ConvolutionSteps>& steps) {
  v.list("stride", steps.stride, 3);
  v.list("padding", steps.padding, 3);
  v.list("dilation", steps.dilation, 3);
  v.number("groups", steps.groups);
}
template <class V>
void describe(V& v, Part<V, AttentionPlan>& plan) {
  v.number("scale", plan.scale);
  v.number("before", plan.before);
  v.number("after", plan.after);
  v.number("at_end", plan.at_end);
  v.number("block_size", plan.block_size);
  v.number("most_queries", plan.most_queries);
  v.number("most_keys", plan.most_keys);
  v.view(plan.slopes);
  v.view(plan.sequences);
  v.view(plan.blocks);
}
template <class V>
void describe(V& v, Part<V, PoolPlan>& plan) {
  for (auto& line : plan.lines) {
    v.number("size", line.size);
    v.number("stride", line.stride);
    v.number("padding", line.padding);
    v.number("dilation", line.dilation);
    v.list("extents", line.extents);
  }
}
template <class V>
void describe(V& v, Part<V, RecurrentSteps>& steps) {
  v.number("count", steps.count);
  v.number("reverse", steps.reverse);
  v.list("rows", steps.rows);
}
template <class V>
void describe(V& v, Part<V, IndexPlan>& plan) {
  const int count = v.views_left(plan.count, max_rank);
  int64_t dims[max_rank] = {};
  for (int i = 0; i < count; ++i) v.view(plan.indices[i]);
  if constexpr (V::reads) plan.count = count;
  else std::copy_n(plan.dims, count, dims);
  v.list("sizes", plan.sizes, count);
  v.list("strides", plan.strides, count);
  v.list("dims", dims, count);
  if constexpr (V::reads) std::copy_n(dims, count, plan.dims);
  v.number("wraps", plan.wraps);
}
template <class V, class Slots>
  requires std::is_same_v<typename std::remove_cvref_t<Slots>::value_type, OptimizerSlot>
void describe(V& v, Slots& slots) {
  if constexpr (V::reads) slots.resize(static_cast<size_t>(v.views_left(0, 1 << 24) / 5));
  for (auto& s : slots) {
    v.view(s.parameter);
    for (auto& state : s.state) v.view(state);
  }
  v.gradients_follow();
  for (auto& s : slots) v.view(s.gradient);
}
template <class V>
void describe(V& v, Part<V, OptimizerSettings>& s) {
  v.number("sign", s.sign), v.number("l2", s.l2), v.number("keep", s.keep);
  v.number("rate", s.rate), v.number("gradient_rate", s.gradient_rate);
  v.number("decay1", s.decay1), v.number("fresh1", s.fresh1);
  v.number("decay2", s.decay2), v.number("fresh2", s.fresh2);
  v.number("root", s.root), v.number("epsilon", s.epsilon);
  v.number("shrink", s.shrink), v.number("grow", s.grow), v.number("least", s.least), v.number("most", s.most);
  int flags = s.decays | s.nesterov << 1 | s.first << 2 | s.rectified << 3;
  v.number("flags", flags);
  if constexpr (V::reads) {
    s.decays = flags & 1, s.nesterov = flags >> 1 & 1, s.first = flags >> 2 & 1, s.rectified = flags >> 3 & 1;
  }
}

}  // namespace weft::plugin
