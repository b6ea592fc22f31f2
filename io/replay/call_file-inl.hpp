// A kernel's call as call.json and tensors.safetensors. Internal to io/.
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
  /// Without data where it was absent.
  Layout layout;
  bool absent = false;
  /// The earlier view whose memory it is; -1 for none.
  int same_as = -1;
  /// Its elements on the CPU, dimensions that repeat once with size 1; undefined where the kernel only writes it.
  Tensor elements;
};

/// A parameter that is a number or a list of them.
struct KeptAttribute {
  std::string name;
  int kind;
  /// Whole numbers, or doubles.
  std::vector<int64_t> whole;
  std::vector<double> real;
};

struct KeptCall {
  std::string kernel, variant_name, op, file, device;
  int64_t line = 0;
  bool backward = false;
  int variant = -1, outputs = 0;
  /// Which view had what.
  int bad = 0;
  bool nan = false, inf = false;
  std::vector<KeptView> views;
  std::vector<KeptAttribute> attributes;
  std::vector<Tensor> arrived;
  /// The op's own call, where it was found.
  std::optional<OpCall> call;
};

inline constexpr const char* call_file = "call.json";
inline constexpr const char* tensor_file = "tensors.safetensors";

/// Sizes with 1 for each dimension that repeats.
Dims sizes_once(const Layout& layout);
/// All of a kernel's call but elements, and its views.
KeptCall listed_call(const WeftKernelCall& call, std::vector<View>& views);
/// The elements of a view on its own device, without repetitions.
Tensor elements_of(const View& view);
void write_call(const KeptCall& call, const Path& folder, Location where);
KeptCall read_call(const Path& folder, Location where);

}  // namespace weft::io
