// Taking a schema apart. Not public: a record has its signature.
#pragma once

#include "../record.hpp"

namespace weft {

/// The types that a schema says itself, argument by argument: "axis: int = 0", "b: Tensor = None", "ws: Tensor[]",
/// "dim: int? = None". ValueError for a text that is no schema or names no type.
std::vector<std::optional<ArgumentType>> annotations_in(std::string_view schema);

/// ValueError where the schema does not fit the types, of which there is one for each argument.
Signature parse_schema(std::string_view schema, std::span<const ArgumentType> types);

}  // namespace weft
