// Objects and attributes of the cuDNN replacement.
#pragma once

#include <cudnn_graph.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <vector>

#include "stand_in.hpp"

namespace weft::testing::dnn {

using Type = cudnnBackendAttributeType_t;

struct Value {
  Type type;
  int64_t count;
  std::vector<char> bytes;
};

struct Object {
  cudnnBackendDescriptorType_t type;
  std::map<int, Value> values;
  bool finished = false;
  int engine = 0;           ///< of an engine and its configuration
  Object* graph = nullptr;  ///< of a configuration
};

/// cuDNN would copy it; here it lives as long as the program.
inline Object* object(void* handle) { return static_cast<Object*>(handle); }

template <class T>
std::vector<T> all(const Object& o, int name) {
  const auto found = o.values.find(name);
  if (found == o.values.end()) return {};
  std::vector<T> values(static_cast<size_t>(found->second.count));
  std::memcpy(values.data(), found->second.bytes.data(), values.size() * sizeof(T));
  return values;
}
template <>
inline std::vector<bool> all<bool>(const Object& o, int name) {
  const auto bytes = all<char>(o, name);
  return {bytes.begin(), bytes.end()};
}
template <class T>
T one(const Object& o, int name) {
  const std::vector<T> values = all<T>(o, name);
  return values.empty() ? T{} : values[0];
}
inline Object* part(const Object& o, int name) { return object(one<void*>(o, name)); }

struct Tensor {
  int64_t id, alignment;
  cudaDataType_t type;
  std::vector<int64_t> sizes, strides;
};
Tensor tensor_of(const Object&);

/// Goes through all positions of `sizes`.
bool advance(std::vector<int64_t>& at, const std::vector<int64_t>& sizes);
int64_t place(const Tensor&, const std::vector<int64_t>& at);

/// The memory of a tensor, by its id; nullptr where the call gave none, or none that is aligned as it was said to be.
using Memory = std::function<char*(const Tensor&)>;

/// Of a graph of one convolution and of a chain of operations: whether sizes follow from one another, as cuDNN
/// requires, and the work on memory, none where a tensor has no memory.
bool is_right_convolution(const Object& operation);
std::function<void()> convolution(const Object& operation, const Memory&, bool in_tf32);
bool is_right_chain(const std::vector<Object*>& operations);
std::function<void()> chain(const std::vector<Object*>& operations, const Memory&);

}  // namespace weft::testing::dnn
