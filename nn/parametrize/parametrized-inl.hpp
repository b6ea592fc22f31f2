// One parametrized tensor of a module, which its state holds. Internal to nn/.
#pragma once

#include "../../tensor/atomic.hpp"
#include "../parametrize.hpp"
#include "../registry.hpp"

namespace weft::nn::detail {

struct ParametrizedTensor {
  std::string name;
  // What the members of layers are handles of: the tensor before, and after.
  ModuleTensor member;
  // Child `name` of the module's child "parametrizations": it holds the originals, and the steps by their number.
  Module list;
  std::vector<Parametrization> steps;
  bool is_parameter = true, saved = true, unsafe = false;
  // Whether a forward has asked for the value, and what warns where none does.
  Shared<Atomic<bool>> asked = Shared<Atomic<bool>>::make(false);
  HookHandle watch = {};

  std::vector<Tensor> originals() const;
  /// Whether they are original0 and so on.
  bool numbered() const;
  /// ValueError where a step gives no tensor.
  Tensor value(Location where) const;
};

constexpr const char* parametrizations = "parametrizations";

/// Null where the module has no parametrized tensor of that name.
ParametrizedTensor* find_parametrized(const Module& module, std::string_view name);
/// The tensor of that name as it is now. ValueError where the module has no such parameter, buffer or parametrized
/// tensor.
Tensor present_tensor(const char* op, const Module& module, std::string_view name, Location where);
/// What stands in the place of a member of the module: undefined where that is not parametrized.
Tensor parametrized_value(const Module& module, const ModuleTensor& member, Location where);
/// Parametrizes with a list that has originals and steps already, as a binding reads it from elsewhere.
void adopt_parametrized(const Module& module, ParametrizedTensor parametrized);

/// The values with "weight_g" and "weight_v", which PyTorch's older weight_norm saved, under the originals' names;
/// nothing where there are none.
std::optional<StateDict> with_present_names(const Module& module, const StateDict& values);

/// Builds a step of a user's class from its description.
using StepMaker = Callback<AnyModule(const ModuleDescription& step, const std::string& path)>;
/// Parametrizes the tensors of a model that are described so. ValueError where the model has none of such a name.
void parametrize_described(const ModuleDescription& description, const Module& model, const StepMaker& make,
                           Location where);

}  // namespace weft::nn::detail
