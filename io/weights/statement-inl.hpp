// The parsed statements of a mapping. Internal to io/.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "../../tensor/dims.hpp"
#include "../../tensor/dtype.hpp"
#include "../../tensor/error.hpp"

namespace weft::io {

/// A name with variables in place of digits.
struct NamePattern {
  struct Part {
    std::string text;
    bool variable = false;
  };
  /// Empty for `_`.
  std::vector<Part> parts;
  int column = 0;

  bool is_nothing() const { return parts.empty(); }
  /// Sorted and unique.
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

/// The sources, or the destination, may be a single `_`. Otherwise the attributes produce one tensor per destination,
/// and all names contain the same variables.
struct Statement {
  std::vector<NamePattern> sources, destinations;
  std::vector<Attribute> attributes;
  int line = 0;
  std::string text;

  bool leaves() const { return sources.front().is_nothing(); }
  bool drops() const { return destinations.size() == 1 && destinations.front().is_nothing(); }
};

/// Location of an error in a mapping.
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

/// Raises FormatError. `path` is only used in messages and may be empty.
std::vector<Statement> parse_statements(std::string_view text, const std::string& path, Location where);

}  // namespace weft::io
