// A parametrized tensor of a module, stored in the module's state. Internal to nn/.
#pragma once

#include "../../tensor/atomic.hpp"
#include "../parametrize.hpp"
#include "../registry.hpp"

namespace weft::nn::detail {

struct ParametrizedTensor {
  std::string name;
  // The tensor that layers' members refer to, before and after the parametrization.
  ModuleTensor member;
  // Child `name` of the module's child "parametrizations": holds the originals, and the steps by number.
  Module list;
  std::vector<Parametrization> steps;
  bool is_parameter = true, saved = true, unsafe = false;
  // Whether any forward requested the value, and the hook that warns if none does.
  Shared<Atomic<bool>> asked = Shared<Atomic<bool>>::make(false);
  HookHandle watch = {};

  std::vector<Tensor> originals() const;
  /// Whether the originals are named original0 and so on.
  bool numbered() const;
  /// Raises ValueError if a step returns no tensor.
  Tensor value(Location where) const;
};

constexpr const char* parametrizations = "parametrizations";

/// Null if the module has no parametrized tensor of that name.
ParametrizedTensor* find_parametrized(const Module& module, std::string_view name);
/// The current tensor of that name. Raises ValueError if the module has no such parameter, buffer or parametrized
/// tensor.
Tensor present_tensor(const char* op, const Module& module, std::string_view name, Location where);
/// The computed value of a member; undefined if the member is not parametrized.
Tensor parametrized_value(const Module& module, const ModuleTensor& member, Location where);
/// Adds a parametrization with existing originals and steps, as read by a binding.
void adopt_parametrized(const Module& module, ParametrizedTensor parametrized);

/// Renames "weight_g" and "weight_v", the names of PyTorch's older weight_norm, to the originals' names; nothing if
/// there are none.
std::optional<StateDict> with_present_names(const Module& module, const StateDict& values);

/// Builds a parametrization step of a user-defined class from its description.
using StepMaker = Callback<AnyModule(const ModuleDescription& step, const std::string& path)>;
/// Parametrizes the tensors of a model according to a description. Raises ValueError if the model has no tensor of such
/// a name.
void parametrize_described(const ModuleDescription& description, const Module& model, const StepMaker& make,
                           Location where);

}  // namespace weft::nn::detail
