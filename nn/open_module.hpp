// Modules with members that are added and removed at run time.
#pragma once

#include "module.hpp"

namespace weft::nn {

/// A module that is assembled from outside: by a language binding, or by a program that reads its layers from a file.
/// It holds the given tensors themselves, so that their other holders share them. `to` moves a Parameter, a Buffer and
/// tensors created by `own` in place, and replaces others. Copies share their state, as for all modules.
class WEFT_API OpenModule : public Module {
 public:
  explicit OpenModule(std::string class_name);
  /// Opens `module` itself under another class name.
  OpenModule(const Module& module, std::string class_name);

  /// Registers `tensor` as the last member, or replaces a member of the same type and name; a member of another type
  /// with this name is removed. Raises ValueError for an undefined tensor, and for a name that is empty, contains a dot
  /// or belongs to a parametrized tensor.
  void set_parameter(const std::string& name, const Tensor& tensor, Location where = {});
  void set_buffer(const std::string& name, const Tensor& tensor, bool saved = true, Location where = {});
  /// Raises ValueError also if `module` contains this one.
  void set_module(const std::string& name, const Module& module, Location where = {});
  /// Returns false if there is no member of that name.
  bool remove(std::string_view name);

  /// Undefined, or nothing, if this module has no member of that name.
  Tensor parameter(std::string_view name) const;
  Tensor buffer(std::string_view name) const;
  std::optional<Module> child(std::string_view name) const;
  /// The names of this module's own members, in order.
  std::vector<std::string> parameter_names() const;
  std::vector<std::string> buffer_names() const;
  /// False for a buffer that `state_dict` excludes.
  bool is_saved(std::string_view buffer) const;

  /// Converts one parameter or buffer of this module, as `to` converts all. Raises KeyError if it does not exist.
  void set_dtype(std::string_view name, DType dtype, Location where = {});
  /// Sets the mode of this module alone; `train` also sets that of its children.
  void set_training(bool on);
  using Module::hooks;
  using Module::set_extra_repr;
  /// Does not change the result of `text`.
  void set_config(const Config& config);

  /// For language bindings that collect cycles of references: how many references to `tensor` the registry and the
  /// registered members have, how many to the state of `child`, and how many handles share this module's own state.
  int64_t references_to(const Tensor& tensor) const;
  int64_t references_to(const Module& child) const;
  int64_t handles() const;

  /// A tensor over the memory of `tensor` that `to` moves in place.
  static Tensor own(const Tensor& tensor, Location where = {});
};

}  // namespace weft::nn
