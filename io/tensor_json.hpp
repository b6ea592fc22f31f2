// Tensors as JSON text, for people, small files and other programs: every value comes back with the same bits.
#pragma once

#include <string>
#include <string_view>

#include "safetensors.hpp"

namespace weft::io {

/// {"format_version": "1.0", "metadata": {...}, "tensors": {"a": {"dtype": "float32", "shape": [2], "data":
/// [1.0, 2.5]}}}, elements in row-major order. Floats have the fewest digits that give them again in their dtype, and
/// are "NaN", "Infinity" and "-Infinity" where they are not finite; the bits of a NaN are not kept. Any dtype, device
/// and strides. ValueError for an undefined or meta tensor, and for names and metadata that are not UTF-8.
WEFT_API std::string tensors_to_json(const TensorMap& tensors, const Metadata& metadata = {}, Location where = {});

struct JsonTensors {
  TensorMap tensors;
  Metadata metadata;
};

/// The tensors of such a text, on the CPU. Decimals are rounded once into the dtype; beyond its range they are
/// infinite, and NaN with a warning in float8_e4m3fn, which has no infinity. "dtype" and "shape" stand before "data".
/// FormatError, with the byte or the tensor, for malformed text, integers out of range and another number of elements
/// than the shape has; VersionError for a newer major version.
WEFT_API JsonTensors tensors_from_json(std::string_view text, Location where = {});

}  // namespace weft::io
