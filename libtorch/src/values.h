// Values of archives in the pickles of PyTorch.
#pragma once

#include <ATen/core/ivalue.h>
#include <torch/serialize/archive.h>

#include "../../io/archive/pickle_writer-inl.hpp"
#include "../../io/pt.hpp"

namespace torch::serialize::detail {

/// The type of a value in TorchScript, such as "List[int]".
std::string type_of(const c10::IValue& value);
/// Raises DTypeError for a tensor whose dtype PyTorch lacks.
void write(weft::io::PickleWriter& pickle, const c10::IValue& value, const char* op);
/// Raises NotImplementedError for a value that no IValue holds.
c10::IValue value_of(const weft::io::PtValue& value);
/// An integer that libtorch saves as a tensor. Raises ValueError unless the tensor has one element.
int64_t read_integer(InputArchive& archive, const std::string& key);

}  // namespace torch::serialize::detail
