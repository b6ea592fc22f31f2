// The parameters of a kernel as its row in WEFT_KERNELS (dispatch.hpp) has them.
#pragma once

#include <string_view>

namespace weft {

/// The text of a row: "out*, x, weight=, epsilon".
struct KernelRow {
  struct Parameter {
    char name[20] = {};
    bool written = false, slots = false, shared = false;
  };
  Parameter parameters[16] = {};
  int count = 1;

  constexpr explicit KernelRow(std::string_view text) {
    size_t length = 0;
    for (const char c : text) {
      Parameter& p = parameters[count - 1];
      if (c == ',') ++count, length = 0;
      else if (c == '*') p.written = true;
      else if (c == '+') p.slots = true;
      else if (c == '=') p.shared = true;
      else if (c != ' ') p.name[length++] = c;
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
