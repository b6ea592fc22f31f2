// The parameters of a kernel, with what their types in its row (kernel_rows.hpp) say.
#pragma once

#include <algorithm>
#include <string_view>

namespace weft {

/// From the text of the parameters, "(Out out, Out rstd, In x, Shared weight, double epsilon)".
struct KernelRow {
  struct Parameter {
    char name[20] = {};
    bool written = false, slots = false, shared = false;
  };
  Parameter parameters[16] = {};
  int count = 0;

  constexpr explicit KernelRow(std::string_view text) {
    for (text = text.substr(1); !text.empty(); ++count) {
      const std::string_view parameter = text.substr(0, text.find_first_of(",)"));
      text.remove_prefix(std::min(parameter.size() + 2, text.size()));
      const size_t space = parameter.rfind(' ');
      const std::string_view type = parameter.substr(0, space), name = parameter.substr(space + 1);
      Parameter& p = parameters[count];
      p.written = type.ends_with("Out");
      p.shared = type.starts_with("Shared");
      p.slots = type.find("OptimizerSlot") != type.npos;
      std::copy(name.begin(), name.end(), p.name);
    }
  }

  /// How many of the leading views the kernel writes.
  constexpr int outputs(int of_slots) const {
    int written = 0;
    for (const Parameter& p : parameters) written += p.slots ? of_slots : p.written;
    return written;
  }
};

}  // namespace weft
