// torch::save, torch::load and torch::pickle_save.
#pragma once

#include <sstream>
#include <vector>

#include <torch/nn/module.h>
#include <torch/serialize/archive.h>

namespace torch {

namespace serialize::detail {
OutputArchive& write_tensor(OutputArchive& archive, const Tensor& tensor);
InputArchive& read_tensor(InputArchive& archive, Tensor& tensor);
}  // namespace serialize::detail

inline serialize::OutputArchive& operator<<(serialize::OutputArchive& archive, const Tensor& tensor) {
  return serialize::detail::write_tensor(archive, tensor);
}
inline serialize::InputArchive& operator>>(serialize::InputArchive& archive, Tensor& tensor) {
  return serialize::detail::read_tensor(archive, tensor);
}
template <class M>
requires std::is_base_of_v<nn::Module, M> serialize::OutputArchive& operator<<(serialize::OutputArchive& archive,
                                                                               const std::shared_ptr<M>& module) {
  module->save(archive);
  return archive;
}
template <class M>
requires std::is_base_of_v<nn::Module, M> serialize::InputArchive& operator>>(serialize::InputArchive& archive,
                                                                              std::shared_ptr<M>& module) {
  module->load(archive);
  return archive;
}

/// Saves a tensor, a module, or an optimizer to a file name, a stream or a function.
template <class Value, class... Target>
void save(const Value& value, Target&&... target) {
  serialize::OutputArchive archive;
  archive << value;
  archive.save_to(std::forward<Target>(target)...);
}
/// Saves several tensors, read as `load(tensors, name)`.
template <class... Target>
void save(const std::vector<Tensor>& tensors, Target&&... target) {
  serialize::OutputArchive archive;
  for (size_t i = 0; i < tensors.size(); ++i) archive.write(std::to_string(i), tensors[i]);
  archive.save_to(std::forward<Target>(target)...);
}
template <class Value, class... Source>
void load(Value& value, Source&&... source) {
  serialize::InputArchive archive;
  archive.load_from(std::forward<Source>(source)...);
  archive >> value;
}
template <class... Source>
void load(std::vector<Tensor>& tensors, Source&&... source) {
  serialize::InputArchive archive;
  archive.load_from(std::forward<Source>(source)...);
  Tensor value;
  for (size_t i = 0; archive.try_read(std::to_string(i), value); ++i) {
    tensors.push_back(std::move(value));
    value = Tensor();
  }
}

/// The bytes of a value as Python's torch.save writes them.
std::vector<char> pickle_save(const c10::IValue& ivalue);
/// Reads the bytes of a file of torch.save. Raises FormatError.
c10::IValue pickle_load(const std::vector<char>& data);

}  // namespace torch
