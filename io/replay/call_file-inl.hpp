// A kernel call as call.json and tensors.safetensors. Internal to io/.
#pragma once

#include <string>
#include <vector>

#include "op_call-inl.hpp"
#include "../path.hpp"
#include "../../backends/plugin/marshal.hpp"
#include "../../tensor/index.hpp"

namespace weft::io {

/// One view of a call.
struct KeptView {
  /// Data is null if the view was absent.
  Layout layout;
  bool absent = false;
  /// Index of an earlier view with the same memory; -1 for none.
  int same_as = -1;
  /// Elements on the CPU; broadcast dimensions are stored once, with size 1. Undefined if the kernel only writes the
  /// view.
  Tensor elements;
};

/// A numeric parameter or a list of numbers.
struct KeptAttribute {
  std::string name;
  int kind;
  /// Integers, or doubles.
  std::vector<int64_t> whole;
  std::vector<double> real;
};

struct KeptCall {
  std::string kernel, variant_name, op, file, device;
  int64_t line = 0;
  bool backward = false;
  int variant = -1, outputs = 0;
  /// The faulty view, and the type of fault.
  int bad = 0;
  bool nan = false, inf = false;
  std::vector<KeptView> views;
  std::vector<KeptAttribute> attributes;
  std::vector<Tensor> arrived;
  /// The op's call, if it was found.
  std::optional<OpCall> call;
};

inline constexpr const char* call_file = "call.json";
inline constexpr const char* tensor_file = "tensors.safetensors";

/// Sizes with 1 for each broadcast dimension.
Dims sizes_once(const Layout& layout);
/// A kernel call without elements, and its views.
KeptCall listed_call(const WeftKernelCall& call, std::vector<View>& views);
/// The elements of a view on its device, with broadcast dimensions stored once.
Tensor elements_of(const View& view);
void write_call(const KeptCall& call, const Path& folder, Location where);
KeptCall read_call(const Path& folder, Location where);

}  // namespace weft::io
