// Tensors as JSON text, for people, small files and other programs. Values round-trip bit for bit, except for NaN
// payloads.
#pragma once

#include <string>
#include <string_view>

#include "safetensors.hpp"

namespace weft::io {

/// Returns the tensors as {"format_version": "1.0", "metadata": {...}, "tensors": {"a": {"dtype": "float32", "shape":
/// [2], "data": [1.0, 2.5]}}}, elements in row-major order. Floats have the fewest digits that round-trip in their
/// dtype; values that are not finite are "NaN", "Infinity" and "-Infinity"; the bits of a NaN are not kept. Accepts any
/// dtype, device and strides. Raises ValueError for an undefined or meta tensor, and for names and metadata that are
/// not UTF-8.
WEFT_API std::string tensors_to_json(const TensorMap& tensors, const Metadata& metadata = {}, Location where = {});

struct JsonTensors {
  TensorMap tensors;
  Metadata metadata;
};

/// Parses such a text into CPU tensors. Decimals are rounded once to the dtype. Values beyond its range become
/// infinite; in 8-bit floats without infinity they become NaN with a warning. "dtype" and "shape" must precede "data".
/// Raises FormatError, with the byte or the tensor, for malformed text, integers out of range and a number of
/// elements that does not match the shape; VersionError for a newer major version.
WEFT_API JsonTensors tensors_from_json(std::string_view text, Location where = {});

}  // namespace weft::io
