// The statements of a mapping, as they are written. Internal to io/.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "../../tensor/dims.hpp"
#include "../../tensor/dtype.hpp"
#include "../../tensor/error.hpp"

namespace weft::io {

/// A name in which variables stand for digits.
struct NamePattern {
  struct Part {
    std::string text;
    bool variable = false;
  };
  /// Empty for `_`.
  std::vector<Part> parts;
  int column = 0;

  bool is_nothing() const { return parts.empty(); }
  /// Sorted, each once.
  std::vector<std::string> variables() const;
};

struct Attribute {
  enum class Kind : uint8_t { axis, permute, dtype } kind;
  int axis = 0;
  /// Empty reverses the dimensions.
  Dims permutation = {};
  DType dtype = DType::f32;
  int column = 0;
};

/// Its sources, or its destination, may be nothing but `_`; otherwise the attributes make as many tensors as there are
/// destinations, and where there are variables every name has all of them.
struct Statement {
  std::vector<NamePattern> sources, destinations;
  std::vector<Attribute> attributes;
  int line = 0;
  /// For words about it.
  std::string text;

  bool leaves() const { return sources.front().is_nothing(); }
  bool drops() const { return destinations.size() == 1 && destinations.front().is_nothing(); }
};

/// The place of an error in a mapping.
struct MappingPlace {
  const std::string& path;
  int line, column;
  std::string_view text;
};

/// "layers.map, line 3, column 8: a, b -> c"
std::string words_of(const MappingPlace& place);

template <class E>
[[noreturn]] void raise_at(const MappingPlace& place, const std::string& problem, Location where) {
  raise<E>({.op = "Mapping", .problem = problem, .details = words_of(place)}, where);
}

/// FormatError; `path` is for messages, and may be empty.
std::vector<Statement> parse_statements(std::string_view text, const std::string& path, Location where);

}  // namespace weft::io
