// Modules whose members come and go at run time.
#pragma once

#include "module.hpp"

namespace weft::nn {

/// A module that is put together from outside: by a binding to another language, or by a program that reads its layers
/// from a file. It holds the tensors themselves that it is given, so that their other holders see the same ones; `to`
/// moves those in place that are a Parameter, a Buffer or made by `own`, and replaces others. Copies share as those of
/// all modules.
class WEFT_API OpenModule : public Module {
 public:
  explicit OpenModule(std::string class_name);
  /// `module` itself, opened under another name.
  OpenModule(const Module& module, std::string class_name);

  /// Registers `tensor` after the others, or in the place of a member of its kind and name; one of another kind goes.
  /// ValueError for a name that is empty, holds a dot or is that of a parametrized tensor, and for an undefined tensor.
  void set_parameter(const std::string& name, const Tensor& tensor, Location where = {});
  void set_buffer(const std::string& name, const Tensor& tensor, bool saved = true, Location where = {});
  /// ValueError also where `module` holds this one.
  void set_module(const std::string& name, const Module& module, Location where = {});
  /// False where there is no member of that name.
  bool remove(std::string_view name);

  /// Undefined where there is none of that name here.
  Tensor parameter(std::string_view name) const;
  Tensor buffer(std::string_view name) const;
  std::optional<Module> child(std::string_view name) const;
  /// The names of this module alone, in order.
  std::vector<std::string> parameter_names() const;
  std::vector<std::string> buffer_names() const;
  /// False for a buffer that `state_dict` leaves out.
  bool is_saved(std::string_view buffer) const;

  /// Converts one parameter or buffer of this module, as `to` does all. KeyError where there is none of this name.
  void set_dtype(std::string_view name, DType dtype, Location where = {});
  /// This module alone; `train` switches those below, too.
  void set_training(bool on);
  using Module::adapter;
  using Module::hooks;
  using Module::set_extra_repr;
  /// Without a change of what `text` shows.
  void set_config(const Config& config);

  /// A tensor over the memory of `tensor` that `to` moves in place.
  static Tensor own(const Tensor& tensor, Location where = {});
};

}  // namespace weft::nn
