// weft.Generator objects by number, so that a generator travels through an op's boxed arguments.
#pragma once

#include <cstdint>
#include <optional>

#include "../tensor/generator.hpp"

namespace weft::python {

/// nullptr for none; ValueError where no such generator lives.
Generator* find_generator(std::optional<int64_t> number);

}  // namespace weft::python
