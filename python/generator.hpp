// weft.Generator objects; they have numbers too, by which functions of nn.init name them.
#pragma once

#include <cstdint>
#include <optional>

#include "../tensor/generator.hpp"

#include "object.hpp"

namespace weft::python {

/// nullptr for none; ValueError where no such generator lives.
Generator* find_generator(std::optional<int64_t> number);
/// The generator of a weft.Generator object; nullptr where it is none.
Generator* to_generator(PyObject* object);

}  // namespace weft::python
